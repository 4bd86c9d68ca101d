"""Axes of pictures: where a value lies, where the ticks are, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

from .wording import number, percent, size

__all__ = [
    "Along",
    "Scale",
    "Unit",
    "grows_by_factors",
    "span_of",
    "spans_decades",
    "tick_texts",
    "value_text",
]

Unit = Literal["", "%", "B"]

_DECADES = 1.5  # beyond this a linear axis squeezes the small values together
_FACTOR = 8  # largest over least of varied values, below which a linear axis serves as well
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Along:
    """What runs along an axis: its title, whether it is logarithmic, and its unit.

    Shares, of unit "%", are numbers from 0 to 1 and written in per cent.
    """

    title: str
    log: bool = False
    unit: Unit = ""

    @property
    def full_title(self) -> str:
        """The title as it stands beside the axis."""
        return f"{self.title} (log)" if self.log else self.title


@dataclass(frozen=True)
class Scale:
    """An axis between two pixels, `start` and `end`, where the values `low` and `high` lie."""

    along: Along
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low, high = self._ends
        here = math.log10(value) if self.along.log else value
        return self.start + (self.end - self.start) * (here - low) / ((high - low) or 1.0)

    def holds(self, value: float) -> bool:
        """Whether a value can be shown; NaN never can."""
        least, largest = self._bounds
        return least <= value <= largest

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The values at both ends, or their logarithms on a log axis."""
        if self.along.log:
            return math.log10(self.low), math.log10(self.high)
        return self.low, self.high

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        """The least and the largest value that can be shown, a rounding error beyond the ends."""
        low, high = self._ends
        slack = 1e-9 * abs(high - low)
        if self.along.log:
            return 10 ** (low - slack), 10 ** (high + slack)
        return low - slack, high + slack

    def ticks(self, most: int) -> list[float]:
        """Round values, about as many as there is room for."""
        found = self._powers(most) if self.along.log else self._steps(most)
        return [value for value in found if self.holds(value)]

    def _steps(self, most: int) -> list[float]:
        step = (self.high - self.low) / max(1, most)
        if step <= 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(step))
        step = next(power * k for k in (1, 2, 2.5, 5, 10) if power * k >= step * (1 - 1e-9))
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
    """A range slightly larger than that of the values, leaving out what cannot be shown."""
    known = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if not known:
        return (1.0, 10.0) if log else (0.0, 1.0)
    low, high = min(known), max(known)
    if log:
        width = max(math.log10(high / low), 0.3)
        return low / 10 ** (room * width), high * 10 ** (room * width)
    width = (high - low) or abs(high) or 1.0
    return low - room * width, high + room * width


def spans_decades(values: Iterable[float]) -> bool:
    """Whether values lie so far apart that only a log axis shows all of them."""
    known = [value for value in values if math.isfinite(value)]
    return bool(known) and min(known) > 0 and math.log10(max(known) / min(known)) > _DECADES


def grows_by_factors(values: Iterable[float]) -> bool:
    """Whether varied values, such as 1e-4, 1e-3, 1e-2, lie more evenly on a log axis.

    >>> grows_by_factors([1, 2, 4, 8, 16]), grows_by_factors(range(1, 11))
    (True, False)
    """
    ranked = sorted(set(values))
    if len(ranked) < 2 or ranked[0] <= 0 or ranked[-1] < _FACTOR * ranked[0]:
        return False
    steps = [b - a for a, b in pairwise(ranked)]
    factors = [math.log(b / a) for a, b in pairwise(ranked)]
    return len(ranked) == 2 or max(factors) / min(factors) < max(steps) / min(steps)


def value_text(value: float, unit: Unit) -> str:
    """One value as a tooltip writes it.

    >>> value_text(0.7123, "%"), value_text(12_345_678, "B"), value_text(1234.5, "")
    ('71.2 %', '12.3 MB', '1,234')
    """
    return percent(value) if unit == "%" else size(value) if unit == "B" else number(value)


def tick_texts(values: Sequence[float], along: Along) -> list[str]:
    """Ticks as text, all of them in one style.

    >>> tick_texts([0.0, 0.25, 0.5], Along("accuracy", unit="%"))
    ['0 %', '25 %', '50 %']
    >>> tick_texts([10.0, 1000.0, 100000.0], Along("delay"))
    ['10', '1,000', '100k']
    """
    return [_tick(value, along.unit) for value in values]


def _tick(value: float, unit: Unit) -> str:
    if unit == "%":
        return f"{100 * value:.4g} %"
    size = abs(value)
    if unit == "B":
        power = 0 if size < 1 else min(int(math.log10(size) / 3 + 1e-9), 4)
        return f"{value / 1000**power:.4g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
    if 0 < size < 1e-3 or size >= 1e9:
        power = math.floor(math.log10(size) + 1e-9)
        digits = value / 10.0**power
        lead = "" if abs(digits - 1) < 1e-6 else f"{digits:.3g}·"
        return f"{lead}10{str(power).translate(_SUPERSCRIPT)}"
    if size >= 1e4:
        return f"{value / 1e6:.4g}M" if size >= 1e6 else f"{value / 1e3:.4g}k"
    return f"{value:,.5g}"
