"""The panel of a graph: clients as circles, links as lines, both coloured by probability."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .axes import Region
from .canvas import Canvas
from .colours import ramp
from .picture import Graph, Link

__all__ = ["draw_graph"]

Floats = NDArray[np.float64]

_SHADES = 12  # links are drawn in so many groups of similar probability, not one by one
_MOST_TARGETS = 2000  # links with a tooltip: with more, no single one can be pointed at
_MOST_ARROWS = 600
_MOST_NAMED = 40  # clients whose numbers can be read
_RAMP = 30.0  # height of the colour ramp below the graph
_MARGIN = 16.0
_HUB = "#6b7580"


def draw_graph(canvas: Canvas, panel: Graph, region: Region) -> None:
    """Draw the graph, and below it what the colours mean."""
    inner = Region(region.x, region.y, region.width, region.height - _RAMP)
    points = _pixels(panel, inner)
    ends = [_ends(link, points, panel.directed) for link in panel.links]
    _draw_links(canvas, panel.links, ends, panel.directed)
    if len(ends) <= _MOST_TARGETS:
        with canvas.group('stroke="#000" stroke-opacity="0" stroke-width="9"'):
            for link, (start, end) in zip(panel.links, ends, strict=True):
                canvas.target(_point(start), _point(end), _link_tooltip(link, panel.directed))
    _draw_rows(canvas, panel, points)
    _draw_ramp(canvas, region)


def _pixels(panel: Graph, region: Region) -> Floats:
    """Where clients lie on the canvas; both directions have the same scale."""
    positions = np.asarray(panel.positions, np.float64).reshape(-1, 2)
    low, high = positions.min(axis=0), positions.max(axis=0)
    size = np.maximum(high - low, 1e-9)
    room = np.array([region.width, region.height]) - 2 * _MARGIN
    zoom = float((room / size).min())
    middle = np.array([region.x + region.width / 2, region.y + region.height / 2])
    pixels: Floats = middle + (positions - (low + high) / 2) * zoom * np.array([1.0, -1.0])
    return pixels


def _ends(link: Link, points: Floats, directed: bool) -> tuple[Floats, Floats]:
    """Where a link is drawn; the two directions of a pair lie side by side."""
    start, end = points[link.source], points[link.target]
    if not directed:
        return start, end
    along = end - start
    aside = 3.0 * np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-12)
    return start + aside, end + aside


def _draw_links(
    canvas: Canvas, links: Sequence[Link], ends: Sequence[tuple[Floats, Floats]], directed: bool
) -> None:
    """Draw the links of similar probability in one piece; the more likely, the thicker."""
    shades: dict[int, list[tuple[Floats, Floats]]] = {}
    for link, pair in zip(links, ends, strict=True):
        shade = min(int(link.probability * _SHADES), _SHADES - 1)
        shades.setdefault(shade, []).append(pair)
    thin = min(1.0, max(0.35, 80 / max(len(links), 1)))  # many thick links would fill the picture
    for shade, pairs in sorted(shades.items()):
        share = (shade + 0.5) / _SHADES
        straight = [(_point(start), _point(end)) for start, end in pairs]
        canvas.strokes(straight, ramp(share), (1.0 + 4.0 * share) * thin)
        if directed and len(links) <= _MOST_ARROWS:
            canvas.shapes([_arrow(*pair, 4.0 + 3.0 * share) for pair in pairs], ramp(share))


def _arrow(start: Floats, end: Floats, size: float) -> list[tuple[float, float]]:
    """The head of an arrow, two thirds along the link."""
    along = (end - start) / max(float(np.hypot(*(end - start))), 1e-12)
    aside = np.array([-along[1], along[0]])
    tip = start + (end - start) * 0.66 + along * size
    corners = tip, tip - along * 2 * size + aside * size, tip - along * 2 * size - aside * size
    return [_point(corner) for corner in corners]


def _draw_rows(canvas: Canvas, panel: Graph, points: Floats) -> None:
    """Draw clients as circles and hubs as diamonds, with numbers where they can be read."""
    few, clients = len(points) <= _MOST_NAMED, len(panel.probabilities)
    for row, point in enumerate(points):
        x, y = _point(point)
        if row >= clients:
            canvas.diamond(x, y, _HUB, f"hub {row}", 12 if few else 6)
            kind = "t"
        else:
            share = panel.probabilities[row]
            kind = "#ffffff" if share > 0.75 else "#1c2126"
            tooltip = f"client {row}: computes with probability d = {share:.3g}"
            with canvas.group('class="pl-r" stroke-width="2"'):
                canvas.dot(x, y, 11 if few else 5, ramp(share), tooltip)
        if few:
            canvas.text(x, y + 4, str(row), size=11, anchor="middle", kind=kind)


def _draw_ramp(canvas: Canvas, region: Region) -> None:
    steps, width, y = 24, 96.0, region.bottom - 16
    canvas.text(region.x + 8, y + 9, "0", size=11, kind="s")
    for k in range(steps):
        x = region.x + 20 + k * width / steps
        canvas.box(x, y, (width / steps + 0.3, 9), ramp((k + 0.5) / steps))
    words = "1: probability to compute or work"
    canvas.text(region.x + 20 + width + 5, y + 9, words, size=11, kind="s")


def _link_tooltip(link: Link, directed: bool) -> str:
    between = f"{link.source} {'to' if directed else 'and'} {link.target}"
    layer = f", layer {link.layer}" if link.layer else ""
    works = f"works with probability b = {link.probability:.3g}, weight {link.weight:.3g}"
    return f"link {between}{layer}: {works}"


def _point(values: Floats) -> tuple[float, float]:
    return float(values[0]), float(values[1])
