"""Figures as pictures: readings over what was varied, and curves as small multiples.

A point's name says its factors: "0.2, m 32" is the first at 0.2 and m at 32.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..reports.groups import Group
from ..reports.picture import Line, Lines, Picture
from ..reports.plots import RANGE, curve_panel, with_common_reach
from ..reports.scales import Along, grows_by_factors, spans_decades
from ..runs import Run
from .dots import QUARTILES, Paper, along_of, logged, name_of, table_picture
from .readings import Found, Reading, column_of, middle, quartiles, words_of

__all__ = ["Factor", "factors_of", "figure_pictures"]

Factor = tuple[str, str]  # what is varied, and its value

_MOST_PANELS = 12
_MOST_BESIDE = 3
# Costs, which a run ends with: not curves of their own.
_SPENT = {"round", "communications", "seconds", "paper_bytes", "delay"}


def factors_of(points: Sequence[str], varied: str) -> dict[str, list[Factor]]:
    """The factors of every point; a part without a name is of what is varied.

    >>> factors_of(["0.2, m 32"], "rate")
    {'0.2, m 32': [('rate', '0.2'), ('m', '32')]}
    """
    made = {}
    for point in points:
        parts = [
            re.fullmatch(r"(?:([A-Za-z]\w*) )?(-?[\d.]+(?:e-?\d+)?)", part)
            for part in point.split(", ")
        ]
        named = [(part[1] or varied, part[2]) for part in parts if part]
        made[point] = named if len(named) == len(parts) <= 2 else [(varied, point)] if point else []
    return made


def figure_pictures(
    title: str,
    found: Found,
    shows: Sequence[Reading],
    factors: Mapping[str, Sequence[Factor]],
    paper: Paper | None = None,
) -> list[Picture]:
    """Readings over what was varied, and the curves of all points as small multiples."""
    readings = [*shows, *dict.fromkeys(reading for _, _, reading in paper or {})]
    axis = next((one.axis for one in readings if one.at != "end" and one.axis != "round"), "round")
    metrics = dict.fromkeys(
        one.metric for one in readings if one.level is None and one.metric not in _SPENT
    )
    curves = [
        drawn
        for metric in metrics
        if (drawn := _curves(title, found, metric, axis, factors, paper or {}))
    ]
    sweeps = []
    if any(factors.values()):
        numeric = all(_value(some[0]) is not None for some in factors.values())
        if numeric:
            sweeps = [_sweep(title, found, reading, factors, paper or {}) for reading in shows]
        elif not curves:
            sweeps = [table_picture(title, found, reading, paper or {}) for reading in shows]
    return [*sweeps, *curves]


def _curves(
    title: str,
    found: Found,
    metric: str,
    axis: str,
    factors: Mapping[str, Sequence[Factor]],
    paper: Paper,
) -> Picture | None:
    across = axis, Along(words_of(axis))
    up = metric, along_of(metric)
    grouped = _grouped(found, factors)
    curved = {
        name: [line for line in lines if max(len(run.metrics) for run in line.group.runs) > 2]
        for name, lines in grouped.items()
    }

    def drawn(log: bool | None = None) -> list[Lines]:
        made = []
        for name, lines in curved.items():
            printed = {line.group.label: _printed(paper, line, metric, axis) for line in lines}
            groups = [_with_axis(line.group, axis) for line in lines]
            made.append(curve_panel(name, groups, across, up, printed, len(grouped), log))
        return [panel for panel in made if panel is not None]

    panels = drawn()
    if not panels or len(panels) > _MOST_PANELS:
        return None
    if len({panel.across.log for panel in panels}) > 1:
        panels = drawn(log=True)  # one manner for all, so that they can be compared
    if (
        not up[1].log
        and up[1].unit != "%"
        and spans_decades([value for panel in panels for _, value in panel.shown()])
    ):
        panels = [
            dataclasses.replace(panel, up=dataclasses.replace(panel.up, log=True))
            for panel in panels
        ]
    band = RANGE if found.seeds > 1 else ""
    words = f"{title}: {words_of(metric)}, against {words_of(axis)}"
    # Values of the second factor stand side by side, if panels are points.
    second = {some[1] for some in factors.values() if len(some) > 1}
    beside = len(second) if len(second) <= _MOST_BESIDE and len(panels) == len(factors) else 0
    gone = dict.fromkeys(
        line.group.label
        for name, lines in grouped.items()
        for line in lines
        if line not in curved[name]
    )
    about = f"Judged at the ends only, and not drawn where so: {', '.join(gone)}." if gone else ""
    name = f"{metric}-{axis}".replace("_", "-")
    return Picture(name, words, with_common_reach(panels), band, about, beside, _order(found))


@dataclasses.dataclass(frozen=True)
class _Drawn:
    """A line to be drawn: its runs, and which point and label they are of."""

    group: Group
    point: str
    label: str


def _grouped(found: Found, factors: Mapping[str, Sequence[Factor]]) -> dict[str, list[_Drawn]]:
    """Panels of curves: one per point.

    Of one algorithm alone: one per second factor, with a line per value of the first.
    """
    alone = len(found.algorithms) == 1
    panels: dict[str, list[_Drawn]] = {}
    for point in found.points:
        some = [_worded(factor) for factor in factors[point]]
        for label, runs in found.runs[point].items():
            if alone and some and len(found.points) > 1:
                name, line = ", ".join(some[1:]), some[0]
            else:
                name, line = ", ".join(some), label
            panels.setdefault(name, []).append(
                _Drawn(Group(line, label, tuple(runs.values())), point, label)
            )
    return panels


def _worded(factor: Factor) -> str:
    return " ".join(factor) if _value(factor) is not None else factor[1]


def _with_axis(group: Group, axis: str) -> Group:
    """Runs whose tables have the axis as a column, where it is one that is derived."""
    runs = [run if axis in run.metrics.columns else _derived(run, axis) for run in group.runs]
    return Group(group.label, group.algorithm, tuple(runs))


def _derived(run: Run, axis: str) -> Run:
    return dataclasses.replace(run, metrics=run.metrics.with_column(axis, column_of(run, axis)))


def _printed(paper: Paper, line: _Drawn, metric: str, axis: str) -> list[tuple[float, float]]:
    """What the paper prints of this curve: where it says so, or at the curve's end."""
    ends = [float(column_of(run, axis)[-1]) for run in line.group.runs if len(run.metrics)]
    made = []
    for (point, label, reading), value in paper.items():
        if (point, label, reading.metric) == (
            line.point,
            line.label,
            metric,
        ) and reading.level is None:
            if reading.at == "end":
                made.append((min(ends, default=math.nan), value))
            elif reading.axis == axis and not isinstance(reading.at, str):
                made.append((reading.at, value))
    return made


