"""Outcomes as Markdown: a page of all verdicts, and one for each figure behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from ...reports.wording import capital
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
    figure_of,
    form_of,
    notes,
    numbers_table,
    papers,
    summary_rows,
    time_rows,
    verdict_rows,
)

__all__ = ["to_markdown"]


def to_markdown(
    found: Sequence[dict[str, Any]],
    page: str,
    estimates: Sequence[dict[str, Any]] = (),
    missing: Sequence[str] = (),
) -> dict[str, str]:
    """The pages of these outcomes, by name: `page`.md, and PAPER-FIGURE.md in a folder `page`.

    `missing` was not run.
    """
    figures: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        figures.setdefault(figure_of(one), []).append(one)
    made = {f"{page}/{name}.md": _figure(page, some) for name, some in figures.items()}
    lines = ["# Reproduction", "", counted(found), "", READ]
    for paper, some in papers(found).items():
        rows = [
            [f"[{figure}]({page}/{paper}-{figure}.md)", *rest, f"`{command}`"]
            for figure, *rest, command in summary_rows(some)
        ]
        lines += ["", f"## {paper}", "", *_table(SUMMARY, rows)]
        if same := shared(some):
            lines += ["", SAME, ""]
            lines += [f"- {'; '.join(group)}" for group in same]
    if estimates:
        lines += ["", f"## {ESTIMATED}", "", TIMED, "", *_table(TIMES, time_rows(estimates))]
    if missing:
        lines += ["", f"## {MISSING}", "", *(f"- {one}" for one in missing)]
    return {f"{page}.md": "\n".join(lines) + "\n"} | made


def _figure(page: str, found: Sequence[dict[str, Any]]) -> str:
    """The page of a figure: a section for each form in which it was run."""
    up = "../" * len(PurePosixPath(page).parts)
    lines = [f"# {found[0]['paper']} {found[0]['figure']}: {found[0]['title']}"]
    lines += ["", f"[All verdicts]({up}{page}.md)"]
    for one in found:
        lines += ["", f"## {capital(form_of(one))}", "", f"`{one['command']}`", ""]
        lines += [f"- {said}" for said in notes(one)]
        if one["verdicts"]:
            lines += ["", *_table(VERDICTS, verdict_rows(one))]
        for picture in one["pictures"]:
            lines += ["", f"![{picture['title']}]({up}{picture['file']})"]
            lines += ["", picture["about"]] if picture["about"] else []
        heads, rows = numbers_table(one)
        lines += ["", *_table(heads, rows)] if rows else []
    return "\n".join(lines) + "\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(heads), line(["---"] * len(heads)), *(line(row) for row in rows)]
