"""Panels whose rows have names: dots, bars, cells and bubbles."""

from __future__ import annotations

import math

from .axes import Region, draw_axis, draw_columns
from .canvas import Canvas, text_width
from .colours import Colours
from .picture import Bars, Bubbles, Cells, Dot, Dots
from .scales import Scale, span_of, value_text
from .wording import number, percent

__all__ = ["draw_bars", "draw_bubbles", "draw_cells", "draw_dots"]

_PALE, _DEEP = (228, 239, 249), (8, 70, 128)  # of cells, from the least to the largest value
_LIGHT_TEXT, _DARK_TEXT = "#ffffff", "#10202f"
_BUBBLE = "#0072B2"


def draw_dots(canvas: Canvas, panel: Dots, region: Region, colours: Colours) -> None:
    """Draw a row of dots per name, and the paper's numbers as diamonds."""
    values = [
        value
        for dot in panel.dots
        for value in (dot.value, dot.low, dot.high, dot.paper)
        if value is not None
    ]
    span = span_of(values, panel.across.log, 0.05)
    scale = Scale(panel.across, *span, region.x, region.right)
    draw_axis(canvas, scale, region)
    rows = list(dict.fromkeys(dot.row for dot in panel.dots))
    labels = list(dict.fromkeys(dot.label for dot in panel.dots))
    tall = region.height / max(1, len(rows))
    step = (tall - 10) / max(1, len(labels))
    for k in range(len(rows) + 1):
        y = region.y + k * tall
        canvas.rule((region.x, y), (region.right, y))
    for dot in panel.dots:
        y = region.y + rows.index(dot.row) * tall + 5 + (labels.index(dot.label) + 0.5) * step
        _draw_dot(canvas, dot, scale, y, colours[dot.label][0])


def _draw_dot(canvas: Canvas, dot: Dot, scale: Scale, y: float, colour: str) -> None:
    what, unit = f"{dot.row}, {dot.label}", scale.along.unit
    if dot.paper is not None:
        tooltip = f"{what}, the paper's: {value_text(dot.paper, unit)}"
        canvas.diamond(scale(dot.paper), y, colour, tooltip, 4.2)
    if not scale.holds(dot.value):
        # On the side where the paper's diamond is not.
        left = dot.paper is not None and scale(dot.paper) > (scale.start + scale.end) / 2
        at, anchor = (scale.start + 4, "start") if left else (scale.end - 4, "end")
        canvas.text(at, y + 4, "never", size=11, anchor=anchor, kind=colour)
        return
    if dot.low < dot.high and scale.holds(dot.low) and scale.holds(dot.high):
        canvas.line([(scale(dot.low), y), (scale(dot.high), y)], colour, width=1.6)
    low, high = value_text(dot.low, unit), value_text(dot.high, unit)
    span = f" ({low} to {high})" if dot.low < dot.high else ""
    tooltip = f"{what}: {value_text(dot.value, unit)}{span}"
    canvas.dot(scale(dot.value), y, 3.6, colour, tooltip)


def draw_bars(canvas: Canvas, panel: Bars, region: Region, colours: Colours) -> None:
    """Draw a bar per row, in parts, with its total beside it."""
    room = max((text_width(text, 11) for text in panel.totals), default=0.0) + 10
    inner = Region(region.x, region.y, region.width - room, region.height)
    scale = Scale(panel.across, 0.0, 1.0, inner.x, inner.right)
    draw_axis(canvas, scale, inner)
    tall = region.height / max(1, len(panel.rows))
    rows = zip(panel.rows, panel.values, panel.totals, strict=True)
    for k, (row, line, total) in enumerate(rows):
        whole, at = math.fsum(line), 0.0
        y = region.y + k * tall
        for part, value in zip(panel.parts, line, strict=True):
            if not math.isfinite(whole) or whole <= 0:
                continue
            share = value / whole
            tooltip = f"{row}, {part}: {number(value)}, {percent(share)} of the whole"
            size = scale(at + share) - scale(at), tall - 8
            canvas.box(scale(at), y + 4, size, colours[part][0], tooltip)
            at += share
        canvas.text(inner.right + 8, y + tall / 2 + 4, total, size=11, kind="s")


def draw_cells(canvas: Canvas, panel: Cells, region: Region) -> None:
    """Draw a heat map; the larger a value, the deeper its colour."""
    each = draw_columns(canvas, panel.columns, panel.across, region)
    tall = region.height / max(1, len(panel.rows))
    known = [value for line in panel.values for value in line if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    for r, line in enumerate(panel.values):
        for c, value in enumerate(line):
            if math.isnan(value):
                continue
            share = 1.0 if math.isinf(value) else (value - low) / ((high - low) or 1.0)
            channels = zip(_PALE, _DEEP, strict=True)
            colour = "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in channels)
            x, y, text = region.x + c * each, region.y + r * tall, _cell_text(value, panel)
            size = max(each - 2, 0.6 * each), tall - 2
            canvas.box(x + 1, y + 1, size, colour, _cell_tooltip(panel, r, c))
            if text_width(text, 11) < each - 4:
                kind = _LIGHT_TEXT if share > 0.5 else _DARK_TEXT
                middle = x + each / 2, y + tall / 2 + 4
                canvas.text(*middle, text, size=11, anchor="middle", kind=kind)


def _cell_text(value: float, panel: Cells) -> str:
    if math.isinf(value):
        return "never"
    return f"{100 * value:.0f}" if panel.unit == "%" else f"{value:.4g}"


def _cell_tooltip(panel: Cells, r: int, c: int) -> str:
    value = panel.values[r][c]
    text = percent(value) if panel.unit == "%" else _cell_text(value, panel)
    row = f"{panel.up.title} {panel.rows[r]}".strip()
    more = f" ({panel.about[c]})" if panel.about else ""
    return f"{row}, {panel.across.title} {panel.columns[c]}{more}: {text}"


def draw_bubbles(canvas: Canvas, panel: Bubbles, region: Region) -> None:
    """Draw a bubble per row and column; its area is the column's share of the row."""
    clients = max(map(len, panel.counts), default=0)
    each = draw_columns(canvas, [str(k) for k in range(clients)], panel.across, region)
    tall = region.height / max(1, len(panel.counts))
    shares = [[count / max(1, sum(line)) for count in line] for line in panel.counts]
    largest = max((share for line in shares for share in line), default=1.0) or 1.0
    most = min(tall / 2, max(each / 2, 3.0)) - 0.5
    for r, line in enumerate(shares):
        y = region.y + (r + 0.5) * tall
        canvas.rule((region.x, y), (region.right, y))
        for c, share in enumerate(line):
            if share > 0:
                count = f"{panel.counts[r][c]:,} samples, {percent(share)}"
                tooltip = f"{panel.up.title} {r}, {panel.across.title} {c}: {count}"
                radius = max(0.7, most * math.sqrt(share / largest))
                canvas.dot(region.x + (c + 0.5) * each, y, radius, _BUBBLE, tooltip)