def _sweep(
    title: str,
    found: Found,
    reading: Reading,
    factors: Mapping[str, Sequence[Factor]],
    paper: Paper,
) -> Picture:
    """A reading over the first factor.

    There is a panel per value of the second one, or a line where one algorithm is alone.
    """
    alone = len(found.algorithms) == 1
    rows: dict[str, dict[str, list[_Row]]] = {}
    for point in found.points:
        first, *second = factors[point]
        where = _worded(second[0]) if second else ""
        for label in found.labels(point):
            values = list(found.values(point, label, reading).values())
            panel, line = ("", where or label) if alone else (where, label)
            printed = paper.get((point, label, reading))
            x = _value(first)
            assert x is not None
            rows.setdefault(panel, {}).setdefault(line, []).append(
                _Row(x, middle(values), *quartiles(values), printed)
            )
    across, up = Along(next(iter(factors.values()))[0][0]), along_of(reading.metric)
    xs = [row[0] for lines in rows.values() for some in lines.values() for row in some]
    ys = [
        value
        for lines in rows.values()
        for some in lines.values()
        for row in some
        for value in row[1:4]
    ]
    across = dataclasses.replace(across, log=grows_by_factors(xs))
    up = dataclasses.replace(up, log=logged(ys, up))
    panels = [
        Lines(panel, [_swept(name, some) for name, some in lines.items()], across, up)
        for panel, lines in rows.items()
    ]
    band = QUARTILES if found.seeds > 1 else ""
    words = f"{title}: {reading.words}"
    return Picture(name_of(reading), words, with_common_reach(panels), band, order=_order(found))


def _order(found: Found) -> list[str]:
    """The algorithms, for colours that stay the same from picture to picture.

    One alone has lines of other names.
    """
    return found.algorithms if len(found.algorithms) > 1 else []


class _Row(NamedTuple):
    """A reading at one value of what is varied: median, quartiles and the paper's number."""

    x: float
    y: float
    low: float
    high: float
    paper: float | None


def _swept(label: str, rows: list[_Row]) -> Line:
    x, y, low, high, _ = zip(*sorted(rows), strict=True)
    return Line(
        label,
        x,
        y,
        low,
        high,
        [(row.x, row.paper) for row in rows if row.paper is not None],
        marked=True,
    )


def _value(factor: Factor) -> float | None:
    try:
        return float(factor[1])
    except ValueError:
        return None
