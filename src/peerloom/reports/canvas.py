"""A sheet of SVG: text, lines and shapes that follow the reader's light or dark theme, in as few bytes as will do."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import pairwise

__all__ = ["Canvas", "wide"]

_SMALLEST = 8.0  # letters that can still be read
_LETTER = 0.58  # of the font size: the mean width of a letter, on the safe side

# Colours of the page come from classes, those of the data stand on the marks.
_STYLE = (
    ".pl-b{fill:#fff}.pl-t{fill:#1c2126}.pl-s{fill:#5d6873}.pl-g{stroke:#e6e9ed}.pl-l{stroke:#aab2ba}.pl-h{fill:#fff}"
    "@media(prefers-color-scheme:dark){.pl-b,.pl-h{fill:#1a1e23}.pl-t{fill:#e6e9ec}.pl-s{fill:#a7b1bb}.pl-g{stroke:#2f363d}"
    ".pl-l{stroke:#59636d}}"
)
_DASHES = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3"}


def wide(text: str, size: float = 12) -> float:
    """About how many pixels a text takes."""
    return len(text) * size * _LETTER


class Canvas:
    """What has been drawn so far."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def text(
        self, x: float, y: float, text: str, *, size: float = 12, anchor: str = "start", kind: str = "t", more: str = ""
    ) -> None:
        """A line of text; `kind` is t for plain, s for soft, or a colour."""
        ink = f'fill="{kind}"' if kind.startswith("#") else f'class="pl-{kind}"'
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"{where} {ink}{more}>{escape(text)}</text>')

    def turned(self, x: float, y: float, text: str, room: float) -> None:
        """Text that reads upwards, centred, and is made smaller where there is no room for it."""
        size = min(12.0, max(_SMALLEST, 12 * room / max(1.0, wide(text))))
        self.text(x, y, text, size=size, anchor="middle", kind="s", more=f' transform="rotate(-90 {_n(x)} {_n(y)})"')

    def rule(self, x1: float, y1: float, x2: float, y2: float, kind: str = "g") -> None:
        """A thin line: g for a grid, l for an axis."""
        self._parts.append(f'<path class="pl-{kind}" d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}"/>')

    def line(self, points: Iterable[tuple[float, float]], ink: str, *, dash: str = "solid", width: float = 2) -> None:
        """A line of the data."""
        pattern = f' stroke-dasharray="{_DASHES[dash]}"' if _DASHES[dash] else ""
        path = f'd="M{_path(points)}" stroke="{ink}" stroke-width="{_n(width)}"'
        self._parts.append(f'<path fill="none" {path} stroke-linejoin="round"{pattern}/>')

    def area(self, points: Iterable[tuple[float, float]], ink: str, opacity: float = 0.18) -> None:
        """A filled shape of the data."""
        self._parts.append(f'<path d="M{_path(points)}Z" fill="{ink}" fill-opacity="{opacity}"/>')

    def box(self, x: float, y: float, width: float, height: float, ink: str, said: str = "") -> None:
        """A filled rectangle of the data, with what it says when pointed at."""
        place = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
        self._parts.append(f'<rect {place} fill="{ink}">{_said(said)}</rect>')

    def dot(self, x: float, y: float, radius: float, ink: str, said: str = "") -> None:
        """A filled circle of the data."""
        self._parts.append(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}" fill="{ink}">{_said(said)}</circle>')

    def diamond(self, x: float, y: float, ink: str, said: str = "", radius: float = 5) -> None:
        """A hollow diamond: the mark of a paper's number."""
        corners = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
        shape = f'class="pl-h" d="M{_path(corners)}Z" stroke="{ink}" stroke-width="1.7"'
        self._parts.append(f"<path {shape}>{_said(said)}</path>")

    def finished(self, width: float, height: float, title: str) -> str:
        """The sheet as a document of this size."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" '
            f'height="{_n(height)}" role="img" aria-label="{escape(title)}" '
            "font-family=\"system-ui,'Segoe UI','DejaVu Sans',Arial,sans-serif\">"
        )
        sheet = f'<style>{_STYLE}</style><rect class="pl-b" width="{_n(width)}" height="{_n(height)}" rx="6"/>'
        return head + sheet + "\n".join(self._parts) + "</svg>\n"


def _path(points: Iterable[tuple[float, float]]) -> str:
    """The first point, then steps between points: shorter than places, and exact, since places are rounded before."""
    rounded = [(round(10 * x), round(10 * y)) for x, y in points]
    steps = [f"{_n((c - a) / 10)} {_n((d - b) / 10)}" for (a, b), (c, d) in pairwise(rounded)]
    first = " ".join(_n(value / 10) for value in rounded[0])
    return f"{first}l{' '.join(steps).replace(' -', '-')}" if steps else first


def _said(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


def _n(value: float) -> str:
    """A tenth of a pixel is enough."""
    return f"{value + 0.0:.1f}".removesuffix(".0")  # adding 0 makes -0 a 0
