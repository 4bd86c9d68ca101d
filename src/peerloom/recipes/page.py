"""Outcomes as HTML pages that load nothing: pictures, verdicts and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ..reports.picture import Picture
from ..reports.sheet import NARROW, draw
from .summary import (
    ESTIMATED,
    MISSING,
    READ,
    TIMED,
    TIMES,
    VERDICTS,
    counted,
    numbers_table,
    ran,
    time_rows,
    title,
    verdict_rows,
)

__all__ = ["page", "shown", "tabled", "to_html"]

_STYLE = """
:root{color-scheme:light dark}*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:0;color:#1d2330;background:#fff}
main{max-width:76rem;margin:0 auto;padding:1.5rem}h1{line-height:1.25;overflow-wrap:anywhere}
table{border-collapse:collapse;margin:.6rem 0 1rem;font-size:14px}
td,th{padding:.3rem .7rem;border-bottom:1px solid #dfe3ea;text-align:left;vertical-align:top}
th{font-weight:600}.wide{overflow-x:auto}.holds{color:#136f3a}.fails{color:#a4161a}.open{color:#6b5900}
.numbers td{white-space:pre}.verdicts td:nth-last-child(3){min-width:16rem}
h2{margin-top:2.2rem}p{margin:.4rem 0;overflow-wrap:anywhere}code{background:#f1f3f7;padding:.1rem .3rem;border-radius:3px}
figure{margin:1rem 0;border:1px solid #dfe3ea;border-radius:8px;padding:.3rem;max-width:57rem}
figure svg{display:block;width:100%;height:auto}figcaption{color:#5d6873;font-size:13px;padding:.2rem .6rem}
.slim{display:none}
@media(max-width:760px){main{padding:.8rem}.broad{display:none}.slim{display:block}}
@media(prefers-color-scheme:dark){body{background:#14171d;color:#e3e6ec}td,th,figure{border-color:#323844}a{color:#7db7ff}
code{background:#232833}figure{background:#1a1e23}figcaption{color:#a7b1bb}.holds{color:#5fcf8e}.fails{color:#ff8a8a}.open{color:#e0c34a}}
"""
_MARKS = {"holds": "holds", "does not hold": "fails", "not decided here": "open"}


def to_html(
    found: Sequence[dict[str, Any]],
    pictures: Mapping[str, Sequence[Picture]],
    estimates: Sequence[dict[str, Any]] = (),
    missing: Sequence[str] = (),
) -> str:
    """One page of these outcomes; `pictures` are by folder. An outcome by itself has its own title."""
    whole = len(found) > 1
    parts = [f"<p>{escape(counted(found))}</p><p>{escape(READ)}</p>", tabled(VERDICTS, verdict_rows(found), "verdicts")]
    parts = parts if whole else []
    for one in found:
        parts += [f"<h2>{escape(title(one))}</h2>"] if whole else []
        parts.append(f"<p><code>{escape(one['command'])}</code></p>")
        parts += [f"<p>{escape(said)}</p>" for said in [*one["said"], ran(one)]]
        if not whole:
            parts += [tabled(VERDICTS[2:], [row[2:] for row in verdict_rows([one])], "verdicts"), f"<p>{escape(READ)}</p>"]
        parts += [shown(picture) for picture in pictures.get(one["folder"], ())]
        heads, rows = numbers_table(one, apart="\n")
        parts.append(tabled(heads, rows, "numbers") if rows else "")
    if estimates:
        parts += [f"<h2>{ESTIMATED}</h2><p>{TIMED}</p>", tabled(TIMES, time_rows(estimates))]
    if missing:
        parts += [f"<h2>{MISSING}</h2>", *(f"<p>{escape(one)}</p>" for one in missing)]
    return page("Reproduction" if whole else title(found[0]), parts)


def page(heading: str, parts: Iterable[str]) -> str:
    """The frame of a page."""
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(heading)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main><h1>{escape(heading)}</h1>\n{body}\n</main></body></html>\n"
    )


def shown(picture: Picture) -> str:
    """A picture in the page, drawn for wide and for narrow screens."""
    about = f"<figcaption>{escape(picture.about)}</figcaption>" if picture.about else ""
    both = f'<div class="broad">{draw(picture)}</div><div class="slim">{draw(picture, NARROW)}</div>'
    return f"<figure>{both}{about}</figure>"


def tabled(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table of plain text; verdicts have their colours."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(
        "<tr>" + "".join(f'<td class="{_MARKS.get(cell, "")}">{escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table class="{kind}"><tr>{head}</tr>{body}</table></div>'
