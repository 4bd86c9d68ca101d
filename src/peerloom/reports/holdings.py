"""Which client holds which classes: bubbles as in DEPOSITUM's figure 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..runs import Run
from .groups import Group, seed_of
from .picture import Bubbles, Picture
from .scales import Along

__all__ = ["BUBBLES", "by_seed", "holdings_panels", "holdings_picture"]

BUBBLES = "The area of a bubble is the share of a class that a client holds."
_TITLE = "Which client holds which classes"
_MOST = 3  # seeds shown


def holdings_panels(runs: Mapping[str, Run]) -> list[Bubbles]:
    """A panel for every run that recorded its samples by class and client."""
    across, up = Along("client"), Along("class")
    return [Bubbles(title, run.holdings, across, up) for title, run in runs.items() if run.holdings]


def holdings_picture(panels: Sequence[Bubbles], more: str = "") -> list[Picture]:
    """One picture of these panels; an empty list where there are none."""
    about = f"{BUBBLES} {more}".strip()
    return [Picture("holdings", _TITLE, panels, about=about)] if panels else []


def by_seed(groups: Sequence[Group]) -> list[Bubbles]:
    """A panel per seed where samples were dealt unevenly; all algorithms get the same ones."""
    runs = [run for run in (groups[0].runs if groups else ()) if not _even(run)]
    return holdings_panels({f"seed {seed_of(run)}": run for run in runs[:_MOST]})


def _even(run: Run) -> bool:
    dealt = run.config.get("problem", {}).get("partition", "IID")
    return (dealt.get("name") if isinstance(dealt, dict) else dealt) == "IID"
