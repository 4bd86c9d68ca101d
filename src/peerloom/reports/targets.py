"""Targets: levels of quality, and the delay until runs reached them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median_low

import numpy as np

from ..runs import Run
from .groups import Group, Quality, column, seed_of

__all__ = ["Reach", "Spread", "choose_targets", "reach", "spread"]

_MOST = 4  # targets in a table that is still read


@dataclass(frozen=True)
class Spread:
    """A figure over seeds: median, least and largest of the seeds that have it."""

    median: float | None
    low: float | None
    high: float | None
    count: int


@dataclass(frozen=True)
class Reach:
    """The delay of one algorithm to one target.

    A seed that never reaches it counts as infinitely late in the median. The parts are those of
    the seed in the middle (of both, where there are two), so they add up to the median.
    """

    label: str
    target: float
    seeds: int
    reached: int
    delay: Spread
    processing: float | None
    transmission: float | None
    by_seed: dict[str, float | None] = field(default_factory=dict)


def spread(values: Sequence[float]) -> Spread:
    """Median and range of the values that are numbers.

    >>> spread([3.0, 1.0, float("nan")])
    Spread(median=2.0, low=1.0, high=3.0, count=2)
    """
    known = [float(value) for value in values if math.isfinite(value)]
    if not known:
        return Spread(None, None, None, 0)
    return Spread(float(np.median(known)), min(known), max(known), len(known))


def choose_targets(groups: Sequence[Group], quality: Quality) -> list[float]:
    """Up to four round levels between the start and the best that most seeds of a group reach."""
    runs = [run for group in groups for run in group.runs if len(run.metrics)]
    starts = [value for run in runs if math.isfinite(value := column(run, quality.own)[0])]
    bests = [best for group in groups if math.isfinite(best := _usual_best(group, quality))]
    if not starts or not bests:
        return []
    start = float(np.median(starts))
    return _round_levels(start, max(bests)) if quality.higher else _loss_levels(start, min(bests))


def reach(group: Group, target: float, quality: Quality) -> Reach:
    """The delay at the first evaluation that met the target, seed by seed and in the median."""
    found = {seed_of(run): _first(run, target, quality) for run in group.runs}
    hits = sorted(hit for hit in found.values() if hit is not None)
    middle = _middle([*hits, *[None] * (len(found) - len(hits))])
    parts = np.mean(middle, axis=0).tolist() if middle else [None, None, None]
    delays = [hit[0] for hit in hits]
    over = Spread(parts[0], min(delays, default=None), max(delays, default=None), len(hits))
    by_seed = {seed: None if hit is None else hit[0] for seed, hit in found.items()}
    return Reach(group.label, target, len(found), len(hits), over, parts[1], parts[2], by_seed)


def _first(run: Run, target: float, quality: Quality) -> tuple[float, float, float] | None:
    """Overall, processing and transmission delay at the first evaluation that met the target."""
    met = np.flatnonzero(quality.met(column(run, quality.own), target))
    if not len(met):
        return None
    at = met[0]
    overall, processing, transmission = (
        float(column(run, name)[at]) for name in ("delay", "processing_delay", "transmission_delay")
    )
    return overall, processing, transmission


def _middle(hits: list[tuple[float, float, float] | None]) -> list[tuple[float, float, float]]:
    """The entry in the middle, or both; empty where one of them never reached the target."""
    pick = hits[(len(hits) - 1) // 2 : len(hits) // 2 + 1]
    return [hit for hit in pick if hit is not None] if None not in pick else []


def _usual_best(group: Group, quality: Quality) -> float:
    """The best level that more than half of the seeds reach."""
    bests = [
        best for run in group.runs if math.isfinite(best := quality.best(column(run, quality.own)))
    ]
    if not bests:
        return float("nan")
    return median_low(bests) if quality.higher else -median_low([-best for best in bests])


def _round_levels(start: float, best: float) -> list[float]:
    for step in (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001):
        first, last = math.floor(start / step + 1e-9) + 1, math.floor(best / step + 1e-9)
        levels = [round(k * step, 6) for k in range(first, last + 1)]
        if len(levels) >= 3:
            return _spaced(levels)
    return []


def _spaced(levels: list[float]) -> list[float]:
    """At most four of them, evenly spaced, the highest included."""
    every = math.ceil(len(levels) / _MOST)
    return levels[::-1][::every][::-1]


def _loss_levels(start: float, best: float) -> list[float]:
    """Half, 90 % and 99 % of the way down, rounded up so that they are still reached."""
    gap = start - best
    if not gap > 0:
        return []
    digits = 3 - math.floor(math.log10(gap))
    levels = [
        math.ceil((best + share * gap) * 10**digits) / 10**digits for share in (0.5, 0.1, 0.01)
    ]
    return [level for level in dict.fromkeys(levels) if level < start]
