"""Cards of the page: charts that its script can redraw, and pictures that stay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from .axes import Region
from .canvas import Canvas
from .colours import Colours
from .lines import Frame, draw_axes, draw_lines, frame_of, has_band, stroke_of
from .picture import Line, Lines, Picture
from .scales import Along, Scale
from .sheet import NARROW, WIDE, draw

__all__ = ["Charts", "card", "still", "switch"]

_HEAD = 6.0  # pixels above the marks of a chart
_SIZES = {"": ((520, 330), (NARROW, 290)), "wide": ((900, 390), (NARROW, 290))}
_CLASSES = ("broad", "slim")  # for screens, and for phones
_SCALES = {"log": "log", "linear": "linear"}


@dataclass
class Charts:
    """The charts of a page in their order, with the data that its script needs to redraw them."""

    colours: Colours
    drawn: list[dict[str, Any]] = field(default_factory=list)

    def add(self, views: Mapping[str, Lines], title: str, kind: str = "") -> str:
        """Draw a chart and return its card.

        `views` are panels to choose from, the first one shown first. The first one also says
        which scale the horizontal axis has at first. A card of `kind` "wide" fills a row.
        """
        name, view = f"chart{len(self.drawn) + 1}", next(iter(views))
        scale = "log" if views[view].across.log else "linear"
        sizes = _SIZES[kind]
        self.drawn.append(
            {
                "id": name,
                "view": view,
                "scale": scale,
                "views": {key: _data(panel, self.colours) for key, panel in views.items()},
                "frames": [
                    {key: _frames(panel, size) for key, panel in views.items()} for size in sizes
                ],
            }
        )
        drawn = [
            _draw_chart(views[view], size, title, self.colours, shown)
            for size, shown in zip(sizes, _CLASSES, strict=True)
        ]
        plot = f'<div class="plot" id="{name}">{"".join(drawn)}</div>'
        return card(title, plot, kind, switch("scale", [name], _SCALES, scale))

    @property
    def last(self) -> str:
        """The name of the chart added last."""
        return str(self.drawn[-1]["id"])


def card(title: str, body: str, kind: str = "", controls: str = "") -> str:
    """A card with a heading; `body` and `controls` are HTML."""
    head = f"<header><h3>{escape(title)}</h3>{controls}</header>" if title else ""
    return f'<section class="card {kind}">{head}{body}</section>'


def still(picture: Picture, *, small: bool = False) -> str:
    """A picture that the script leaves alone: for screens and phones, or small for both."""
    if small:
        return draw(picture, NARROW, 'class="small"')
    widths = zip((WIDE, NARROW), _CLASSES, strict=True)
    return "".join(draw(picture, width, f'class="{shown}"') for width, shown in widths)


def switch(sets: str, charts: Sequence[str], choices: Mapping[str, str], chosen: str) -> str:
    """Buttons of which one is on; they set a property of the charts they name."""
    buttons = "".join(
        f'<button type="button" value="{value}" aria-pressed="{str(value == chosen).lower()}">'
        f"{escape(text)}</button>"
        for value, text in choices.items()
    )
    group = f'role="group" data-sets="{sets}" data-charts="{" ".join(charts)}"'
    return f'<div class="switch" {group}>{buttons}</div>'


def _draw_chart(
    panel: Lines, size: tuple[int, int], title: str, colours: Colours, shown: str
) -> str:
    canvas, frame = Canvas(), frame_of(panel, Region(0, 0, *size), _HEAD)
    with canvas.group('class="axes"'):
        draw_axes(canvas, panel, frame)
    with canvas.group('class="curves"'):
        draw_lines(canvas, panel, frame, colours)
    return canvas.document(*size, title, f'class="{shown}"')


def _data(panel: Lines, colours: Colours) -> dict[str, Any]:
    """What the script needs of a panel: both axes, and the values of every curve."""
    curves = [_curve(line, colours) for line in panel.lines]
    return {"x": _axis(panel.across), "y": _axis(panel.up), "curves": curves}


def _axis(along: Along) -> dict[str, str]:
    return {"title": along.title, "unit": along.unit}


def _curve(line: Line, colours: Colours) -> dict[str, Any]:
    found = {"label": line.label, **stroke_of(line.label, colours)}
    found |= {"x": _numbers(line.x), "y": _numbers(line.y)}
    if has_band(line):
        found |= {"low": _numbers(line.low), "high": _numbers(line.high)}
    return found


def _frames(panel: Lines, size: tuple[int, int]) -> dict[str, Any]:
    """The frames of a panel with a linear and with a log axis: the axes drawn, and the scales."""
    found = {}
    for name in _SCALES:
        scaled = replace(panel, across=replace(panel.across, log=name == "log"))
        canvas, frame = Canvas(), frame_of(scaled, Region(0, 0, *size), _HEAD)
        draw_axes(canvas, scaled, frame)
        found[name] = {"axes": canvas.markup(), **_scales(frame)}
    return found


def _scales(frame: Frame) -> dict[str, Any]:
    def ends_of(scale: Scale) -> dict[str, Any]:
        ends = {"low": scale.low, "high": scale.high, "start": scale.start, "end": scale.end}
        return {name: _number(value, 9) for name, value in ends.items()} | {"log": scale.along.log}

    return {"x": ends_of(frame.x), "y": ends_of(frame.y)}


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [_number(value, 6) for value in values]


def _number(value: float, digits: int) -> float | None:
    """As many digits as a reader can see; None for what JSON cannot say."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) else rounded
