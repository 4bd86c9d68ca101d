"""Kinds of claims about many points or curves at once: trends, ratios, pairs, nearness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Unpack

import numpy as np

from ...sweeps.readings import Found, Reading
from .checks import Check, Part, leads
from .claims import Source, by_seed, limit_in_words, unit_of

__all__ = [
    "agree",
    "alike",
    "beats",
    "improves",
    "improves_most",
    "nearer",
    "over_points",
    "within",
]


def improves(
    labels: Sequence[str],
    reading: Reading,
    points: Sequence[str],
    claim: str,
    *,
    name: str = "improves",
    **source: Unpack[Source],
) -> Check:
    """From the first point to the last all of these get better: by a straight line through all.

    The slope of the line is by the step from one point to the next, not by the value varied.
    """

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                label,
                by_seed(
                    lambda some: _slope(some, reading),
                    [found.values(point, label, reading) for point in points],
                ),
                "above",
                0.0,
            )
            for label in labels
        ]

    what = f"gain from one value to the next in the mean, {reading.words}"
    return Check(name, claim, what, parts, unit_of(reading), **source)


def improves_most(
    ours: str,
    others: Sequence[str],
    reading: Reading,
    points: Sequence[str],
    claim: str,
    *,
    name: str = "improves most",
    **source: Unpack[Source],
) -> Check:
    """From the first point to the last ours gains more than any of the others."""

    def lead(some: Sequence[float]) -> float:
        size = len(points)
        slopes = [_slope(some[k : k + size], reading) for k in range(0, len(some), size)]
        return slopes[0] - max(slopes[1:])

    def parts(found: Found) -> list[Part]:
        tables = [found.values(p, label, reading) for label in [ours, *others] for p in points]
        return [Part("", by_seed(lead, tables), "above", 0.0)]

    what = f"gain of {ours} from one value to the next less the largest other, {reading.words}"
    return Check(name, claim, what, parts, unit_of(reading), **source)


def _slope(some: Sequence[float], reading: Reading) -> float:
    """How much better it gets from one to the next, by a straight line; NaN with one infinite."""
    if not all(map(math.isfinite, some)):
        return math.nan
    return float(np.polyfit(range(len(some)), some, 1)[0]) * (1 if reading.higher else -1)


def alike(
    ours: str,
    theirs: str,
    reading: Reading,
    factor: float,
    claim: str,
    *,
    name: str,
    only: Sequence[str] | None = None,
    **source: Unpack[Source],
) -> Check:
    """Ours is that of theirs, to a factor either way: at every point, or at those of `only`."""

    def ratio(both: Sequence[float]) -> float:
        a, b = both
        return math.nan if math.isinf(a) and math.isinf(b) else a / b if b else math.nan

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                point,
                by_seed(ratio, [found.values(point, label, reading) for label in (ours, theirs)]),
                "between",
                factor,
                1 / factor,
            )
            for point in (found.planned if only is None else only)
        ]

    what = f"{ours} over {theirs}, {reading.words}, within a factor of {factor:g}"
    return Check(name, claim, what, parts, **source)


def beats(
    pairs: Sequence[tuple[str, str]],
    reading: Reading,
    claim: str,
    *,
    name: str,
    **source: Unpack[Source],
) -> Check:
    """The first of each pair is better than the second, at every point."""

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                f"{point} {first} over {second}".strip(),
                tuple(leads(found, point, first, [second], reading).values()),
                "above",
                0.0,
            )
            for point in found.planned
            for first, second in pairs
        ]

    what = f"one over the other, {reading.words}"
    return Check(name, claim, what, parts, unit_of(reading), **source)


def agree(
    pairs: Sequence[tuple[str, str]],
    reading: Reading,
    within: float,
    claim: str,
    *,
    name: str,
    **source: Unpack[Source],
) -> Check:
    """The two of each pair differ by a share `within` of the larger at the most."""

    def apart(both: Sequence[float]) -> float:
        a, b = both
        return math.inf if math.isinf(a - b) else abs(a - b) / max(abs(a), abs(b))

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                f"{point} {first} and {second}".strip(),
                by_seed(apart, [found.values(point, label, reading) for label in (first, second)]),
                "below",
                within,
            )
            for point in found.planned
            for first, second in pairs
        ]

    what = f"difference of two as a share, {reading.words}, at most {within:g}"
    return Check(name, claim, what, parts, **source)


def nearer(
    goal: str,
    labels: Sequence[str],
    reading: Reading,
    claim: str,
    *,
    name: str,
    **source: Unpack[Source],
) -> Check:
    """From the first to the last, each is nearer to the goal than the next, on whichever side."""

    def closer(some: Sequence[float]) -> float:
        aim, first, second = some
        return abs(second - aim) - abs(first - aim)

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                f"{point} {first} and {second}".strip(),
                by_seed(
                    closer, [found.values(point, label, reading) for label in (goal, first, second)]
                ),
                "above",
                0.0,
            )
            for point in found.planned
            for first, second in pairwise(labels)
        ]

    what = f"distance to {goal}, of the second less of the first, {reading.words}"
    return Check(name, claim, what, parts, unit_of(reading), **source)


def over_points(
    labels: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    reading: Reading,
    claim: str,
    *,
    name: str,
    limit: float = 0.0,
    **source: Unpack[Source],
) -> Check:
    """For pairs of points, each of these is better at the first than at the second."""
    sign = 1 if reading.higher else -1

    def lead(both: Sequence[float]) -> float:
        return sign * (both[0] - both[1])

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                f"{label}, {first} over {second}",
                by_seed(lead, [found.values(point, label, reading) for point in (first, second)]),
                "above",
                limit,
            )
            for first, second in pairs
            for label in labels
        ]

    unit = unit_of(reading)
    more = f", more than {limit_in_words(limit, unit)}" if limit else ""
    what = f"one value against the other, {reading.words}{more}"
    return Check(name, claim, what, parts, unit, **source)


def within(
    label: str,
    reading: Reading,
    small: Sequence[str],
    large: Sequence[str],
    limit: float,
    claim: str,
    *,
    name: str,
    **source: Unpack[Source],
) -> Check:
    """From one set of points to another this one changes by less than the limit, either way.

    In the means of both sets.
    """

    def change(some: Sequence[float]) -> float:
        less, more = some[: len(small)], some[len(small) :]
        if not all(map(math.isfinite, some)):
            return math.inf
        return abs(sum(more) / len(more) - sum(less) / len(less))

    def parts(found: Found) -> list[Part]:
        some = [found.values(point, label, reading) for point in [*small, *large]]
        return [Part("", by_seed(change, some), "below", limit)]

    unit = unit_of(reading)
    what = (
        f"{label} at {', '.join(large)} against {', '.join(small)}, {reading.words}, either way, "
        f"at most {limit_in_words(limit, unit)}"
    )
    return Check(name, claim, what, parts, unit, **source)
