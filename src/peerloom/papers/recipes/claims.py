"""The kinds of claims that papers make, as checks.

A part of which something was not run measures nothing, and keeps its claim from holding: what is
said of every point is not known from some of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypedDict, Unpack

from ...sweeps.readings import Found, Reading
from .checks import Check, Part, Relation, Unit, leads

__all__ = [
    "Source",
    "across",
    "ahead",
    "best_point",
    "by_seed",
    "close",
    "grows",
    "limit_in_words",
    "order",
    "printed",
    "steady",
    "unit_of",
]


class Source(TypedDict, total=False):
    """The paper's own words for a claim, and where they stand."""

    words: str
    place: str


def unit_of(reading: Reading) -> Unit:
    """The unit in which differences of a reading are written."""
    return "points" if reading.share else ""


def limit_in_words(value: float, unit: Unit) -> str:
    """A limit as its measurements are written."""
    return f"{100 * value:g} points" if unit == "points" else f"{value:g}"


def ahead(
    ours: str | Sequence[str],
    reading: Reading,
    claim: str,
    *,
    name: str = "ahead",
    over: Sequence[str] | None = None,
    by: float = 0.0,
    only: Sequence[str] | None = None,
    **source: Unpack[Source],
) -> Check:
    """The best of ours beats all others, or those `over`, by more than `by`.

    At every point, or at those of `only`.
    """
    mine = [ours] if isinstance(ours, str) else list(ours)

    def parts(found: Found) -> list[Part]:
        made = []
        for point in found.planned if only is None else only:
            rivals = [label for label in (over or found.labels(point)) if label not in mine]
            each = [leads(found, point, label, rivals, reading) for label in mine]
            made.append(Part(point, by_seed(max, each), "above", by))
        return made

    what = (
        f"{' or '.join(mine)} against {' and '.join(over) if over else 'the best other'}, "
        f"{reading.words}"
    )
    unit = unit_of(reading)
    more = f", more than {limit_in_words(by, unit)}" if by else ""
    return Check(name, claim, what + more, parts, unit, **source)


def order(
    labels: Sequence[str],
    reading: Reading,
    claim: str,
    *,
    name: str = "order",
    **source: Unpack[Source],
) -> Check:
    """From the first to the last, each is better than the next."""

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                f"{point} {first} over {second}".strip(),
                tuple(leads(found, point, first, [second], reading).values()),
                "above",
                0.0,
            )
            for point in found.planned
            for first, second in pairwise(labels)
        ]

    what = f"each over the next, {reading.words}"
    return Check(name, claim, what, parts, unit_of(reading), **source)


def close(
    labels: Sequence[str],
    reading: Reading,
    within: float,
    claim: str,
    *,
    name: str = "close",
    **source: Unpack[Source],
) -> Check:
    """All of them lie within a share `within` of the largest (for accuracies: within so much)."""

    def span(some: Sequence[float]) -> float:
        apart = max(some) - min(some)
        return apart if reading.share or math.isinf(apart) else apart / max(map(abs, some))

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                point,
                by_seed(span, [found.values(point, label, reading) for label in labels]),
                "below",
                within,
            )
            for point in found.planned
        ]

    kind = "largest difference" if reading.share else "largest difference, as a share"
    unit = unit_of(reading)
    what = f"{kind}, {reading.words}, at most {limit_in_words(within, unit)}"
    return Check(name, claim, what, parts, unit, **source)


def grows(
    ours: str,
    reading: Reading,
    small: Sequence[str],
    large: Sequence[str],
    claim: str,
    *,
    name: str = "margin grows",
    **source: Unpack[Source],
) -> Check:
    """The lead of ours over the best other grows from one set of points to another.

    It is larger at the points `large` than at the points `small`, in the means of both.
    """

    def gain(some: Sequence[float]) -> float:
        less, more = some[: len(small)], some[len(small) :]
        return sum(more) / len(more) - sum(less) / len(less)

    def parts(found: Found) -> list[Part]:
        lead = [
            leads(found, point, ours, [la for la in found.labels(point) if la != ours], reading)
            for point in [*small, *large]
        ]
        return [Part("", by_seed(gain, lead), "above", 0.0)]

    what = f"lead of {ours} at {', '.join(large)} less that at {', '.join(small)}, {reading.words}"
    return Check(name, claim, what, parts, unit_of(reading), **source)


