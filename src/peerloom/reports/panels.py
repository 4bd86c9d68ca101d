"""How each kind of panel is drawn into its place on the sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .canvas import Canvas, wide
from .picture import Bars, Bubbles, Cells, Dots, Lines, Panel
from .scales import Along, Scale, span_of, written
from .wording import number, percent

__all__ = ["Place", "height_of", "paint"]

Inks = Mapping[str, tuple[str, str]]

_FOOT = 44.0  # below what is drawn: ticks and the axis' title
_LEAST_APART = 34.0  # pixels from tick to tick
_PALE, _DEEP = (228, 239, 249), (8, 70, 128)  # of cells, from the least to the largest value
_BUBBLE = "#0072B2"
_ROW = {Dots: 30.0, Cells: 34.0, Bars: 24.0, Bubbles: 26.0}


@dataclass(frozen=True)
class Place:
    """Where a panel goes; without `titled` the vertical axis' title stands on the panel to its left."""

    x: float
    y: float
    width: float
    height: float
    titled: bool = True


def height_of(panel: Panel, width: float) -> float:
    """How tall a panel of this width should be."""
    if isinstance(panel, Lines):
        return _head(panel) + _FOOT + min(270.0, max(150.0, 0.62 * width))
    return _head(panel) + _FOOT + _ROW[type(panel)] * len(_rows(panel))


def _head(panel: Panel) -> float:
    """Room above what is drawn, for the title."""
    return 24.0 if panel.title else 6.0


def paint(canvas: Canvas, panel: Panel, place: Place, inks: Inks) -> None:
    """Draw a panel."""
    if panel.title:
        size = min(12.5, 12.5 * (place.width - 10) / wide(panel.title, 12.5))  # a long one must not run into its neighbour
        canvas.text(place.x + 4, place.y + 14, panel.title, size=size, more=' font-weight="600"')
    if isinstance(panel, Lines):
        _lines(canvas, panel, place, inks)
        return
    names = _rows(panel)
    left = place.x + 14 + max(map(wide, names), default=0.0) + (18 if isinstance(panel, Cells | Bubbles) else 0)
    inner = Place(left, place.y + _head(panel), place.x + place.width - 12 - left, place.height - _head(panel) - _FOOT)
    tall = inner.height / max(1, len(names))
    for k, name in enumerate(names):
        canvas.text(left - 8, inner.y + (k + 0.5) * tall + 4, name, anchor="end")
    if isinstance(panel, Cells | Bubbles):
        canvas.turned(place.x + 14, inner.y + inner.height / 2, panel.up.title, inner.height)
    if isinstance(panel, Dots):
        _dots(canvas, panel, inner, tall, inks)
    elif isinstance(panel, Bars):
        _bars(canvas, panel, inner, tall, inks)
    elif isinstance(panel, Cells):
        _cells(canvas, panel, inner, tall)
    else:
        _bubbles(canvas, panel, inner, tall)


def _rows(panel: Dots | Cells | Bars | Bubbles) -> list[str]:
    if isinstance(panel, Dots):
        return list(dict.fromkeys(dot.row for dot in panel.dots))
    return [str(k) for k in range(len(panel.counts))] if isinstance(panel, Bubbles) else list(panel.rows)


def _say(value: float, along: Along) -> str:
    return percent(value) if along.unit == "%" else number(value)


def _bottom(canvas: Canvas, scale: Scale, inner: Place, marks: Sequence[float] = ()) -> None:
    """Ticks, numbers and title of an axis along the bottom; ticks are at the marks, if these leave room for numbers."""
    bottom = inner.y + inner.height
    near = min((scale(b) - scale(a) for a, b in pairwise(marks)), default=inner.width)
    ticks = list(marks) if marks and near >= _LEAST_APART else scale.ticks(max(2, int(inner.width / 52)))
    for value, text in zip(ticks, written(ticks, scale.along), strict=True):
        canvas.rule(scale(value), inner.y, scale(value), bottom)
        canvas.text(scale(value), bottom + 16, text, size=11, anchor="middle", kind="s")
    canvas.rule(inner.x, bottom, inner.x + inner.width, bottom, "l")
    canvas.text(inner.x + inner.width / 2, bottom + 35, _titled(scale.along), anchor="middle", kind="s")


def _titled(along: Along) -> str:
    return f"{along.title} (log)" if along.log else along.title


