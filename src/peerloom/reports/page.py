"""One self-contained page about some runs; it loads nothing from anywhere."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..runs import Run
from .canvas import THEME
from .cards import Charts
from .colours import colours_of
from .groups import grouped, quality_of
from .material import Material
from .sections import sections
from .story import basis, compared
from .summary import summary

__all__ = ["write_report"]

# Tells the browser to fetch nothing.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'"
)


def write_report(runs: list[Run], out: Path, title: str) -> Path:
    """Write the page, whole or not at all, and return its path."""
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(f".{out.name}.draft")
    draft.write_text(_page(runs, title), encoding="utf-8")
    draft.replace(out)
    return out


def _page(runs: list[Run], title: str) -> str:
    groups = grouped(runs)
    colours = colours_of([group.label for group in groups])
    material = Material(groups, quality_of(runs), summary(runs), colours)
    charts = Charts(colours)
    body = "\n".join(sections(material, charts))
    found = material.summary
    lead = "".join(f"<p>{escape(sentence)}</p>" for sentence in found.headline)
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_file("page.css")}{THEME}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="what">{escape(compared(groups))}</p>
<div class="headline">{lead}<p class="caption">{escape(basis(found))}</p></div>
{f'<div class="notes"><ul>{notes}</ul></div>' if notes else ""}
{body}
</main>
<script type="application/json" id="charts">{_json(charts.drawn)}</script>
<script>{_file("page.js")}</script>
</body>
</html>
"""


def _file(name: str) -> str:
    """A file that lies beside this module."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON for a page: nothing in it can end the script."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
