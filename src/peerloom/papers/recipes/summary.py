"""Outcomes of many reproductions: verdicts and numbers as tables, and a Markdown page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core import DataError
from ...reports.picture import Picture
from .recipe import Recipe

__all__ = [
    "ESTIMATE",
    "ESTIMATED",
    "FILE",
    "MISSING",
    "READ",
    "TIMED",
    "TIMES",
    "VERDICTS",
    "counted",
    "find_estimates",
    "find_outcomes",
    "not_run",
    "numbers_table",
    "ran",
    "time_rows",
    "title",
    "to_markdown",
    "verdict_rows",
]

FILE = "outcome.json"  # in the folder of every reproduction
ESTIMATE = "estimate.json"  # and of every estimate that was kept
_COMPAT = ", with what the authors' code did"
_FORMS = {"paper": "as in the paper", "fit": "smaller", "tiny": "tiny, nothing decided"}


def find_outcomes(places: Sequence[Path]) -> list[dict[str, Any]]:
    """The outcomes at or below these folders, paper by paper, each with the folder it lies in."""
    found = _documents(places, FILE)
    if not found:
        raise DataError(
            f"There is no {FILE} below {', '.join(map(str, places))}. Give folders that `peerloom "
            "reproduce` made."
        )
    return found


def find_estimates(places: Sequence[Path]) -> list[dict[str, Any]]:
    """What `--estimate` has left at or below these folders, paper by paper."""
    return _documents(places, ESTIMATE)


def _documents(places: Sequence[Path], name: str) -> list[dict[str, Any]]:
    found = []
    for file in (file for place in places for file in sorted(place.rglob(name))):
        try:
            found.append(
                json.loads(file.read_text(encoding="utf-8")) | {"folder": str(file.parent)}
            )
        except ValueError as error:
            raise DataError(
                f"{file} cannot be read ({error}). Give the reproduction's command again."
            ) from error
    return sorted(found, key=lambda one: (str(one["paper"]), _ranked(str(one["figure"]))))


def to_markdown(
    found: Sequence[dict[str, Any]],
    pictures: Mapping[str, Sequence[tuple[str, Picture]]],
    estimates: Sequence[dict[str, Any]] = (),
    missing: Sequence[str] = (),
) -> str:
    """One page of these outcomes.

    `pictures` are by the outcome's folder, each with the address of its file; `missing` was not
    run.
    """
    lines = ["# Reproduction", "", counted(found), "", READ, ""]
    lines += _markdown(VERDICTS, verdict_rows(found))
    for one in found:
        lines += ["", f"## {title(one)}", "", f"`{one['command']}`", ""]
        lines += [f"- {said}" for said in [*one["said"], ran(one)]]
        for address, picture in pictures.get(one["folder"], ()):
            lines += [
                "",
                f"![{picture.title}]({address})",
                *(["", picture.about] if picture.about else []),
            ]
        heads, rows = numbers_table(one)
        if rows:
            lines += ["", *_markdown(heads, rows)]
    if estimates:
        lines += ["", f"## {ESTIMATED}", "", TIMED, "", *_markdown(TIMES, time_rows(estimates))]
    if missing:
        lines += ["", f"## {MISSING}", "", *(f"- {one}" for one in missing)]
    return "\n".join(lines) + "\n"


def not_run(
    found: Iterable[dict[str, Any]], there: Mapping[str, Mapping[str, Recipe]]
) -> list[str]:
    """Paper by paper, the figures and tables that were not run."""
    run = {(one["paper"], one["figure"]) for one in found}
    rest = {
        paper: [name for name in recipes if (paper, name) not in run]
        for paper, recipes in there.items()
    }
    return [f"{paper}: {', '.join(names)}" for paper, names in rest.items() if names]


MISSING = "Not run here"
VERDICTS = ("paper", "figure", "claim", "verdict", "measured", "seeds", "form")
READ = (
    "A claim holds or fails by the quartiles over seeds: both on one side of its limit. Where "
    "they lie on both sides, or nothing was measured, it is not decided here. With a single seed "
    "its one value decides, which says nothing about chance; losses and accuracies that then "
    "differ by less than 0.001 decide nothing. A lead is positive where the claim has it so, also "
    "of losses and delays. A claim about many places fails with the weakest of them, which is "
    "named. Delays are those of the algorithm's own account, a communication round is one in "
    "which every client hears. Trackers and directions are DEPOSITUM's y and nu."
)


ESTIMATED = "How long others take"
TIMED = (
    "A few rounds were timed on this machine, the rest counted: hours of one core, for runs one "
    "after another."
)
TIMES = ("command", "runs", "rounds, in all runs", "hours")


def title(one: dict[str, Any]) -> str:
    """The title of an outcome's section."""
    return f"{one['paper']} {one['figure']}{_COMPAT if one.get('compat') else ''}: {one['title']}"


