"""Outcomes as HTML pages that load nothing: pictures, verdicts and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ...reports.picture import Picture
from ...sweeps.page import page, shown, tabled
from .same_runs import shared
from .summary import (
    ESTIMATED,
    MISSING,
    READ,
    SAME,
    SUMMARY,
    TIMED,
    TIMES,
    VERDICTS,
    counted,
    notes,
    numbers_table,
    papers,
    summary_rows,
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
    """One page of these outcomes, with the pictures of each by its name.

    A single outcome gives the page its title; several have tables of all verdicts first.
    """
    whole = len(found) > 1
    parts = [f"<p>{escape(counted(found))}</p><p>{escape(READ)}</p>"] if whole else []
    for paper, some in papers(found).items() if whole else ():
        parts += [f"<h2>{escape(paper)}</h2>", tabled(SUMMARY, summary_rows(some), "", _MARKS)]
        if same := shared(some):
            parts += [f"<p>{SAME}</p>", *(f"<p>{escape('; '.join(group))}</p>" for group in same)]
    for one in found:
        parts += [f"<h2>{escape(title(one))}</h2>"] if whole else []
        parts.append(f"<p><code>{escape(one['command'])}</code></p>")
        parts += [f"<p>{escape(said)}</p>" for said in notes(one)]
        parts.append(tabled(VERDICTS, verdict_rows(one), "verdicts", _MARKS))
        parts += [] if whole else [f"<p>{escape(READ)}</p>"]
        parts += [shown(picture) for picture in pictures.get(one["name"], ())]
        heads, rows = numbers_table(one, apart="\n")
        parts.append(tabled(heads, rows, "numbers") if rows else "")
    if estimates:
        parts += [f"<h2>{ESTIMATED}</h2><p>{TIMED}</p>", tabled(TIMES, time_rows(estimates))]
    if missing:
        parts += [f"<h2>{MISSING}</h2>", *(f"<p>{escape(one)}</p>" for one in missing)]
    return page("Reproduction" if whole else title(found[0]), parts)
