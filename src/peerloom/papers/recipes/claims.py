"""The kinds of claims that papers make, as checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from ...sweeps.readings import Found, Reading, middle
from .checks import Check, Part, Relation, Unit, difference

__all__ = ["across", "ahead", "best_point", "close", "grows", "order", "printed", "steady"]

Pick = Callable[[Found], Sequence[str]]


def _unit(reading: Reading) -> Unit:
    return "points" if reading.share else ""


def _limit(value: float, unit: Unit) -> str:
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
) -> Check:
    """The best of ours beats all others, or those `over`, by more than `by`.

    At every point, or at those of `only`.
    """
    mine = [ours] if isinstance(ours, str) else list(ours)

    def parts(found: Found) -> list[Part]:
        made = []
        for point in found.points:
            if only is not None and point not in only:
                continue
            rivals = [label for label in (over or found.labels(point)) if label not in mine]
            each = [
                difference(found, point, label, rivals, reading)
                for label in mine
                if label in found.labels(point)
            ]
            values = tuple(max(some) for some in zip(*each, strict=True)) if each else ()
            made.append(Part(point, values, "above", by, reading.least))
        return made

    what = (
        f"{' or '.join(mine)} against {' and '.join(over) if over else 'the best other'}, "
        f"{reading.words}"
    )
    return Check(
        name,
        claim,
        f"{what}, more than {_limit(by, _unit(reading))}" if by else what,
        parts,
        _unit(reading),
    )


def order(labels: Sequence[str], reading: Reading, claim: str, *, name: str = "order") -> Check:
    """From the first to the last, each is better than the next."""

    def parts(found: Found) -> list[Part]:
        return [
            Part(
                f"{point} {first} over {second}".strip(),
                difference(found, point, first, [second], reading),
                "above",
                0.0,
                reading.least,
            )
            for point in found.points
            for first, second in pairwise(labels)
            if {first, second} <= set(found.labels(point))
        ]

    return Check(name, claim, f"each over the next, {reading.words}", parts, _unit(reading))


def close(
    labels: Sequence[str], reading: Reading, within: float, claim: str, *, name: str = "close"
) -> Check:
    """All of them lie within a share `within` of the largest (for accuracies: within so much)."""

    def parts(found: Found) -> list[Part]:
        made = []
        for point in found.points:
            table = [
                found.values(point, label, reading)
                for label in labels
                if label in found.labels(point)
            ]
            seeds = [
                seed
                for seed in (table[0] if table else {})
                if all(seed in values for values in table)
            ]
            spans = []
            for seed in seeds:
                some = [values[seed] for values in table]
                span = max(some) - min(some)
                spans.append(span if reading.share else span / max(abs(value) for value in some))
            made.append(Part(point, tuple(spans), "below", within))
        return made

    kind = "largest difference" if reading.share else "largest difference, as a share"
    return Check(
        name,
        claim,
        f"{kind}, {reading.words}, at most {_limit(within, _unit(reading))}",
        parts,
        _unit(reading),
    )


def grows(
    ours: str,
    reading: Reading,
    small: Sequence[str],
    large: Sequence[str],
    claim: str,
    *,
    name: str = "margin grows",
) -> Check:
    """The lead of ours over the best other grows from one set of points to another.

    It is larger at the points `large` than at the points `small`, in the means of both.
    """

    def parts(found: Found) -> list[Part]:
        def lead(points: Sequence[str]) -> list[tuple[float, ...]]:
            of = {
                point: [label for label in found.labels(point) if label != ours] for point in points
            }
            return [
                difference(found, point, ours, others, reading)
                for point, others in of.items()
                if others
            ]

        less, more = lead(small), lead(large)
        if len(less) < len(small) or len(more) < len(large):
            return [Part("", (), "above", 0.0)]
        gains = [
            sum(some[k] for some in more) / len(more) - sum(some[k] for some in less) / len(less)
            for k in range(min(len(some) for some in [*less, *more]))
        ]
        return [Part("", tuple(gains), "above", 0.0)]

    what = f"lead of {ours} at {', '.join(large)} less that at {', '.join(small)}, {reading.words}"
    return Check(name, claim, what, parts, _unit(reading))


def across(
    label: str,
    reading: Reading,
    pairs: Sequence[tuple[str, str]],
    relation: Relation,
    limit: float,
    claim: str,
    *,
    name: str,
) -> Check:
    """For pairs of points, an algorithm's ratio of the first to the second has a limit."""

    def parts(found: Found) -> list[Part]:
        made = []
        for first, second in pairs:
            a, b = found.values(first, label, reading), found.values(second, label, reading)
            if a and b:
                made.append(
                    Part(
                        f"{first} over {second}",
                        tuple(_ratio(a[s], b[s]) for s in a if s in b),
                        relation,
                        limit,
                    )
                )
        return made

    return Check(name, claim, f"ratio of {reading.words}, {relation} {limit:g}", parts)