def time_rows(estimates: Iterable[dict[str, Any]]) -> list[list[str]]:
    """A row for every estimate, under the heads of TIMES."""
    return [
        [
            one["command"],
            str(sum(part["runs"] for part in one["parts"])),
            f"{sum(part['runs'] * part['rounds'] for part in one['parts']):,}",
            f"{one['seconds'] / 3600:,.1f}",
        ]
        for one in estimates
    ]


def counted(found: Iterable[dict[str, Any]]) -> str:
    """How many were run, and how their claims came out."""
    every = list(found)
    verdicts = [verdict for one in every for verdict in one["verdicts"]]
    counts = Counter(verdict["answer"] for verdict in verdicts)
    holds, fails, rest = (
        counts[answer] for answer in ("holds", "does not hold", "not decided here")
    )
    once = sum(
        verdict["seeds"] == 1 and verdict["answer"] != "not decided here" for verdict in verdicts
    )
    apart = len({(one["paper"], one["figure"]) for one in every})
    twice = (
        f", {len(every) - apart} times one of them again in another form"
        if apart < len(every)
        else ""
    )
    said = (
        f"Claims: {len(verdicts)}, of which hold: {holds}, do not hold: {fails}, not decided "
        f"here: {rest}."
    )
    return f"Figures and tables run: {apart}{twice}. {said} Decided by one seed: {once}."


def verdict_rows(found: Iterable[dict[str, Any]]) -> list[list[str]]:
    """A row for every claim, under the heads of VERDICTS."""
    return [
        [
            one["paper"],
            one["figure"],
            v["claim"],
            v["answer"],
            v["measured"],
            str(v["seeds"]),
            _form(one),
        ]
        for one in found
        for v in one["verdicts"]
    ]


def _form(one: dict[str, Any]) -> str:
    run, there = one["points"]
    compat = _COMPAT if one.get("compat") else ""
    return _FORMS[one["form"]] + compat + (f", {run} of {there} points" if run < there else "")


def ran(one: dict[str, Any]) -> str:
    """How much was run."""
    diverged = f"; {one['diverged']} runs diverged" if one["diverged"] else ""
    return (
        f"Seeds: {one['seeds']}. Seconds of rounds, without evaluation: "
        f"{one['seconds']:,.0f}{diverged}."
    )


def numbers_table(one: dict[str, Any], apart: str = " ") -> tuple[list[str], list[list[str]]]:
    """Medians over seeds: a row for each point and reading, a column per algorithm.

    The paper's numbers follow in brackets. `apart` stands between median, quartiles and the
    paper's number.
    """
    labels = list(dict.fromkeys(number["label"] for number in one["numbers"]))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for number in one["numbers"]:
        text = "never" if number.get("never") else _value(number["median"], number["share"])
        if number["seeds"] > 1:
            low, high = (_value(number[end], number["share"]) for end in ("low", "high"))
            text += f"{apart}({low} to {high})"
        if number["paper"] is not None:
            text += f"{apart}[{_value(number['paper'], number['share'])}]"
        rows.setdefault((number["point"], number["what"]), {})[number["label"]] = text
    heads = [one["varied"] or "", "median (quartiles) [paper]", *labels]
    return heads, [
        [point, what, *(cells.get(label, "") for label in labels)]
        for (point, what), cells in rows.items()
    ]


def _value(value: float | None, share: bool) -> str:
    if value is None:
        return "n/a"
    if share:
        return f"{100 * value:.1f} %"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _ranked(figure: str) -> tuple[str, int, str]:
    """fig2b before fig10a."""
    digits = "".join(letter for letter in figure if letter.isdigit())
    kind, rest = figure.split(digits, 1) if digits else (figure, "")
    return kind, int(digits or 0), rest


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(heads), line(["---"] * len(heads)), *(line(row) for row in rows)]
