"""Axes as they are drawn, and the region of a canvas that a panel fills."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from .canvas import Canvas, text_width
from .scales import Along, Scale, tick_texts

__all__ = ["FOOT", "Region", "draw_axis", "draw_columns", "ticks_of"]

FOOT = 44.0  # pixels below a panel's marks, for ticks and the title of the axis
_LEAST_APART = 34.0  # pixels from tick to tick
_USUAL_APART = 52.0


@dataclass(frozen=True)
class Region:
    """A rectangle of the canvas; `titled` says whether the vertical axis has its title there."""

    x: float
    y: float
    width: float
    height: float
    titled: bool = True

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.height


def ticks_of(scale: Scale, marks: Sequence[float] = ()) -> list[float]:
    """Ticks of a horizontal axis: at the marks, if these leave room for numbers."""
    width = abs(scale.end - scale.start)
    nearest = min((scale(b) - scale(a) for a, b in pairwise(marks)), default=width)
    if marks and nearest >= _LEAST_APART:
        return list(marks)
    return scale.ticks(max(2, int(width / _USUAL_APART)))


def draw_axis(canvas: Canvas, scale: Scale, region: Region, marks: Sequence[float] = ()) -> None:
    """Draw the horizontal axis: grid, numbers and title."""
    ticks = ticks_of(scale, marks)
    for value, text in zip(ticks, tick_texts(ticks, scale.along), strict=True):
        x = scale(value)
        canvas.rule((x, region.y), (x, region.bottom))
        canvas.text(x, region.bottom + 16, text, size=11, anchor="middle", kind="s")
    canvas.rule((region.x, region.bottom), (region.right, region.bottom), "l")
    _draw_title(canvas, scale.along.full_title, region)


def draw_columns(canvas: Canvas, names: Sequence[str], along: Along, region: Region) -> float:
    """Write names below columns, as many as there is room for; returns the width of a column."""
    each = region.width / max(1, len(names))
    longest = max((text_width(name, 11) for name in names), default=0.0)
    every = max(1, math.ceil(longest / max(each - 2, 1)))
    for k, name in enumerate(names):
        if k % every == 0:
            x = region.x + (k + 0.5) * each
            canvas.text(x, region.bottom + 16, name, size=11, anchor="middle", kind="s")
    _draw_title(canvas, along.title, region)
    return each


def _draw_title(canvas: Canvas, title: str, region: Region) -> None:
    middle = region.x + region.width / 2
    canvas.text(middle, region.bottom + 35, title, anchor="middle", kind="s")
