"""What a reproduction came to: numbers beside the paper's, a verdict on every claim."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...runs import Run
from ...sweeps.readings import Found, middle, quartiles
from .checks import Verdict
from .reasons import REASONS
from .recipe import Form, Recipe

__all__ = ["Number", "Outcome", "outcome"]


@dataclass(frozen=True)
class Number:
    """One reading of one algorithm at one point, over seeds.

    `never` says that most runs diverged, or did not get there; `paper` is what the paper prints,
    where it prints something.
    """

    point: str
    label: str
    what: str
    share: bool
    median: float
    low: float
    high: float
    seeds: int
    paper: float | None
    never: bool


@dataclass(frozen=True)
class Outcome:
    """Everything that can be said about a figure or table that was run."""

    paper: str
    figure: str
    title: str
    form: str
    compat: bool
    varied: str
    points: tuple[int, int]  # how many were run, of how many there are
    said: tuple[str, ...]
    seeds: int
    diverged: int
    seconds: float
    numbers: tuple[Number, ...]
    verdicts: tuple[Verdict, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; what is not finite is null."""
        plain: dict[str, Any] = _plain(dataclasses.asdict(self))
        return plain


def outcome(
    paper: str, figure: str, recipe: Recipe, form: Form, runs: Mapping[str, list[Run]]
) -> Outcome:
    """Read the runs of every point, and judge the claims.

    A tiny form decides nothing, a smaller one no printed number.
    """
    found = Found(runs, recipe.varied)
    every = [run for some in runs.values() for run in some]
    readings = dict.fromkeys(
        [
            *((p, la, r) for p in found.points for r in recipe.shows for la in found.labels(p)),
            *recipe.paper,
        ]
    )
    numbers = []
    for point, label, reading in readings:
        values = list(found.values(point, label, reading).values())
        if values:
            median, (low, high) = middle(values), quartiles(values)
            printed, never = recipe.paper.get((point, label, reading)), math.isinf(median)
            numbers.append(
                Number(
                    point,
                    label,
                    reading.words,
                    reading.share,
                    median,
                    low,
                    high,
                    len(values),
                    printed,
                    never,
                )
            )
    verdicts = tuple(
        check(found, judge=not form.tiny and not (form.fit and check.exact))
        for check in recipe.checks
    )
    failed = any(verdict.answer == "does not hold" for verdict in verdicts)
    reasons = REASONS.get((paper, figure), ()) if failed and not form.compat else ()
    return Outcome(
        paper,
        figure,
        recipe.title,
        "tiny" if form.tiny else "fit" if form.fit else "paper",
        form.compat,
        recipe.varied,
        (len(found.points), len(recipe.points)),
        (*recipe.said(form), *(f"Why claims fail: {reason}" for reason in reasons)),
        found.seeds,
        sum(run.info.get("status") == "diverged" for run in every),
        sum(float(run.metrics["seconds"][-1]) for run in every if len(run.metrics)),
        tuple(numbers),
        verdicts,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
