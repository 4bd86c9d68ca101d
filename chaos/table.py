"""The table of what was measured: on the screen, and between two marks of a document."""

from __future__ import annotations

import os
import platform
import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from .figures import Figure, Scenario, shown

__all__ = [
    "MEASURED",
    "Outcome",
    "check_place",
    "machine",
    "markdown",
    "marks",
    "on_screen",
    "write_into",
]

MEASURED = "measured"
"""The name of the marks between which the scenarios' table stands."""


def marks(name: str) -> tuple[str, str]:
    """The lines between which a table of this name stands in a document."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


@dataclass(frozen=True)
class Outcome:
    """What became of one scenario: its figures, or why there are none."""

    scenario: Scenario
    seconds: float
    figures: tuple[Figure, ...] = ()
    skipped: str = ""
    failed: str = ""

    @property
    def missed(self) -> bool:
        """Whether a target was missed, or the scenario broke."""
        return bool(self.failed) or any(not figure.met for figure in self.figures)

    @property
    def verdict(self) -> str:
        """In one word, or with the reason."""
        if self.skipped:
            return f"skipped: {self.skipped}"
        return f"failed: {self.failed}" if self.failed else "not met" if self.missed else "met"

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Figure, target, measured, verdict; one row at least."""
        rows = [
            (figure.name, figure.target or "-", shown(figure.measured, figure.unit), _word(figure))
            for figure in self.figures
        ]
        return rows if rows and not self.failed else [*rows, ("-", "-", "-", self.verdict)]


def on_screen(outcomes: Sequence[Outcome]) -> Table:
    """For people at a terminal."""
    table = Table("scenario", "figure", "target", "measured", "", title="faults")
    for outcome in outcomes:
        name = f"{outcome.scenario.number} {outcome.scenario.title} ({outcome.seconds:.0f} s)"
        for figure, target, measured, verdict in outcome.rows():
            table.add_row(name, figure, target, measured, verdict, style=_style(verdict))
            name = ""
        table.add_section()
    return table


def markdown(outcomes: Sequence[Outcome], quick: bool) -> str:
    """For the document, with the date and the machine."""
    lines = [
        f"Measured on {datetime.now(UTC):%Y-%m-%d}{' (short form)' if quick else ''}: {machine()}.",
        "",
    ]
    lines += ["| # | scenario | figure | target | measured | |", "|---|---|---|---|---|---|"]
    for outcome in outcomes:
        number, title = str(outcome.scenario.number), outcome.scenario.title
        for row in outcome.rows():
            lines.append(
                "| " + " | ".join(cell.replace("|", "\\|") for cell in (number, title, *row)) + " |"
            )
            number = title = ""
    return "\n".join(lines)


def check_place(path: Path, name: str) -> tuple[str, str]:
    """What stands before and after a table in a document. Refuses one without the marks."""
    first, last = marks(name)
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    before, begin, rest = found.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise SystemExit(
            f"{path} has no place for the table: put {first} and {last} on lines of their own."
        )
    return before, after


def write_into(path: Path, text: str, name: str) -> None:
    """Put the text between the marks of a document, in place of what stood there."""
    before, after = check_place(path, name)
    first, last = marks(name)
    path.write_text(f"{before}{first}\n{text}\n{last}{after}", encoding="utf-8")


def machine() -> str:
    """What the figures depend on, and no name of anybody."""
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    python = ".".join(map(str, sys.version_info[:3]))
    return (
        f"{os.cpu_count()} cores ({platform.machine()}, load {os.getloadavg()[0]:.1f}), {system}, "
        f"Python {python}, {' '.join(ssl.OPENSSL_VERSION.split()[:2])}"
    )


def _style(verdict: str) -> str:
    if "not met" in verdict or verdict.startswith("failed"):
        return "red"
    return "yellow" if verdict.startswith("skipped") else ""


def _word(figure: Figure) -> str:
    return "" if not figure.target else "met" if figure.met else "**not met**"