def _lines(canvas: Canvas, panel: Lines, place: Place, inks: Inks) -> None:
    across, up = _ranges(panel)
    ticks_up = Scale(panel.up, *up, 1.0, 0.0).ticks(max(3, int((place.height - _head(panel) - _FOOT) / 38)))
    texts = written(ticks_up, panel.up)
    left = place.x + 12 + max(wide(text, 11) for text in texts or [""]) + (18 if place.titled else 0)
    inner = Place(left, place.y + _head(panel), place.x + place.width - 12 - left, place.height - _head(panel) - _FOOT)
    x = Scale(panel.across, *across, inner.x, inner.x + inner.width)
    y = Scale(panel.up, *up, inner.y + inner.height, inner.y)
    _bottom(canvas, x, inner, panel.marks())
    for value, text in zip(ticks_up, texts, strict=True):
        canvas.rule(inner.x, y(value), inner.x + inner.width, y(value))
        canvas.text(inner.x - 6, y(value) + 4, text, size=11, anchor="end", kind="s")
    if place.titled:
        canvas.turned(place.x + 14, inner.y + inner.height / 2, _titled(panel.up), inner.height)
    first = next(iter(inks), "")
    for line in reversed(panel.lines):
        ink, dash = inks[line.label]
        rows = zip(line.x, line.y, line.low, line.high, strict=True)
        known = [row for row in rows if x.holds(row[0]) and all(y.holds(value) for value in row[1:])]
        if len(known) > 1:
            if any(low < high for _, _, low, high in known):
                there, back = [(x(a), y(high)) for a, _, _, high in known], [(x(a), y(low)) for a, _, low, _ in known]
                canvas.area([*there, *reversed(back)], ink)
            canvas.line([(x(a), y(b)) for a, b, _, _ in known], ink, dash=dash, width=2.6 if line.label == first else 1.7)
        for a, b, low, high in known if line.marked or len(known) == 1 else []:
            span = f" ({_say(low, panel.up)} to {_say(high, panel.up)})" if low < high else ""
            canvas.dot(x(a), y(b), 3.2, ink, f"{line.label}, {panel.across.title} {number(a)}: {_say(b, panel.up)}{span}")
    for line in panel.lines:
        for a, b in line.paper:
            if x.holds(a) and y.holds(b):
                said = f"{line.label}, the paper's, {panel.across.title} {number(a)}: {_say(b, panel.up)}"
                canvas.diamond(x(a), y(b), inks[line.label][0], said)


def _ranges(panel: Lines) -> tuple[tuple[float, float], tuple[float, float]]:
    """What the two axes must cover; accuracies start at zero, unless all of them are large."""
    shown = panel.shown()
    across = span_of([x for x, _ in shown], panel.across.log, 0.03)
    across = (max(across[0], panel.start), across[1]) if panel.start > 0 and panel.across.log else across
    low, high = span_of(panel.reach or [value for _, value in shown], panel.up.log)
    return across, (0.0 if panel.up.unit == "%" and low < high / 2 else low, high)


def _dots(canvas: Canvas, panel: Dots, inner: Place, tall: float, inks: Inks) -> None:
    values = [v for dot in panel.dots for v in (dot.value, dot.low, dot.high, dot.paper) if v is not None]
    scale = Scale(panel.across, *span_of(values, panel.across.log, 0.05), inner.x, inner.x + inner.width)
    _bottom(canvas, scale, inner)
    rows, labels = _rows(panel), list(dict.fromkeys(dot.label for dot in panel.dots))
    step = (tall - 10) / max(1, len(labels))
    for k in range(len(rows) + 1):
        canvas.rule(inner.x, inner.y + k * tall, inner.x + inner.width, inner.y + k * tall)
    for dot in panel.dots:
        y = inner.y + rows.index(dot.row) * tall + 5 + (labels.index(dot.label) + 0.5) * step
        ink, what = inks[dot.label][0], f"{dot.row}, {dot.label}"
        if dot.paper is not None:
            canvas.diamond(scale(dot.paper), y, ink, f"{what}, the paper's: {_say(dot.paper, panel.across)}", 4.2)
        if not scale.holds(dot.value):
            left = dot.paper is not None and scale(dot.paper) > inner.x + inner.width / 2  # beside the paper's diamond
            at, anchor = (inner.x + 4, "start") if left else (inner.x + inner.width - 4, "end")
            canvas.text(at, y + 4, "never", size=11, anchor=anchor, kind=ink)
            continue
        ends = [value for value in (dot.low, dot.high) if scale.holds(value)]
        if len(ends) == 2 and dot.low < dot.high:
            canvas.line([(scale(dot.low), y), (scale(dot.high), y)], ink, width=1.6)
        span = f" ({_say(dot.low, panel.across)} to {_say(dot.high, panel.across)})" if dot.low < dot.high else ""
        canvas.dot(scale(dot.value), y, 3.6, ink, f"{what}: {_say(dot.value, panel.across)}{span}")


