"""Outcomes as HTML pages that load nothing: pictures, verdicts and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ...reports.picture import Picture
from ...sweeps.page import page, shown, tabled
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

__all__ = ["to_html"]

_MARKS = {"holds": "holds", "does not hold": "fails", "not decided here": "open"}


def to_html(
    found: Sequence[dict[str, Any]],
    pictures: Mapping[str, Sequence[Picture]],
    estimates: Sequence[dict[str, Any]] = (),
    missing: Sequence[str] = (),
) -> str:
    """One page of these outcomes, with the pictures of each by its folder.

    A single outcome gives the page its title; several have a table of all verdicts first.
    """
    whole = len(found) > 1
    parts = [
        f"<p>{escape(counted(found))}</p><p>{escape(READ)}</p>",
        tabled(VERDICTS, verdict_rows(found), "verdicts", _MARKS),
    ]
    parts = parts if whole else []
    for one in found:
        parts += [f"<h2>{escape(title(one))}</h2>"] if whole else []
        parts.append(f"<p><code>{escape(one['command'])}</code></p>")
        parts += [f"<p>{escape(said)}</p>" for said in [*one["said"], ran(one)]]
        if not whole:
            parts += [
                tabled(VERDICTS[2:], [row[2:] for row in verdict_rows([one])], "verdicts", _MARKS),
                f"<p>{escape(READ)}</p>",
            ]
        parts += [shown(picture) for picture in pictures.get(one["folder"], ())]
        heads, rows = numbers_table(one, apart="\n")
        parts.append(tabled(heads, rows, "numbers") if rows else "")
    if estimates:
        parts += [f"<h2>{ESTIMATED}</h2><p>{TIMED}</p>", tabled(TIMES, time_rows(estimates))]
    if missing:
        parts += [f"<h2>{MISSING}</h2>", *(f"<p>{escape(one)}</p>" for one in missing)]
    return page("Reproduction" if whole else title(found[0]), parts)
