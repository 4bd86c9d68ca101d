"""The result of a comparison in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .groups import Quality
from .targets import Reach
from .wording import number, plural, points, times

if TYPE_CHECKING:
    from .summary import Equal

__all__ = ["headline", "headline_target"]

_LEVEL = 5e-4  # accuracies closer than this are called equal: it is the last digit that is printed


def headline(
    quality: Quality,
    targets: Sequence[float],
    reached: Sequence[Reach],
    delay: float | None,
    equal: Sequence[Equal],
) -> list[str]:
    """Who reaches the target first, and who is best at equal delay, as sentences."""
    sentences = [_soonest(quality, targets, reached)]
    if delay is not None and len(equal) > 1:
        sentences += [_best(quality, delay, equal), _whole(quality, equal)]
    return [sentence for sentence in sentences if sentence]


def headline_target(targets: Sequence[float], reached: Sequence[Reach]) -> float | None:
    """The hardest target that two algorithms reach in the median, otherwise that one does."""
    finishers = {target: _arrived(reached, target) for target in targets}
    for least in (2, 1):
        if hard := [target for target in targets if len(finishers[target]) >= least]:
            return hard[-1]
    return None


def _arrived(reached: Sequence[Reach], target: float) -> list[Reach]:
    """The algorithms that reach a target in the median over seeds, soonest first."""
    there = [one for one in reached if one.target == target and one.delay.median is not None]
    return sorted(there, key=lambda one: one.delay.median or 0.0)


def _soonest(quality: Quality, targets: Sequence[float], reached: Sequence[Reach]) -> str:
    target = headline_target(targets, reached)
    if target is None:
        if not reached:
            return "No algorithm gets clearly better than it was at the start."
        levels = " or ".join(quality.level(target) for target in targets)
        return f"Nobody reaches {levels} in most seeds."
    order = _arrived(reached, target)
    first, level = order[0], quality.level(target)
    labels = list(dict.fromkeys(one.label for one in reached))
    text = f"{first.label} reaches {level} after a median delay of {number(first.delay.median)}"
    if len(labels) == 1:
        return f"{text} ({plural(first.reached, 'seed')} of {first.seeds})."
    rest = _listed_first(labels[0], order, level)
    if len(order) == 1:
        return f"{text}; no other algorithm reaches it in most seeds.{rest}"
    second = order[1]
    rival = "the best baseline" if first.label == labels[0] else "the next"
    factor = _sooner(_ratio(second.delay.median, first.delay.median))
    delay = f"{number(second.delay.median)}{_pairs(first, second)}"
    text += f", {factor} {rival}, {second.label} ({delay})."
    if len(targets) > 1:
        orders = [some for one in targets if (some := _arrived(reached, one))]
        wins = sum(some[0].label == first.label for some in orders)
        text += f" It is the first at {wins} of {plural(len(targets), 'target')}."
    return text + rest


def _sooner(factor: float) -> str:
    return "as soon as" if factor < 1.05 else f"{times(factor)} sooner than"


def _pairs(first: Reach, second: Reach) -> str:
    """The range of the factor over seeds, where there are several."""
    both = [(a, second.by_seed.get(seed)) for seed, a in first.by_seed.items()]
    factors = [_ratio(b, a) for a, b in both if a is not None and b is not None]
    if len(factors) < 2:
        return ""
    return f"; seed by seed the factor is {min(factors):.2g} to {max(factors):.2g}"


def _ratio(over: float | None, under: float | None) -> float:
    if over is None or under is None:
        return math.nan
    return over / under if under > 0 else math.inf


def _listed_first(listed: str, order: Sequence[Reach], level: str) -> str:
    """The result of the algorithm listed first, where it is not the winner."""
    if order[0].label == listed:
        return ""
    for one in order:
        if one.label == listed:
            factor = _ratio(one.delay.median, order[0].delay.median)
            delay = f"{number(one.delay.median)}, {times(factor)} as long as the soonest"
            return f" {listed}, listed first, takes {delay}."
    return f" {listed}, listed first, does not reach {level} in most seeds."


def _best(quality: Quality, delay: float, equal: Sequence[Equal]) -> str:
    sign = 1 if quality.higher else -1
    if not (known := _ranked(quality, equal)):
        return ""
    top = known[0]
    at = f"At equal delay ({number(delay)}, the most that every finished run reached)"
    best = "the most accurate" if quality.higher else "lowest in loss"
    text = f"{at} {top.label} is {best}, {quality.text(top.value.median)} in the median"
    if len(known) == 1:
        return f"{text}; no other algorithm has a value there."
    second = known[1]
    gap = sign * ((top.value.median or 0.0) - (second.value.median or 0.0))
    if gap < (_LEVEL if quality.higher else 1e-12):
        text = f"{at} {top.label} and {second.label} are level at {quality.text(top.value.median)}"
    else:
        text += f", {_margin(quality, gap)} {second.label}{_ahead(sign, top, second)}"
    listed = equal[0]
    if listed.label in (top.label, second.label):
        return f"{text}."
    value = listed.value.median
    behind = f"has {quality.text(value)}" if value is not None else "has no value there"
    return f"{text}. {listed.label}, listed first, {behind}."


def _whole(quality: Quality, equal: Sequence[Equal]) -> str:
    """The best averaged model, which no single client has; empty where there is none."""
    by_own, by_average = _ranked(quality, equal), _ranked(quality, equal, averaged=True)
    if not by_own or not by_average:
        return ""
    top, best = by_own[0], by_average[0]
    value = quality.text(best.averaged.median)
    text = f"Judged by the averaged model, {best.label} is the best there: {value}"
    other = f", against {quality.text(top.averaged.median)} for {top.label}"
    return f"{text}." if best is top else f"{text}{other}."


def _ranked(quality: Quality, equal: Sequence[Equal], *, averaged: bool = False) -> list[Equal]:
    """The algorithms that have a value, the best first."""
    found = [(one.averaged if averaged else one.value, one) for one in equal]
    known = [(value.median, one) for value, one in found if value.median is not None]
    return [one for _, one in sorted(known, key=lambda pair: pair[0], reverse=quality.higher)]


def _margin(quality: Quality, gap: float) -> str:
    return f"{points(gap)} above" if quality.higher else f"{number(gap)} below"


def _ahead(sign: int, top: Equal, second: Equal) -> str:
    """In how many seeds the winner is ahead, as words."""
    pairs = [(a, second.by_seed.get(seed)) for seed, a in top.by_seed.items()]
    wins = [sign * (a - b) > 0 for a, b in pairs if a is not None and b is not None]
    return f" (ahead of it in {sum(wins)} of {plural(len(wins), 'seed')})" if len(wins) > 1 else ""