def _bars(canvas: Canvas, panel: Bars, inner: Place, tall: float, inks: Inks) -> None:
    room = max((wide(text, 11) for text in panel.totals), default=0.0) + 10
    scale = Scale(panel.across, 0.0, 1.0, inner.x, inner.x + inner.width - room)
    _bottom(canvas, scale, Place(inner.x, inner.y, inner.width - room, inner.height))
    for k, (row, line, total) in enumerate(zip(panel.rows, panel.values, panel.totals, strict=True)):
        whole, at = math.fsum(line), 0.0
        y = inner.y + k * tall
        for part, value in zip(panel.parts, line, strict=True):
            if not math.isfinite(whole) or whole <= 0:
                continue
            said = f"{row}, {part}: {number(value)}, {percent(value / whole)} of the whole"
            canvas.box(scale(at), y + 4, scale(at + value / whole) - scale(at), tall - 8, inks[part][0], said)
            at += value / whole
        canvas.text(inner.x + inner.width - room + 8, y + tall / 2 + 4, total, size=11, kind="s")


def _columns(canvas: Canvas, names: Sequence[str], across: Along, inner: Place) -> float:
    """Names below the columns, as many as there is room for; gives the width of a column."""
    each = inner.width / max(1, len(names))
    every = max(1, math.ceil(max((wide(name, 11) for name in names), default=0.0) / max(each - 2, 1)))
    for k, name in enumerate(names):
        if k % every == 0:
            canvas.text(inner.x + (k + 0.5) * each, inner.y + inner.height + 16, name, size=11, anchor="middle", kind="s")
    canvas.text(inner.x + inner.width / 2, inner.y + inner.height + 35, across.title, anchor="middle", kind="s")
    return each


def _cells(canvas: Canvas, panel: Cells, inner: Place, tall: float) -> None:
    each = _columns(canvas, panel.columns, panel.across, inner)
    known = [value for line in panel.values for value in line if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    for r, line in enumerate(panel.values):
        for c, value in enumerate(line):
            if math.isnan(value):
                continue
            share = 1.0 if math.isinf(value) else (value - low) / ((high - low) or 1.0)
            ink = "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(_PALE, _DEEP, strict=True))
            x, y, text = inner.x + c * each, inner.y + r * tall, "never" if math.isinf(value) else f"{value:.4g}"
            said = f"{panel.up.title} {panel.rows[r]}, {panel.across.title} {panel.columns[c]}: {text}"
            canvas.box(x + 1, y + 1, each - 2, tall - 2, ink, said)
            if wide(text, 11) < each - 4:
                canvas.text(
                    x + each / 2,
                    y + tall / 2 + 4,
                    text,
                    size=11,
                    anchor="middle",
                    kind="#ffffff" if share > 0.5 else "#10202f",
                )


def _bubbles(canvas: Canvas, panel: Bubbles, inner: Place, tall: float) -> None:
    clients = max(map(len, panel.counts), default=0)
    each = _columns(canvas, [str(k) for k in range(clients)], panel.across, inner)
    shares = [[count / max(1, sum(line)) for count in line] for line in panel.counts]
    largest = max((share for line in shares for share in line), default=1.0) or 1.0
    most = min(tall / 2, max(each / 2, 3.0)) - 0.5
    for r, line in enumerate(shares):
        y = inner.y + (r + 0.5) * tall
        canvas.rule(inner.x, y, inner.x + inner.width, y)
        for c, share in enumerate(line):
            if share > 0:
                said = f"{panel.up.title} {r}, {panel.across.title} {c}: {panel.counts[r][c]:,} samples, {percent(share)}"
                canvas.dot(inner.x + (c + 0.5) * each, y, max(0.7, most * math.sqrt(share / largest)), _BUBBLE, said)
