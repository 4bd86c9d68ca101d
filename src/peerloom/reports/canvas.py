"""An SVG drawing: text, lines and shapes that follow the reader's light or dark theme."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from html import escape
from itertools import pairwise

__all__ = ["THEME", "Canvas", "cut", "text_width"]

_SMALLEST = 8.0  # font size, in pixels, that can still be read
_LETTER = 0.58  # mean width of a letter as a share of the font size, rounded up

# Classes give the colours of paper, text and axes; the colours of the data stand on the marks.
THEME = (
    ".pl-b{fill:#fff}.pl-t{fill:#1c2126}.pl-s{fill:#5d6873}.pl-g{stroke:#e6e9ed}"
    ".pl-l{stroke:#aab2ba}.pl-h{fill:#fff}.pl-r{stroke:#fff}text{pointer-events:none}"
    "@media(prefers-color-scheme:dark){.pl-b,.pl-h{fill:#1a1e23}.pl-t{fill:#e6e9ec}"
    ".pl-s{fill:#a7b1bb}.pl-g{stroke:#2f363d}.pl-l{stroke:#59636d}.pl-r{stroke:#1a1e23}}"
)

Point = tuple[float, float]


def text_width(text: str, size: float = 12) -> float:
    """About how many pixels a text takes."""
    return len(text) * size * _LETTER


def cut(text: str, room: float, size: float = 12) -> str:
    """The text, shortened with an ellipsis where it takes more than `room` pixels.

    >>> cut("RandomizedGossip", 60), cut("DGD", 60)
    ('Randomi…', 'DGD')
    """
    most = int(room / (size * _LETTER))
    return text if len(text) <= most else text[: max(1, most - 1)] + "…"


class Canvas:
    """What has been drawn so far."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    @contextmanager
    def group(self, attributes: str) -> Iterator[None]:
        """Put everything drawn inside the `with` block into one element with these attributes."""
        self._parts.append(f"<g {attributes}>")
        yield
        self._parts.append("</g>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        anchor: str = "start",
        kind: str = "t",
    ) -> None:
        """Write a line of text; `kind` is t for plain, s for soft, or a colour."""
        self._write(x, y, text, size, anchor, kind)

    def heading(self, x: float, y: float, text: str, size: float) -> None:
        """Write a bold line of text."""
        self._write(x, y, text, size, more=' font-weight="600"')

    def turned(self, x: float, y: float, text: str, room: float) -> None:
        """Write text that reads upwards, centred, and small enough for the room."""
        size = min(12.0, max(_SMALLEST, 12 * room / max(1.0, text_width(text))))
        self._write(x, y, text, size, "middle", "s", f' transform="rotate(-90 {_n(x)} {_n(y)})"')

    def rule(self, start: Point, end: Point, kind: str = "g") -> None:
        """Draw a thin line: g for a grid, l for an axis."""
        (x1, y1), (x2, y2) = start, end
        self._parts.append(f'<path class="pl-{kind}" d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}"/>')

    def line(
        self, points: Iterable[Point], colour: str, *, dash: str = "", width: float = 2
    ) -> None:
        """Draw a line of the data."""
        pattern = f' stroke-dasharray="{dash}"' if dash else ""
        path = f'd="{_path(points)}" stroke="{colour}" stroke-width="{_n(width)}"'
        self._parts.append(f'<path fill="none" {path} stroke-linejoin="round"{pattern}/>')

    def strokes(self, lines: Iterable[tuple[Point, Point]], colour: str, width: float) -> None:
        """Draw separate straight lines of one colour and width."""
        path = "".join(f"M{_n(a)} {_n(b)}L{_n(c)} {_n(d)}" for (a, b), (c, d) in lines)
        self._parts.append(f'<path d="{path}" stroke="{colour}" stroke-width="{_n(width)}"/>')

    def target(self, start: Point, end: Point, tooltip: str) -> None:
        """Draw a line that is only seen by the pointer; its group says how thick it is."""
        (a, b), (c, d) = start, end
        path = f"M{_n(a)} {_n(b)}L{_n(c)} {_n(d)}"
        self._parts.append(f'<path d="{path}">{_tooltip(tooltip)}</path>')

    def area(self, points: Iterable[Point], colour: str, opacity: float = 0.18) -> None:
        """Draw a filled shape of the data."""
        path = _path(points)
        end = "Z" if path else ""
        self._parts.append(f'<path d="{path}{end}" fill="{colour}" fill-opacity="{opacity}"/>')

    def shapes(self, outlines: Iterable[Iterable[Point]], colour: str) -> None:
        """Draw separate filled shapes of one colour."""
        path = "".join(f"{_path(outline)}Z" for outline in outlines)
        self._parts.append(f'<path d="{path}" fill="{colour}"/>')

    def box(
        self, x: float, y: float, size: tuple[float, float], colour: str, tooltip: str = ""
    ) -> None:
        """Draw a filled rectangle of the data."""
        shape = f'x="{_n(x)}" y="{_n(y)}" width="{_n(size[0])}" height="{_n(size[1])}"'
        self._parts.append(f'<rect {shape} fill="{colour}">{_tooltip(tooltip)}</rect>')

    def dot(self, x: float, y: float, radius: float, colour: str, tooltip: str = "") -> None:
        """Draw a filled circle of the data."""
        shape = f'cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"'
        self._parts.append(f'<circle {shape} fill="{colour}">{_tooltip(tooltip)}</circle>')

    def diamond(
        self, x: float, y: float, colour: str, tooltip: str = "", radius: float = 5
    ) -> None:
        """Draw a hollow diamond: the mark of a paper's number."""
        corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
        shape = f'class="pl-h" d="{_path(corners)}Z" stroke="{colour}" stroke-width="1.7"'
        self._parts.append(f"<path {shape}>{_tooltip(tooltip)}</path>")

    def markup(self) -> str:
        """Everything drawn so far, to be put into another element."""
        return "\n".join(self._parts)

    def document(self, width: float, height: float, title: str, attributes: str = "") -> str:
        """The drawing as an SVG document of this size.

        A drawing that is part of a page has `attributes`, and takes theme and paper from the page.
        """
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" '
            f'width="{_n(width)}" height="{_n(height)}" role="img" aria-label="{escape(title)}" '
            "font-family=\"system-ui,'Segoe UI','DejaVu Sans',Arial,sans-serif\""
        )
        if attributes:
            return f"{head} {attributes}>{self.markup()}</svg>\n"
        paper = f'<rect class="pl-b" width="{_n(width)}" height="{_n(height)}" rx="6"/>'
        return f"{head}><style>{THEME}</style>{paper}{self.markup()}</svg>\n"

    def _write(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        anchor: str = "start",
        kind: str = "t",
        more: str = "",
    ) -> None:
        fill = f'fill="{kind}"' if kind.startswith("#") else f'class="pl-{kind}"'
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        head = f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"{where} {fill}{more}>'
        self._parts.append(f"{head}{escape(text)}</text>")


def _path(points: Iterable[Point]) -> str:
    """The first point and the steps from there; exact, since positions are rounded before."""
    rounded = [(round(10 * x), round(10 * y)) for x, y in points]
    if not rounded:
        return ""
    steps = [f"{_n((c - a) / 10)} {_n((d - b) / 10)}" for (a, b), (c, d) in pairwise(rounded)]
    first = "M" + " ".join(_n(value / 10) for value in rounded[0])
    return f"{first}l{' '.join(steps).replace(' -', '-')}" if steps else first


def _tooltip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


def _n(value: float) -> str:
    """A number to a tenth of a pixel."""
    return f"{value + 0.0:.1f}".removesuffix(".0")  # adding 0 turns -0 into 0
