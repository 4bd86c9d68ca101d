"""Who holds which classes: bubbles by class and client, as DEPOSITUM's figure 2 has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from ..runs import Run
from .groups import Group, seed_of
from .picture import Bubbles, Picture
from .scales import Along
from .sheet import NARROW, draw

__all__ = ["by_seed", "holdings_panels", "holdings_picture", "holdings_section"]

_BUBBLES = "The area of a bubble is the share of a class that a client holds."
_TITLE = "Which client holds which classes"
_MOST = 3  # seeds shown


def holdings_panels(runs: Mapping[str, Run]) -> list[Bubbles]:
    """For each of these runs that knows it, by class and client, how many samples are held."""
    across, up = Along("client"), Along("class")
    return [Bubbles(title, run.holdings, across, up) for title, run in runs.items() if run.holdings]


def holdings_picture(panels: Sequence[Bubbles], more: str = "") -> list[Picture]:
    """One picture of these panels; none where there are none."""
    return [Picture("holdings", _TITLE, panels, about=f"{_BUBBLES} {more}".strip())] if panels else []


def by_seed(groups: Sequence[Group]) -> list[Bubbles]:
    """Seed by seed, where samples were not dealt evenly. All algorithms get the same: the first stands for all."""
    runs = [run for run in (groups[0].runs if groups else ()) if not _even(run)]
    return holdings_panels({f"seed {seed_of(run)}": run for run in runs[:_MOST]})


def holdings_section(groups: Sequence[Group]) -> str:
    """The section of a report; empty where nothing is known, or where everybody has the same."""
    panels = by_seed(groups)
    if not panels:
        return ""
    beside = ("one", "", "three")[len(panels) - 1]
    sheets = [f'<div class="card sheet">{draw(Picture("holdings", "", [panel]), NARROW)}</div>' for panel in panels]
    more = f" The first {_MOST} seeds." if len(groups[0].runs) > len(panels) else ""
    caption = f'<p class="caption">{escape(_BUBBLES + more)}</p>'
    return (
        f'<h2>The data: which client holds which classes</h2><div class="charts {beside}">{"".join(sheets)}</div>{caption}'
    )


def _even(run: Run) -> bool:
    dealt = run.config.get("problem", {}).get("partition", "IID")
    return (dealt.get("name") if isinstance(dealt, dict) else dealt) == "IID"
