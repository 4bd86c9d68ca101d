"""Panels of lines: where everything lies (`Frame`), then axes and lines drawn into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from .axes import FOOT, Region, draw_axis
from .canvas import Canvas, text_width
from .colours import Colours
from .picture import Line, Lines
from .scales import Scale, span_of, tick_texts, value_text
from .wording import number

__all__ = ["Frame", "draw_axes", "draw_lines", "frame_of", "has_band", "stroke_of"]

Row = tuple[float, float, float, float]  # x, y, low and high

_TICKS_APART = 38  # pixels between the ticks of the vertical axis
_FIRST, _OTHERS = 3.0, 2.0  # width of the first line of a legend and of the others


@dataclass(frozen=True)
class Frame:
    """Where the values of a panel lie: both scales within a region, and the vertical ticks."""

    x: Scale
    y: Scale
    region: Region
    ticks: tuple[float, ...]

    def holds(self, x: float, *values: float) -> bool:
        """Whether a point and its band can be shown."""
        return self.x.holds(x) and all(self.y.holds(value) for value in values)


def frame_of(panel: Lines, region: Region, head: float) -> Frame:
    """The frame of a panel that fills a region, below a title of height `head`."""
    across, up = _ranges(panel)
    top, height = region.y + head, region.height - head - FOOT
    y = Scale(panel.up, *up, top + height, top)
    ticks = y.ticks(max(3, int(height / _TICKS_APART)))
    longest = max((text_width(text, 11) for text in tick_texts(ticks, panel.up)), default=0.0)
    left = region.x + 12 + longest + (18 if region.titled else 0)
    inner = Region(left, top, region.right - 12 - left, height, region.titled)
    x = Scale(panel.across, *across, inner.x, inner.right)
    return Frame(x, y, inner, tuple(ticks))


def draw_axes(canvas: Canvas, panel: Lines, frame: Frame) -> None:
    """Draw both axes with their grids, numbers and titles."""
    region = frame.region
    draw_axis(canvas, frame.x, region, panel.marks())
    for value, text in zip(frame.ticks, tick_texts(frame.ticks, panel.up), strict=True):
        y = frame.y(value)
        canvas.rule((region.x, y), (region.right, y))
        canvas.text(region.x - 6, y + 4, text, size=11, anchor="end", kind="s")
    if region.titled:
        longest = max((text_width(t, 11) for t in tick_texts(frame.ticks, panel.up)), default=0.0)
        at = region.x - longest - 16
        canvas.turned(at, region.y + region.height / 2, panel.up.full_title, region.height)


def draw_lines(canvas: Canvas, panel: Lines, frame: Frame, colours: Colours) -> None:
    """Draw bands, then lines and marks above them; the first line on top."""
    known = [(line, _known(frame, line)) for line in reversed(panel.lines)]
    for line, rows in known:
        if has_band(line):
            with canvas.group(f'data-label="{escape(line.label)}"'):
                _draw_band(canvas, frame, rows, colours[line.label][0])
    for line, rows in known:
        with canvas.group(f'data-label="{escape(line.label)}"'):
            stroke = stroke_of(line.label, colours)
            points = [(frame.x(x), frame.y(y)) for x, y, _, _ in rows]
            canvas.line(points, stroke["colour"], dash=stroke["dash"], width=stroke["width"])
            if line.marked or len(rows) == 1:
                _draw_marks(canvas, panel, frame, line.label, rows, stroke["colour"])
    for line in panel.lines:
        for x, y in line.paper:
            if frame.holds(x, y):
                where = f"{line.label}, the paper's, {panel.across.title} {number(x)}"
                tooltip = f"{where}: {value_text(y, panel.up.unit)}"
                canvas.diamond(frame.x(x), frame.y(y), colours[line.label][0], tooltip)


def has_band(line: Line) -> bool:
    """Whether a line has a range anywhere."""
    return any(low < high for low, high in zip(line.low, line.high, strict=True))


def stroke_of(label: str, colours: Colours) -> dict[str, Any]:
    """How the line of a label is drawn; the first label has the thickest line."""
    colour, dash = colours[label]
    first = label == next(iter(colours))
    return {"colour": colour, "dash": dash, "width": _FIRST if first else _OTHERS}


def _draw_band(canvas: Canvas, frame: Frame, rows: Sequence[Row], colour: str) -> None:
    there = [(frame.x(x), frame.y(high)) for x, _, _, high in rows]
    back = [(frame.x(x), frame.y(low)) for x, _, low, _ in reversed(rows)]
    canvas.area([*there, *back], colour)


def _draw_marks(
    canvas: Canvas, panel: Lines, frame: Frame, label: str, rows: Sequence[Row], colour: str
) -> None:
    unit = panel.up.unit
    for x, y, low, high in rows:
        span = f" ({value_text(low, unit)} to {value_text(high, unit)})" if low < high else ""
        where = f"{label}, {panel.across.title} {number(x)}"
        tooltip = f"{where}: {value_text(y, unit)}{span}"
        canvas.dot(frame.x(x), frame.y(y), 3.2, colour, tooltip)


def _known(frame: Frame, line: Line) -> list[Row]:
    """The rows of a line that can be shown."""
    rows = zip(line.x, line.y, line.low, line.high, strict=True)
    return [row for row in rows if frame.holds(*row)]


def _ranges(panel: Lines) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges of the two axes; shares start at zero, unless all of them are large."""
    shown = panel.shown()
    across = span_of([x for x, _ in shown], panel.across.log, 0.03)
    if panel.start > 0 and panel.across.log:
        across = max(across[0], panel.start), across[1]
    low, high = span_of(panel.reach or [value for _, value in shown], panel.up.log)
    return across, (0.0 if panel.up.unit == "%" and low < high / 2 else low, high)
