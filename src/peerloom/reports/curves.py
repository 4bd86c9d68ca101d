"""One curve per algorithm: its seeds on a common grid, with the median and the range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..runs import Run
from .groups import Group, column

__all__ = ["Curve", "curve", "onset", "wants_log"]

Floats = NDArray[np.float64]

_MOST_POINTS = 600  # more than a screen shows
_EARLY = 0.05  # a climb that is half done in this share of the axis cannot be read on a linear one


@dataclass(frozen=True)
class Curve:
    """Median, least and largest over seeds, at each x."""

    label: str
    x: Floats
    middle: Floats
    low: Floats
    high: Floats
    seeds: int


def curve(group: Group, x: str, y: str, *, positive: bool = False) -> Curve | None:
    """The seeds of a group on one grid, over the range that all cover; None if there is none.

    The grid is every x at which a seed was evaluated, which keeps the straight lines between the
    points of each seed. Seeds with fewer than two points are left out unless there are no others.
    `positive` drops values that a log axis cannot show.
    """
    lines = [line for run in group.runs if len((line := _line(run, x, y, positive))[0])]
    lines = [line for line in lines if len(line[0]) > 1] or lines[:1]
    if not lines:
        return None
    start, end = max(line[0][0] for line in lines), min(line[0][-1] for line in lines)
    every = np.unique(np.concatenate([line[0] for line in lines]))
    grid = _thin(every[(every >= start) & (every <= end)])
    if not len(grid):
        return None
    table = np.stack([np.interp(grid, *line) for line in lines])
    return Curve(
        group.label,
        grid,
        np.median(table, axis=0),
        table.min(axis=0),
        table.max(axis=0),
        len(lines),
    )


def wants_log(curves: Sequence[Curve]) -> bool:
    """Whether a large change happens so early that a linear axis would hide it."""
    width, most = max((one.x[-1] for one in curves), default=0.0), _most_change(curves)
    for one in curves:
        change = np.abs(one.middle - one.middle[0])
        if most > 0 and change.max() >= most / 2 and _first(one, change.max() / 2) < _EARLY * width:
            return True
    return False


def onset(curves: Sequence[Curve]) -> float:
    """Where a log axis starts: well before any curve has made a tenth of the largest change."""
    most = _most_change(curves)
    starts = [
        _first(one, most / 10) for one in curves if most > 0 and np.ptp(one.middle) >= most / 10
    ]
    least = min((float(one.x[one.x > 0].min()) for one in curves if one.x[-1] > 0), default=0.0)
    return max(least, min(starts, default=0.0) / 4)


def _most_change(curves: Sequence[Curve]) -> float:
    return max((float(np.abs(one.middle - one.middle[0]).max()) for one in curves), default=0.0)


def _first(one: Curve, change: float) -> float:
    """The first x at which a curve has changed this much; its last x if it never does."""
    there = np.flatnonzero(np.abs(one.middle - one.middle[0]) >= change)
    return float(one.x[there[0] if len(there) else -1])


def _line(run: Run, x: str, y: str, positive: bool) -> tuple[Floats, Floats]:
    """The points of a run with x strictly increasing; of equal x, the last one counts."""
    across, up = column(run, x), column(run, y)
    known = np.isfinite(across) & np.isfinite(up) & ((up > 0) | (not positive))
    across, up = across[known], up[known]
    last = np.append(np.diff(across) > 0, True)[: len(across)]
    return across[last], up[last]


def _thin(grid: Floats) -> Floats:
    """At most `_MOST_POINTS` points, including both ends."""
    if len(grid) <= _MOST_POINTS:
        return grid
    kept: Floats = grid[np.unique(np.linspace(0, len(grid) - 1, _MOST_POINTS).round().astype(int))]
    return kept
