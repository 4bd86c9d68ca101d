"""Verdicts of many reproductions on one page, in Markdown and in HTML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..core import DataError

__all__ = ["FILE", "find_outcomes", "numbers_table", "to_html", "to_markdown"]

FILE = "outcome.json"  # in the folder of every reproduction
_FORMS = {"paper": "as in the paper", "fit": "smaller", "tiny": "tiny, nothing decided"}
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:0;color:#1d2330;background:#fff}
main{max-width:76rem;margin:0 auto;padding:1.5rem}
table{border-collapse:collapse;margin:.6rem 0 1rem;font-size:14px}
td,th{padding:.3rem .7rem;border-bottom:1px solid #dfe3ea;text-align:left;vertical-align:top}
th{font-weight:600}.wide{overflow-x:auto}.holds{color:#136f3a}.fails{color:#a4161a}.open{color:#6b5900}
h2{margin-top:2.2rem}p{margin:.4rem 0}code{background:#f1f3f7;padding:.1rem .3rem;border-radius:3px}
@media(prefers-color-scheme:dark){body{background:#14171d;color:#e3e6ec}td,th{border-color:#323844}
code{background:#232833}.holds{color:#5fcf8e}.fails{color:#ff8a8a}.open{color:#e0c34a}}
"""


def find_outcomes(places: Sequence[Path]) -> list[dict[str, Any]]:
    """The outcomes at or below these folders, paper by paper."""
    files = [file for place in places for file in sorted(place.rglob(FILE))]
    if not files:
        raise DataError(
            f"There is no {FILE} below {', '.join(map(str, places))}. Give folders that `peerloom reproduce` made."
        )
    found = []
    for file in files:
        try:
            found.append(json.loads(file.read_text(encoding="utf-8")))
        except ValueError as error:
            raise DataError(f"{file} cannot be read ({error}). Give the reproduction's command again.") from error
    return sorted(found, key=lambda one: (str(one["paper"]), _ranked(str(one["figure"]))))


def to_markdown(found: Sequence[dict[str, Any]]) -> str:
    """One page."""
    lines = ["# Reproduction", "", _counted(found), "", _READ, ""]
    lines += _markdown(_VERDICTS, _verdict_rows(found))
    for one in found:
        lines += ["", f"## {one['paper']} {one['figure']}: {one['title']}", "", f"`{one['command']}`", ""]
        lines += [f"- {said}" for said in [*one["said"], _ran(one)]]
        heads, rows = numbers_table(one)
        if rows:
            lines += ["", *_markdown(heads, rows)]
    return "\n".join(lines) + "\n"


def to_html(found: Sequence[dict[str, Any]]) -> str:
    """The same, as a page that loads nothing."""
    parts = [f"<p>{escape(_counted(found))}</p><p>{escape(_READ)}</p>", _html(_VERDICTS, _verdict_rows(found))]
    for one in found:
        parts.append(f"<h2>{escape(one['paper'])} {escape(one['figure'])}: {escape(one['title'])}</h2>")
        parts.append(f"<p><code>{escape(one['command'])}</code></p>")
        parts += [f"<p>{escape(said)}</p>" for said in [*one["said"], _ran(one)]]
        heads, rows = numbers_table(one)
        parts.append(_html(heads, rows) if rows else "")
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Reproduction</title><style>{_STYLE}</style></head>\n<body><main><h1>Reproduction</h1>\n{body}\n</main></body></html>\n"
    )


_VERDICTS = ("paper", "figure", "claim", "verdict", "measured", "seeds", "form")
_READ = (
    "A claim holds or fails by the quartiles over seeds: both on one side of its limit. Where they lie on both sides, "
    "or nothing was measured, it is not decided here."
)


def _counted(found: Iterable[dict[str, Any]]) -> str:
    every = list(found)
    counts = Counter(verdict["answer"] for one in every for verdict in one["verdicts"])
    holds, fails, rest = (counts[answer] for answer in ("holds", "does not hold", "not decided here"))
    every_claim = holds + fails + rest
    said = f"Claims: {every_claim}, of which hold: {holds}, do not hold: {fails}, not decided here: {rest}."
    return f"Figures and tables run: {len(every)}. {said}"


def _verdict_rows(found: Iterable[dict[str, Any]]) -> list[list[str]]:
    return [
        [one["paper"], one["figure"], v["claim"], v["answer"], v["measured"], str(v["seeds"]), _form(one)]
        for one in found
        for v in one["verdicts"]
    ]


def _form(one: dict[str, Any]) -> str:
    run, there = one["points"]
    return _FORMS[one["form"]] + (f", {run} of {there} points" if run < there else "")


def _ran(one: dict[str, Any]) -> str:
    diverged = f"; {one['diverged']} runs diverged" if one["diverged"] else ""
    return f"Seeds: {one['seeds']}. Seconds of rounds, without evaluation: {one['seconds']:,.0f}{diverged}."


def numbers_table(one: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Medians over seeds, with the paper's numbers in brackets: a row for each point and reading, a column per algorithm."""
    labels = list(dict.fromkeys(number["label"] for number in one["numbers"]))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for number in one["numbers"]:
        text = _value(number["median"], number["share"])
        if number["seeds"] > 1:
            text += f" ({_value(number['low'], number['share'])} to {_value(number['high'], number['share'])})"
        if number["paper"] is not None:
            text += f" [{_value(number['paper'], number['share'])}]"
        rows.setdefault((number["point"], number["what"]), {})[number["label"]] = text
    heads = [one["varied"] or "", "median (quartiles) [paper]", *labels]
    return heads, [[point, what, *(cells.get(label, "") for label in labels)] for (point, what), cells in rows.items()]


def _value(value: float | None, share: bool) -> str:
    if value is None:
        return "n/a"
    return f"{100 * value:.1f} %" if share else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _ranked(figure: str) -> tuple[str, int, str]:
    """fig2b before fig10a."""
    digits = "".join(letter for letter in figure if letter.isdigit())
    kind, rest = figure.split(digits, 1) if digits else (figure, "")
    return kind, int(digits or 0), rest


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(heads), line(["---"] * len(heads)), *(line(row) for row in rows)]


def _html(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    marks = {"holds": "holds", "does not hold": "fails", "not decided here": "open"}
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(
        "<tr>" + "".join(f'<td class="{marks.get(cell, "")}">{escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
