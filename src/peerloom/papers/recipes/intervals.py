"""An interval for the median over seeds, for values of any law, and for any of several looks.

Of n values each lies above the median with probability 1/2, whatever their law; how many do is
binomial. The interval reaches from one order statistic to the one as far from the other end, which
needs neither a mean nor symmetry. To add seeds until a claim is decided is to look several times,
and each look is another chance to be wrong. So the error is that of all LOOKS together, counted
exactly: in one of twenty cases at the most the median lies outside of any of the intervals.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeVar

__all__ = ["ERROR", "LOOKS", "interval", "judged", "look_after", "needed", "reached"]

T = TypeVar("T")

LOOKS = (7, 10, 15, 20, 30, 50)  # seeds at which something may be decided
ERROR = 0.05  # of all looks together, both sides


def look_after(seeds: int) -> int | None:
    """The next number of seeds at which something may be decided; None after the last.

    >>> look_after(0), look_after(7), look_after(50)
    (7, 10, None)
    """
    return next((look for look in LOOKS if look > seeds), None)


def judged(values: Sequence[T]) -> tuple[T, ...]:
    """The first of these, as many as the last look takes; all of them before the first look.

    >>> len(judged([0.0] * 9)), len(judged([0.0] * 3))
    (7, 3)
    """
    return tuple(values[: max((look for look in LOOKS if look <= len(values)), default=None)])


def interval(values: Sequence[float], error: float = ERROR) -> tuple[float, float] | None:
    """Where the median lies, by the judged of these values; None where they are too few.

    A value that is not a number may be any, so that it widens the interval on both sides.

    >>> interval([3.0, 1.0, 2.0, 5.0, 4.0, 7.0, 6.0]), interval([1.0, 2.0, 3.0])
    ((1.0, 7.0), None)
    """
    some = judged(values)
    enough = needed(error).get(len(some))
    if enough is None:
        return None
    low = sorted(-math.inf if math.isnan(value) else value for value in some)
    high = sorted(math.inf if math.isnan(value) else value for value in some)
    return low[len(some) - enough], high[enough - 1]


@cache
def needed(error: float) -> Mapping[int, int]:
    """How many values on one side of a limit show at each look that the median is there, too.

    They are the least that a fair coin reaches, at each look by itself, with one and the same
    chance at the most: the largest chance with which it reaches any of them, heads or tails, with
    `error` at the most. Looks at which no number suffices are left out.

    >>> needed(0.05)
    {7: 7, 10: 10, 15: 13, 20: 16, 30: 22, 50: 34}
    """
    chances = sorted({_chance(look, k) for look in LOOKS for k in range(look // 2 + 1, look + 1)})
    first_too_large = bisect_left(chances, True, key=lambda one: reached(_numbers(one)) > error)
    return _numbers(chances[first_too_large - 1]) if first_too_large else {}


def reached(numbers: Mapping[int, int]) -> float:
    """The chance that a fair coin shows so many heads, or tails, at any of these looks."""
    heads, found = [1.0], 0.0
    for tosses in range(1, max(numbers, default=0) + 1):
        heads = [(a + b) / 2 for a, b in pairwise([0.0, *heads, 0.0])]
        if tosses in numbers:
            within = range(tosses - numbers[tosses] + 1, numbers[tosses])
            found += sum(chance for k, chance in enumerate(heads) if k not in within)
            heads = [chance if k in within else 0.0 for k, chance in enumerate(heads)]
    return found


def _numbers(chance: float) -> dict[int, int]:
    """At each look the least number that a fair coin reaches with this chance at the most."""
    least = {
        look: next((k for k in range(look // 2 + 1, look + 1) if _chance(look, k) <= chance), None)
        for look in LOOKS
    }
    return {look: number for look, number in least.items() if number is not None}


def _chance(tosses: int, number: int) -> float:
    """The chance that a fair coin shows so many heads at least, or so many tails."""
    return sum(math.comb(tosses, k) for k in range(number, tosses + 1)) / 2.0 ** (tosses - 1)
