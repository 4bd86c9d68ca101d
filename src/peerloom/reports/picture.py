"""Pictures as data: panels of lines, dots, cells, bars, bubbles or a graph; their table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..runs import Table
from .scales import Along, Unit

__all__ = [
    "Bars",
    "Bubbles",
    "Cells",
    "Dot",
    "Dots",
    "Graph",
    "Line",
    "Lines",
    "Link",
    "Panel",
    "Picture",
]

Record = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One line with its band; `paper` are printed points (x, y) beside it.

    With `marked` every point has a mark.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    paper: Sequence[tuple[float, float]] = ()
    marked: bool = False


@dataclass(frozen=True)
class Lines:
    """Values along an axis; the ticks are at the marks where all lines are marked.

    start  where a log axis begins; smaller values are not shown there
    reach  the range of the vertical axis where several panels are compared; by default, what the
           panel's own values need
    """

    title: str
    lines: Sequence[Line]
    across: Along
    up: Along
    start: float = 0.0
    reach: tuple[float, float] | None = None

    def marks(self) -> list[float]:
        """The x values of the marks; none unless all lines are marked."""
        if not all(line.marked for line in self.lines):
            return []
        return sorted({x for line in self.lines for x in line.x})

    def shown(self) -> list[tuple[float, float]]:
        """Every point that the axes must cover, including bands and the paper's points."""
        rows = [
            row
            for line in self.lines
            for row in [*zip(line.x, line.y, line.low, line.high, strict=True), *line.paper]
        ]
        return [
            (x, value)
            for x, *values in rows
            for value in values
            if not self.across.log or (x > 0 and x >= self.start)
        ]

    def records(self) -> Iterator[Record]:
        """What is shown, point by point; `source` tells our numbers from the paper's."""
        for line in self.lines:
            for x, y, low, high in zip(line.x, line.y, line.low, line.high, strict=True):
                record = {"label": line.label, "source": "ours", "x": x, "value": y}
                yield {**record, "low": low, "high": high}
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
    """A row per name, with one dot per label."""

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
    """A heat map: a value for every row and column, all of them in one unit.

    `about` has more words on each column, for its tooltips.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    across: Along
    up: Along
    unit: Unit = ""
    about: Sequence[str] = ()

    def records(self) -> Iterator[Record]:
        """What is shown, cell by cell."""
        for row, line in zip(self.rows, self.values, strict=True):
            for column, value in zip(self.columns, line, strict=True):
                yield {"row": row, "column": column, "value": value}


@dataclass(frozen=True)
class Bars:
    """Stacked bars: the parts of a whole in each row, and the whole in words beside it."""

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
    """Counts by row and column; the area of a bubble is a column's share of its row."""

    title: str
    counts: Sequence[Sequence[int]]
    across: Along
    up: Along

    def records(self) -> Iterator[Record]:
        """What is shown, bubble by bubble."""
        for row, line in enumerate(self.counts):
            for column, count in enumerate(line):
                where = {self.up.title: row, self.across.title: column}
                yield {**where, "samples": count, "share": count / max(1, sum(line))}


@dataclass(frozen=True)
class Link:
    """A link of a graph: its ends, how likely it works, its weight, and the name of its layer."""

    source: int
    target: int
    probability: float
    weight: float
    layer: str = ""


@dataclass(frozen=True)
class Graph:
    """Clients and the links between them, coloured by the probability that each of them acts.

    Positions have their second coordinate upwards; those beyond the clients' probabilities are
    hubs. A link without direction is listed once.
    """

    title: str
    positions: Sequence[tuple[float, float]]
    probabilities: Sequence[float]
    links: Sequence[Link]
    directed: bool = False

    def records(self) -> Iterator[Record]:
        """Every client and hub by its row, then every link."""
        for row, (x, y) in enumerate(self.positions):
            hub = row >= len(self.probabilities)
            share = {} if hub else {"probability": self.probabilities[row]}
            yield {"kind": "hub" if hub else "client", "row": row, "x": x, "y": y, **share}
        for link in self.links:
            ends = {"kind": "link", "source": link.source, "target": link.target}
            about = {"probability": link.probability, "weight": link.weight, "layer": link.layer}
            yield {**ends, **about}


Panel = Lines | Dots | Cells | Bars | Bubbles | Graph


@dataclass(frozen=True)
class Picture:
    """Panels under one title and one legend.

    band    what bands and whiskers are
    about   what else a reader must know
    beside  panels in a row where there is room; 0 chooses by the room
    order   labels in the order in which colours are given, to match other pictures
    """

    name: str
    title: str
    panels: Sequence[Panel]
    band: str = ""
    about: str = ""
    beside: int = 0
    order: Sequence[str] = ()

    def labels(self) -> list[str]:
        """Everything that has a colour, in the order of its first appearance."""
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
        records = (record for panel in self.panels for record in panel.records())
        return any(record.get("source") == "paper" for record in records)

    def table(self) -> Table:
        """Everything that is plotted, one row per mark."""
        records = ((panel.title, record) for panel in self.panels for record in panel.records())
        return Table.of({"panel": title, **record} for title, record in records)
