"""A whole picture as SVG: title, legend, panels in rows."""

from __future__ import annotations

from collections.abc import Sequence

from .axes import Region
from .canvas import Canvas, text_width
from .colours import Colours, colours_of
from .panels import draw_panel, height_of
from .picture import Lines, Panel, Picture

__all__ = ["NARROW", "WIDE", "draw"]

WIDE, NARROW = 860, 370  # pixels: for a page, and for a phone
_LEAST = 250  # width of a panel beside others
_MOST_BESIDE = 3
_PAPER = "paper"
_GREY = "#6b7580"


def draw(picture: Picture, width: int = WIDE, attributes: str = "") -> str:
    """The picture as an SVG document that needs nothing else, or as a part of a page.

    A part of a page is given `attributes`, and takes its theme from the page.
    """
    canvas, labels = Canvas(), picture.labels()
    every = colours_of([*dict.fromkeys([*picture.order, *labels])])
    colours = {label: colour for label, colour in every.items() if label in labels}
    y = 0.0
    for line in _wrapped(picture.title, width - 24, 14):
        y += 22
        canvas.heading(12, y, line, 14)
    y = _draw_legend(canvas, picture, colours, y + 8, width)
    for row in _rows(picture, width):
        each = (width - 12) / len(row)
        tall = max(height_of(panel, each) for panel in row)
        for k, panel in enumerate(row):
            titled = k == 0 or not _same_axis(panel, row[0])
            region = Region(4 + k * each, y, each, tall, titled)
            draw_panel(canvas, panel, region, colours)
        y += tall + 8
    return canvas.document(width, y + 2, picture.title or picture.name, attributes)


def _rows(picture: Picture, width: int) -> list[Sequence[Panel]]:
    """Panels as they stand beside each other, in rows as even as possible."""
    panels, room = picture.panels, max(1, width // _LEAST)
    wanted = picture.beside or (2 if len(panels) == 4 else _MOST_BESIDE)
    beside = min(room, wanted, len(panels))
    return [panels[k : k + beside] for k in range(0, len(panels), beside)]


def _same_axis(panel: Panel, first: Panel) -> bool:
    return isinstance(panel, Lines) and isinstance(first, Lines) and panel.up == first.up


def _draw_legend(canvas: Canvas, picture: Picture, colours: Colours, y: float, width: int) -> float:
    """Draw labels with their colours, then what diamonds and bands are; returns the lower end."""
    entries = [*colours, *([_PAPER] if picture.printed() else [])]
    entries += [picture.band] if picture.band else []
    if not entries:
        return y
    x, y = 12.0, y + 14
    for entry in entries:
        needs = 30 + text_width(entry) + 12
        if x > 12 and x + needs > width:
            x, y = 12.0, y + 19
        if entry in colours:
            colour, dash = colours[entry]
            canvas.line([(x, y - 4), (x + 22, y - 4)], colour, dash=dash, width=4)
        elif entry == _PAPER:
            canvas.diamond(x + 11, y - 4, _GREY)
        elif entry.startswith("line"):
            canvas.line([(x, y - 4), (x + 22, y - 4)], _GREY, width=1.6)
        else:
            corners = [(x, y - 10), (x + 22, y - 10), (x + 22, y + 2), (x, y + 2)]
            canvas.area(corners, "#8C8C8C", 0.35)
        canvas.text(x + 28, y, entry, kind="t" if entry in colours else "s")
        x += needs
    return y + 12


def _wrapped(text: str, width: float, size: float) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
