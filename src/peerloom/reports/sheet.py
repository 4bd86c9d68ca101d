"""A whole picture as SVG: title, legend, panels in rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .canvas import Canvas, wide
from .figures import inks_of
from .panels import Place, height_of, paint
from .picture import Lines, Panel, Picture

__all__ = ["NARROW", "WIDE", "draw"]

WIDE, NARROW = 860, 370  # pixels: for a page, and for a phone
_LEAST = 250  # of a panel beside others
_MOST_BESIDE = 3
_PAPER = "paper"


def draw(picture: Picture, width: int = WIDE) -> str:
    """The picture as an SVG document that needs nothing else."""
    canvas, labels = Canvas(), picture.labels()
    inks = {label: ink for label, ink in inks_of([*dict.fromkeys([*picture.order, *labels])]).items() if label in labels}
    y = 0.0
    for line in _wrapped(picture.title, width - 24, 14):
        y += 22
        canvas.text(12, y, line, size=14, more=' font-weight="600"')
    y = _legend(canvas, picture, inks, y + 8, width)
    for row in _rows(picture, width):
        each = (width - 12) / len(row)
        tall = max(height_of(panel, each) for panel in row)
        for k, panel in enumerate(row):
            paint(canvas, panel, Place(4 + k * each, y, each, tall, k == 0 or not _same_up(panel, row[0])), inks)
        y += tall + 8
    return canvas.finished(width, y + 2, picture.title)


def _rows(picture: Picture, width: int) -> list[Sequence[Panel]]:
    """Panels as they stand beside each other, rows as even as can be."""
    panels, room = picture.panels, max(1, width // _LEAST)
    beside = min(room, picture.beside or (2 if len(panels) == 4 else _MOST_BESIDE), len(panels))
    return [panels[k : k + beside] for k in range(0, len(panels), beside)]


def _same_up(panel: Panel, first: Panel) -> bool:
    return isinstance(panel, Lines) and isinstance(first, Lines) and panel.up == first.up


def _legend(canvas: Canvas, picture: Picture, inks: Mapping[str, tuple[str, str]], y: float, width: int) -> float:
    """Labels with their colours, then what diamonds and bands are; gives where it ends."""
    entries = list(inks) + ([_PAPER] if picture.printed() else []) + ([picture.band] if picture.band else [])
    if not entries:
        return y
    x, y = 12.0, y + 14
    for entry in entries:
        needs = 30 + wide(entry) + 12
        if x > 12 and x + needs > width:
            x, y = 12.0, y + 19
        if entry in inks:
            canvas.line([(x, y - 4), (x + 22, y - 4)], inks[entry][0], dash=inks[entry][1], width=4)
        elif entry == _PAPER:
            canvas.diamond(x + 11, y - 4, "#6b7580")
        elif entry.startswith("line"):
            canvas.line([(x, y - 4), (x + 22, y - 4)], "#6b7580", width=1.6)
        else:
            canvas.area([(x, y - 10), (x + 22, y - 10), (x + 22, y + 2), (x, y + 2)], "#8C8C8C", 0.35)
        canvas.text(x + 28, y, entry, kind="t" if entry in inks else "s")
        x += needs
    return y + 12


def _wrapped(text: str, width: float, size: float) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and wide(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
