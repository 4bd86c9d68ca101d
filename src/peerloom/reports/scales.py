"""Axes of static pictures: where a value lies, where the ticks are, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

__all__ = ["Along", "Scale", "Unit", "grows_by_factors", "span_of", "spans_decades", "written"]

Unit = Literal["", "%", "B"]

_DECADES = 1.5  # from here on a linear axis squeezes the small values together
_FACTOR = 8  # between the least and the largest of varied values, below which a linear axis serves as well
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Along:
    """What runs along an axis: its title, whether it is logarithmic, and its unit; shares are written in per cent."""

    title: str
    log: bool = False
    unit: Unit = ""


@dataclass(frozen=True)
class Scale:
    """An axis between two pixels; `low` and `high` are the values that lie there."""

    along: Along
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high, here = (
            (math.log10(v) for v in (self.low, self.high, value)) if self.along.log else (self.low, self.high, value)
        )
        return self.start + (self.end - self.start) * (here - low) / ((high - low) or 1.0)

    def holds(self, value: float) -> bool:
        """Whether a value can be shown."""
        if not math.isfinite(value) or (self.along.log and value <= 0):
            return False
        low, high, here = (math.log10(v) if self.along.log else v for v in (self.low, self.high, value))
        slack = 1e-9 * abs(high - low)
        return low - slack <= here <= high + slack

    def ticks(self, most: int) -> list[float]:
        """Round values, about as many as there is room for."""
        return [value for value in (self._powers(most) if self.along.log else self._steps(most)) if self.holds(value)]

    def _steps(self, most: int) -> list[float]:
        size = (self.high - self.low) / max(1, most)
        if size <= 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(size))
        step = next(power * k for k in (1, 2, 2.5, 5, 10) if power * k >= size * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        return [round(k * step, 12) for k in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _powers(self, most: int) -> list[float]:
        low, high = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for leading in ((1, 2, 5), (1, 3), (1,)):
            found = [k * 10.0**power for power in range(low, high + 1) for k in leading]
            if sum(map(self.holds, found)) <= most:
                return found
        apart = math.ceil((high - low + 1) / max(1, most))
        return [10.0**power for power in range(low, high + 1) if power % apart == 0]


def span_of(values: Iterable[float], log: bool, room: float = 0.04) -> tuple[float, float]:
    """From a bit below the least to a bit above the largest of the values that can be shown."""
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if not known:
        return (1.0, 10.0) if log else (0.0, 1.0)
    low, high = min(known), max(known)
    if log:
        wide = max(math.log10(high / low), 0.3)
        return low / 10 ** (room * wide), high * 10 ** (room * wide)
    wide = (high - low) or abs(high) or 1.0
    return low - room * wide, high + room * wide


def spans_decades(values: Iterable[float]) -> bool:
    """Whether values lie so far apart that only a log axis shows all of them."""
    known = [value for value in values if math.isfinite(value)]
    return bool(known) and min(known) > 0 and math.log10(max(known) / min(known)) > _DECADES


def grows_by_factors(values: Iterable[float]) -> bool:
    """Whether varied values, such as 1e-4, 1e-3, 1e-2, lie more evenly on a log axis.

    >>> grows_by_factors([1, 2, 4, 8, 16]), grows_by_factors(range(1, 11)), grows_by_factors([32, 64, 128])
    (True, False, False)
    """
    ranked = sorted(set(values))
    if len(ranked) < 2 or ranked[0] <= 0 or ranked[-1] < _FACTOR * ranked[0]:
        return False
    steps, factors = ([b - a for a, b in pairwise(ranked)], [math.log(b / a) for a, b in pairwise(ranked)])
    return len(ranked) == 2 or max(factors) / min(factors) < max(steps) / min(steps)


def written(values: Sequence[float], along: Along) -> list[str]:
    """Ticks as text, all of them in one manner.

    >>> written([0.0, 0.25, 0.5], Along("accuracy", unit="%")), written([10.0, 1000.0, 100000.0], Along("delay"))
    (['0 %', '25 %', '50 %'], ['10', '1,000', '100k'])
    """
    return [_written(value, along.unit) for value in values]


def _written(value: float, unit: Unit) -> str:
    if unit == "%":
        return f"{100 * value:.4g} %"
    size = abs(value)
    if unit == "B":
        power = 0 if size < 1 else min(int(math.log10(size) / 3 + 1e-9), 4)
        return f"{value / 1000**power:.4g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
    if 0 < size < 1e-3 or size >= 1e9:
        power = math.floor(math.log10(size) + 1e-9)
        digits = value / 10.0**power
        return ("" if abs(digits - 1) < 1e-6 else f"{digits:.3g}·") + "10" + str(power).translate(_SUPERSCRIPT)
    if size >= 1e4:
        return f"{value / 1e6:.4g}M" if size >= 1e6 else f"{value / 1e3:.4g}k"
    return f"{value:,.5g}"