def _ratio(a: float, b: float) -> float:
    return a / b if math.isfinite(b) and b else math.nan


def best_point(
    ours: str, reading: Reading, point: str, claim: str, *, name: str = "best value"
) -> Check:
    """For ours, one point is better than each other one."""

    def parts(found: Found) -> list[Part]:
        sign = 1 if reading.higher else -1
        here = found.values(point, ours, reading)
        made = []
        for other in found.points:
            if other != point:
                there = found.values(other, ours, reading)
                values = tuple(
                    sign * (here[seed] - there[seed]) if seed in there else math.nan
                    for seed in here
                )
                made.append(Part(f"against {other}", values, "above", 0.0))
        return made

    return Check(
        name,
        claim,
        f"{ours} at {point} against other values, {reading.words}",
        parts,
        _unit(reading),
    )


def steady(ours: str, reading: Reading, claim: str, *, name: str = "robust") -> Check:
    """From point to point ours changes less than any other."""

    def parts(found: Found) -> list[Part]:
        def span(label: str, seed: str) -> float:
            some = [
                of[seed]
                for point in found.points
                if seed in (of := found.values(point, label, reading))
            ]
            return max(some) - min(some) if some and all(map(math.isfinite, some)) else math.inf

        labels = found.labels(found.points[0]) if found.points else []
        seeds = found.values(found.points[0], ours, reading) if ours in labels else {}
        lead = [
            min(span(label, seed) for label in labels if label != ours) - span(ours, seed)
            for seed in seeds
        ]
        return [Part("", tuple(lead), "above", 0.0)]

    return Check(
        name,
        claim,
        f"least range of another over the points less that of {ours}, {reading.words}",
        parts,
        _unit(reading),
    )


def printed(
    numbers: Mapping[tuple[str, str, Reading], float],
    within: float,
    claim: str,
    *,
    ratio: bool = False,
    name: str = "numbers",
) -> Check:
    """Every printed number is met to `within`.

    With `ratio`, to a factor of 1 + within either way (for delays).
    """

    def distance(value: float, target: float) -> float:
        if not ratio:
            return abs(value - target)
        return math.inf if not 0 < value < math.inf else max(value / target, target / value) - 1

    def parts(found: Found) -> list[Part]:
        made = []
        for (point, label, reading), target in numbers.items():
            if label not in found.labels(point):
                continue
            # the paper prints one number over its seeds
            value = middle(list(found.values(point, label, reading).values()))
            part = Part(
                f"{point} {label}, {reading.words} (paper {target:g})".strip(),
                (distance(value, target),),
                "below",
                within,
            )
            made.append(part if not math.isnan(value) else Part(part.where, (), "below", within))
        return made

    what = "factor beyond 1 to the paper's number" if ratio else "distance to the paper's number"
    accuracies = all(reading.share for _, _, reading in numbers)
    unit: Unit = "points" if accuracies and not ratio else ""
    return Check(name, claim, f"{what}, at most {_limit(within, unit)}", parts, unit, exact=True)
