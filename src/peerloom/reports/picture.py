"""Static pictures as data: panels of lines, dots, cells, bars or bubbles, and the table of what they show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..runs import Table
from .scales import Along

__all__ = ["Bars", "Bubbles", "Cells", "Dot", "Dots", "Line", "Lines", "Panel", "Picture"]

Record = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One line with its band; `paper` are printed points (x, y) beside it. With `marked` every point has a mark."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    paper: Sequence[tuple[float, float]] = ()
    marked: bool = False


@dataclass(frozen=True)
class Lines:
    """Values along an axis, which has its ticks at the marks where all lines are marked.

    A log axis begins at `start`, and what lies before it is not shown. `reach` is what the vertical axis covers where
    several panels are to be compared; without it, what the panel's own values need.
    """

    title: str
    lines: Sequence[Line]
    across: Along
    up: Along
    start: float = 0.0
    reach: tuple[float, float] | None = None

    def marks(self) -> list[float]:
        """Where the marks lie along the axis; nowhere, unless all lines have them."""
        return sorted({x for line in self.lines for x in line.x}) if all(line.marked for line in self.lines) else []

    def shown(self) -> list[tuple[float, float]]:
        """Every point that the axes must cover, ends of bands and the paper's among them."""
        rows = [row for line in self.lines for row in [*zip(line.x, line.y, line.low, line.high, strict=True), *line.paper]]
        return [(x, value) for x, *values in rows for value in values if x >= self.start and (x > 0 or not self.across.log)]

    def records(self) -> Iterator[Record]:
        """What is shown, point by point; `source` says whose number it is."""
        for line in self.lines:
            for x, y, low, high in zip(line.x, line.y, line.low, line.high, strict=True):
                yield {"label": line.label, "source": "ours", "x": x, "value": y, "low": low, "high": high}
            for x, y in line.paper:
                yield {"label": line.label, "source": "paper", "x": x, "value": y}


@dataclass(frozen=True)
class Dot:
    """One number of a row, its range, and the paper's number where there is one."""

    row: str
    label: str
    value: float
    low: float
    high: float
    paper: float | None = None


@dataclass(frozen=True)
class Dots:
    """A row per name; one dot per label in it."""

    title: str
    dots: Sequence[Dot]
    across: Along

    def records(self) -> Iterator[Record]:
        """What is shown, dot by dot."""
        for dot in self.dots:
            named = {"row": dot.row, "label": dot.label}
            yield {**named, "source": "ours", "value": dot.value, "low": dot.low, "high": dot.high}
            if dot.paper is not None:
                yield {**named, "source": "paper", "value": dot.paper}


@dataclass(frozen=True)
class Cells:
    """A heat map: the value of every row and column."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    across: Along
    up: Along

    def records(self) -> Iterator[Record]:
        """What is shown, cell by cell."""
        for row, line in zip(self.rows, self.values, strict=True):
            for column, value in zip(self.columns, line, strict=True):
                yield {"row": row, "column": column, "value": value}


@dataclass(frozen=True)
class Bars:
    """Stacked bars of shares: for each row, the parts of a whole, and the whole in words beside it."""

    title: str
    rows: Sequence[str]
    parts: Sequence[str]
    values: Sequence[Sequence[float]]
    totals: Sequence[str]
    across: Along

    def records(self) -> Iterator[Record]:
        """The parts themselves; bars show them as shares of their sum."""
        for row, line in zip(self.rows, self.values, strict=True):
            for part, value in zip(self.parts, line, strict=True):
                yield {"row": row, "label": part, "value": value}


@dataclass(frozen=True)
class Bubbles:
    """Counts by row and column, drawn as the share of its row that a column holds."""

    title: str
    counts: Sequence[Sequence[int]]
    across: Along
    up: Along

    def records(self) -> Iterator[Record]:
        """What is shown, bubble by bubble."""
        for row, line in enumerate(self.counts):
            for column, count in enumerate(line):
                yield {self.up.title: row, self.across.title: column, "samples": count, "share": count / max(1, sum(line))}


Panel = Lines | Dots | Cells | Bars | Bubbles


@dataclass(frozen=True)
class Picture:
    """Panels under one title and one legend.

    band    what bands and whiskers are
    about   what else one must know
    beside  panels in a row where there is room; 0 leaves it to the room
    order   labels in the order in which colours are given, where other pictures have them, too
    """

    name: str
    title: str
    panels: Sequence[Panel]
    band: str = ""
    about: str = ""
    beside: int = 0
    order: Sequence[str] = ()

    def labels(self) -> list[str]:
        """What has a colour, in the order of its first appearance."""
        found: list[str] = []
        for panel in self.panels:
            if isinstance(panel, Lines):
                found += [line.label for line in panel.lines]
            elif isinstance(panel, Dots):
                found += [dot.label for dot in panel.dots]
            elif isinstance(panel, Bars):
                found += panel.parts
        return list(dict.fromkeys(found))

    def printed(self) -> bool:
        """Whether a number of a paper is shown."""
        return any(record.get("source") == "paper" for panel in self.panels for record in panel.records())

    def table(self) -> Table:
        """Everything that is plotted, one row per mark."""
        rows = [{"panel": panel.title, **record} for panel in self.panels for record in panel.records()]
        return Table.of(rows)
