"""One figure of a paper: an experiment file, the settings that vary it, and the claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..config import override
from ..core import ConfigError

__all__ = ["Recipe"]

Table = dict[str, Any]

_TINY_DELAY = 40.0


@dataclass(frozen=True)
class Recipe:
    """A figure.

    title   what it shows
    claim   what the paper says one sees in it
    ours    the algorithm that the claim is about
    table   the experiment, as a file would say it
    varied  what differs from point to point; nothing where the figure shows curves
    points  for each point its settings, as `--set` takes them
    note    where it cannot be as in the paper, and why
    """

    title: str
    claim: str
    ours: str
    table: Mapping[str, Any]
    varied: str = ""
    points: Mapping[str, Sequence[str]] = field(default_factory=lambda: {"": ()})
    note: str = ""

    def tables(self, seeds: int | None = None, tiny: bool = False, settings: Sequence[str] = ()) -> dict[str, Table]:
        """The experiment of each point.

        `seeds` takes the first so many. `tiny` shows within seconds that everything works, and nothing about the claim:
        small images, a linear model, one seed, two points, a short delay.
        """
        known = list(self.table["seeds"])
        if seeds is not None and not 1 <= seeds <= len(known):
            raise ConfigError(f"--seeds must be 1 to {len(known)}, found {seeds}.")
        base = override({**self.table, "seeds": known[: 1 if tiny else seeds]}, [])
        made = {name: override(base, [*point, *settings]) for name, point in self.points.items()}
        if tiny:
            made = {name: _tiny(table) for name, table in list(made.items())[:2]}
        for name, table in made.items():
            table["title"] = f"{self.title}: {self.varied} {name}" if self.varied else self.title
            table["title"] += " (tiny)" if tiny else ""
        return made


def _tiny(table: Table) -> Table:
    small = {"until_delay": _TINY_DELAY, "rounds": 100}
    return override(table, ["problem.data=digits", "problem.model=svm"]) | small