def across(
    label: str,
    reading: Reading,
    pairs: Sequence[tuple[str, str]],
    relation: Relation,
    limit: float,
    claim: str,
    *,
    name: str,
    **source: Unpack[Source],
) -> Check:
    """For pairs of points, an algorithm's ratio of the first to the second has a limit."""

    def ratio(both: Sequence[float]) -> float:
        a, b = both
        if math.isinf(b):  # the second diverged, or never got there
            return math.nan if math.isinf(a) else math.inf if reading.higher else 0.0
        return a / b if b else math.nan

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                f"{first} over {second}",
                by_seed(ratio, [found.values(point, label, reading) for point in (first, second)]),
                relation,
                limit,
            )
            for first, second in pairs
        ]

    what = f"ratio of {reading.words}, {relation} {limit:g}"
    return Check(name, claim, what, parts, **source)


def best_point(
    ours: str,
    reading: Reading,
    point: str,
    claim: str,
    *,
    name: str = "best value",
    **source: Unpack[Source],
) -> Check:
    """For ours, one point is better than each other one."""
    sign = 1 if reading.higher else -1

    def lead(both: Sequence[float]) -> float:
        here, there = both
        return sign * (here - there)

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                f"against {other}",
                by_seed(lead, [found.values(each, ours, reading) for each in (point, other)]),
                "above",
                0.0,
            )
            for other in found.planned
            if other != point
        ]

    what = f"{ours} at {point} against other values, {reading.words}"
    return Check(name, claim, what, parts, unit_of(reading), **source)


def steady(
    ours: str,
    reading: Reading,
    claim: str,
    *,
    name: str = "robust",
    **source: Unpack[Source],
) -> Check:
    """From point to point ours changes less than any other: over two points at least."""

    def span(some: Sequence[float]) -> float:
        return math.inf if any(map(math.isinf, some)) else max(some) - min(some)

    def lead(spans: Sequence[float]) -> float:
        return min(spans[1:]) - spans[0]  # NaN where no algorithm arrives at all points

    def parts(found: Found) -> list[Part]:
        points = found.planned
        labels = sorted(found.algorithms, key=lambda label: label != ours)
        if len(points) < 2 or len(labels) < 2 or labels[0] != ours:
            return [Part("", (), "above", 0.0)]
        spans = [
            _keyed(span, [found.values(point, label, reading) for point in points])
            for label in labels
        ]
        return [Part("", by_seed(lead, spans), "above", 0.0)]

    what = f"least range of another over the points less that of {ours}, {reading.words}"
    return Check(name, claim, what, parts, unit_of(reading), **source)


def printed(
    numbers: Mapping[tuple[str, str, Reading], float],
    within: float,
    claim: str,
    *,
    ratio: bool = False,
    name: str = "numbers",
    **source: Unpack[Source],
) -> Check:
    """Every printed number is met to `within` by the median over seeds.

    With `ratio`, to a factor of 1 + within either way (for delays).
    """

    def parts(found: Found) -> list[Part]:
        made = []
        for (point, label, reading), target in numbers.items():
            values = tuple(found.values(point, label, reading).values())
            low, high = (
                (target / (1 + within), target * (1 + within))
                if ratio
                else (target - within, target + within)
            )
            where = f"{point} {label}, {reading.words} (paper {target:g})".strip()
            made.append(Part(where, values, "between", high, low))
        return made

    share = all(reading.share for _, _, reading in numbers) and not ratio
    near = (
        f"within a factor of {1 + within:g}"
        if ratio
        else limit_in_words(within, "points" if share else "")
    )
    what = f"the paper's number, {near if ratio else f'to {near}'}"
    return Check(name, claim, what, parts, "share" if share else "", exact=True, **source)


Function = Callable[[Sequence[float]], float]


def _keyed(function: Function, tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """A function of what several measurements gave, for every seed that all of them have.

    NaN where one of them says nothing.
    """
    made = {}
    for seed in tables[0]:
        if all(seed in table for table in tables):
            some = [table[seed] for table in tables]
            made[seed] = math.nan if any(map(math.isnan, some)) else function(some)
    return made


def by_seed(function: Function, tables: Sequence[Mapping[str, float]]) -> tuple[float, ...]:
    """The same, without the names of seeds."""
    return tuple(_keyed(function, tables).values())
