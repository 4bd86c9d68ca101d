"""`reproduce --until-decided`: more seeds, until every claim of a figure is decided."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from ..cli.points import EXPERIMENT, run_points
from ..cli.run import divergence_of
from ..config import read_file
from ..core import ConfigError, PeerloomError
from ..reports.groups import grouped
from ..runs import Run
from .recipes import Form, Recipe
from .recipes.intervals import LOOKS, look_after
from .recipes.matters import points_that_matter
from .recipes.recipe import first_seeds

__all__ = ["Budget", "Reached", "run_until_decided"]

Table = dict[str, Any]


@dataclass(frozen=True)
class Budget:
    """What may be spent on deciding: so many seeds, and minutes of this command."""

    seeds: int = LOOKS[-1]
    minutes: float | None = None


@dataclass(frozen=True)
class Reached:
    """Where it ended: the runs, those that diverged, the table of every point, and why."""

    runs: dict[str, list[Run]]
    failures: list[PeerloomError]
    tables: dict[str, Table]
    why: str


def run_until_decided(
    recipe: Recipe, form: Form, places: Mapping[str, Path], jobs: int, budget: Budget
) -> Reached:
    """Run a figure with more and more seeds, at the points that undecided claims are about.

    Each time those get as many as the next look asks for, or as the time left allows. What was run
    before counts, so that a command that was stopped goes on.
    """
    if form.tiny:
        raise ConfigError("--tiny decides nothing: --until-decided would not end. Leave one out.")
    begin = monotonic()
    whole = recipe.tables(replace(form, seeds=budget.seeds))  # of which points get a part
    # How long a seed takes is known once one was run.
    first = min(LOOKS[0], budget.seeds) if budget.minutes is None else 1
    counts = {point: max(first, _begun(places[point])) for point in whole}

    def tables(points: Collection[str]) -> dict[str, Table]:
        listed = list(recipe.table["seeds"])
        return {p: whole[p] | {"seeds": first_seeds(listed, counts[p])} for p in points}

    runs: dict[str, list[Run]] = {}
    wanted: Collection[str] = list(whole)
    while wanted:
        made, _ = run_points(tables(wanted), places, jobs, again="give the same command again")
        runs = {point: made.get(point, runs.get(point, [])) for point in whole}
        matter = points_that_matter(recipe, form, runs)
        left = None if budget.minutes is None else 60 * budget.minutes - monotonic() + begin
        costs = {point: seconds_of_a_seed(runs[point]) / jobs for point in matter}
        more, why = _next({point: counts[point] for point in matter}, budget, costs, left)
        counts |= more
        wanted = list(more)
    every = [run for some in runs.values() for run in some]
    failures: list[PeerloomError] = [
        divergence_of(run.path) for run in every if run.info.get("status") == "diverged"
    ]
    return Reached(runs, failures, tables(list(whole)), why)


def _next(
    counts: Mapping[str, int], budget: Budget, costs: Mapping[str, float], left: float | None
) -> tuple[dict[str, int], str]:
    """How many seeds the points that matter come to next; with none, why it is over."""
    if not counts:
        return {}, "every claim that more seeds can decide was decided"
    fewest = min(counts.values())
    look = min(look_after(fewest) or fewest, budget.seeds)
    if look <= fewest:
        return {}, f"there were {fewest}, the most that were asked for; some claims are undecided"
    for number in range(look, fewest, -1):
        more = {point: number for point, there in counts.items() if there < number}
        if left is None or sum((number - counts[p]) * costs[p] for p in more) <= left:
            return more, ""
    return {}, f"{budget.minutes:g} minutes were spent; some claims are undecided"


def seconds_of_a_seed(runs: Sequence[Run]) -> float:
    """How long the runs of one seed take, one after another: of each algorithm the median run."""
    return sum(median(map(_seconds, group.runs)) for group in grouped(runs))


def _seconds(run: Run) -> float:
    """From its beginning to its end, of a run that was never interrupted."""
    begun, ended = (datetime.fromisoformat(run.info[name]) for name in ("started", "updated"))
    return (ended - begun).total_seconds()


def _begun(place: Path) -> int:
    """The seeds that a folder was begun with."""
    file = place / EXPERIMENT
    return len(read_file(file).get("seeds", [])) if file.exists() else 0
