"""Draw a panel of any kind into its region."""

from __future__ import annotations

from .axes import FOOT, Region
from .canvas import Canvas, cut, text_width
from .colours import Colours
from .graph import draw_graph
from .lines import draw_axes, draw_lines, frame_of
from .marks import draw_bars, draw_bubbles, draw_cells, draw_dots
from .picture import Bars, Bubbles, Cells, Dots, Graph, Lines, Panel

__all__ = ["draw_panel", "height_of"]

_ROW = {Dots: 30.0, Cells: 34.0, Bars: 24.0, Bubbles: 26.0}
_NAMES = 0.45  # share of a panel's width that the names of rows may take


def height_of(panel: Panel, width: float) -> float:
    """The height of a panel of this width."""
    if isinstance(panel, Graph):
        return _head(panel) + min(400.0, 0.9 * width)
    if isinstance(panel, Lines):
        return _head(panel) + FOOT + min(270.0, max(150.0, 0.62 * width))
    return _head(panel) + FOOT + _ROW[type(panel)] * len(_rows(panel))


def draw_panel(canvas: Canvas, panel: Panel, region: Region, colours: Colours) -> None:
    """Draw a panel with its title."""
    head = _head(panel)
    if panel.title:
        size = min(12.5, 12.5 * (region.width - 10) / text_width(panel.title, 12.5))
        canvas.heading(region.x + 4, region.y + 14, panel.title, size)
    if isinstance(panel, Lines):
        frame = frame_of(panel, region, head)
        draw_axes(canvas, panel, frame)
        draw_lines(canvas, panel, frame, colours)
    elif isinstance(panel, Graph):
        below = Region(region.x, region.y + head, region.width, region.height - head)
        draw_graph(canvas, panel, below)
    else:
        _draw_rows(canvas, panel, region, colours)


def _draw_rows(
    canvas: Canvas, panel: Dots | Cells | Bars | Bubbles, region: Region, colours: Colours
) -> None:
    """Draw a panel of rows, with their names on the left."""
    names = [cut(name, _NAMES * region.width) for name in _rows(panel)]
    turned = isinstance(panel, Cells | Bubbles) and bool(panel.up.title)
    left = region.x + 14 + max(map(text_width, names), default=0.0) + (18 if turned else 0)
    top, height = region.y + _head(panel), region.height - _head(panel) - FOOT
    inner = Region(left, top, region.right - 12 - left, height)
    tall = height / max(1, len(names))
    for k, name in enumerate(names):
        canvas.text(left - 8, top + (k + 0.5) * tall + 4, name, anchor="end")
    if isinstance(panel, Cells | Bubbles) and turned:
        canvas.turned(region.x + 14, top + height / 2, panel.up.title, height)
    if isinstance(panel, Dots):
        draw_dots(canvas, panel, inner, colours)
    elif isinstance(panel, Bars):
        draw_bars(canvas, panel, inner, colours)
    elif isinstance(panel, Cells):
        draw_cells(canvas, panel, inner)
    else:
        draw_bubbles(canvas, panel, inner)


def _head(panel: Panel) -> float:
    """Room for the title, above what is drawn."""
    return 24.0 if panel.title else 6.0


def _rows(panel: Dots | Cells | Bars | Bubbles) -> list[str]:
    if isinstance(panel, Dots):
        return list(dict.fromkeys(dot.row for dot in panel.dots))
    if isinstance(panel, Bubbles):
        return [str(k) for k in range(len(panel.counts))]
    return list(panel.rows)
