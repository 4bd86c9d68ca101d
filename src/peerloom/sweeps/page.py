"""The frame of HTML pages that load nothing: heading, pictures, tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from types import MappingProxyType

from ..reports.picture import Picture
from ..reports.sheet import NARROW, draw

__all__ = ["page", "shown", "tabled"]

_UNMARKED: Mapping[str, str] = MappingProxyType({})
_STYLE = """
:root{color-scheme:light dark}*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:0;color:#1d2330;background:#fff}
main{max-width:76rem;margin:0 auto;padding:1.5rem}h1{line-height:1.25;overflow-wrap:anywhere}
table{border-collapse:collapse;margin:.6rem 0 1rem;font-size:14px}
td,th{padding:.3rem .7rem;border-bottom:1px solid #dfe3ea;text-align:left;vertical-align:top}
th{font-weight:600}.wide{overflow-x:auto}
.holds{color:#136f3a}.fails{color:#a4161a}.open{color:#6b5900}
.numbers td{white-space:pre}.verdicts td:nth-last-child(3){min-width:16rem}
h2{margin-top:2.2rem}p{margin:.4rem 0;overflow-wrap:anywhere}
code{background:#f1f3f7;padding:.1rem .3rem;border-radius:3px}
figure{margin:1rem 0;border:1px solid #dfe3ea;border-radius:8px;padding:.3rem;max-width:57rem}
figure svg{display:block;width:100%;height:auto}
figcaption{color:#5d6873;font-size:13px;padding:.2rem .6rem}
.slim{display:none}
@media(max-width:760px){main{padding:.8rem}.broad{display:none}.slim{display:block}}
@media(prefers-color-scheme:dark){body{background:#14171d;color:#e3e6ec}td,th,figure{border-color:#323844}
a{color:#7db7ff}
code{background:#232833}figure{background:#1a1e23}figcaption{color:#a7b1bb}
.holds{color:#5fcf8e}.fails{color:#ff8a8a}.open{color:#e0c34a}}
"""


def page(heading: str, parts: Iterable[str]) -> str:
    """A whole HTML page with this heading."""
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(heading)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main><h1>{escape(heading)}</h1>\n{body}\n</main></body></html>\n"
    )


def shown(picture: Picture) -> str:
    """A picture as a figure of the page, drawn for wide and for narrow screens."""
    about = f"<figcaption>{escape(picture.about)}</figcaption>" if picture.about else ""
    both = (
        f'<div class="broad">{draw(picture)}</div><div class="slim">{draw(picture, NARROW)}</div>'
    )
    return f"<figure>{both}{about}</figure>"


def tabled(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    kind: str = "",
    marks: Mapping[str, str] = _UNMARKED,
) -> str:
    """A table of plain text; `marks` gives the CSS class of cells with that text."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{marks.get(cell, "")}">{escape(cell)}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table class="{kind}"><tr>{head}</tr>{body}</table></div>'
