"""Charts on the page: the card each stands in, the switches above it, and what the page's script is told to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from .figures import Figure

__all__ = ["Charts", "switch"]


@dataclass
class Charts:
    """The charts of a page, in the order in which they were placed."""

    drawn: list[dict[str, Any]] = field(default_factory=list)

    def place(
        self, views: Mapping[str, Figure], title: str, *, scale: str = "", kind: str = "", height: int | None = None
    ) -> str:
        """Keep a chart and return its card.

        `views` are figures to switch between, the first one shown first. `scale` is that of the x axis at first; without
        it there is no choice.
        """
        name = f"chart{len(self.drawn) + 1}"
        self.drawn.append({"id": name, "view": next(iter(views)), "scale": scale, "views": dict(views)})
        choice = switch("scale", [name], {"log": "log", "linear": "linear"}, scale) if scale else ""
        tall = f' style="height:{height}px"' if height else ""
        plot = f'<div class="plot" id="{name}" role="img" aria-label="{escape(title)}"{tall}></div>'
        return f'<section class="card {kind}"><header><h3>{escape(title)}</h3>{choice}</header>{plot}</section>'

    @property
    def last(self) -> str:
        """The name of the chart placed last."""
        return str(self.drawn[-1]["id"])


def switch(sets: str, charts: Sequence[str], choices: Mapping[str, str], chosen: str) -> str:
    """Buttons of which one is on: they set a property of the charts they name."""
    buttons = "".join(
        f'<button type="button" value="{value}" aria-pressed="{str(value == chosen).lower()}">{escape(text)}</button>'
        for value, text in choices.items()
    )
    return f'<div class="switch" role="group" data-sets="{sets}" data-charts="{" ".join(charts)}">{buttons}</div>'
