"""What a reproduction came to: numbers beside the paper's, a verdict on every claim."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from ...runs import Run
from ...sweeps.readings import middle, quartiles
from .checks import Part, Verdict
from .reasons import REASONS
from .recipe import Form, Recipe

__all__ = ["Number", "Outcome", "judges", "outcome", "part_from", "part_to_dict", "reasons_of"]


@dataclass(frozen=True)
class Number:
    """One reading of one algorithm at one point, over seeds.

    `never` says that most runs diverged, or did not get there; mean and deviation are known where
    all did. `paper` is what the paper prints, where it prints something.
    """

    point: str
    label: str
    what: str
    share: bool
    median: float
    low: float
    high: float
    mean: float
    deviation: float
    seeds: int
    paper: float | None
    never: bool

    @classmethod
    def of(cls, where: tuple[str, str], what: str, share: bool, values: Sequence[float]) -> Number:
        """What these values come to."""
        median, known = middle(values), all(map(math.isfinite, values))
        return cls(
            *where,
            what,
            share,
            median,
            *quartiles(values),
            fmean(values) if known else math.nan,
            stdev(values) if known and len(values) > 1 else math.nan,
            len(values),
            None,
            math.isinf(median),
        )


@dataclass(frozen=True)
class Outcome:
    """Everything that can be said about a figure or table that was run."""

    paper: str
    figure: str
    title: str
    form: str
    compat: bool
    settings: tuple[str, ...]
    varied: str
    points: tuple[int, int]  # how many were run, of how many there are
    said: tuple[str, ...]
    why: str  # what ended the adding of seeds; nothing where none were added
    seeds: int
    diverged: int
    seconds: float
    numbers: tuple[Number, ...]
    verdicts: tuple[Verdict, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; what is not finite is null, but in the values of parts."""
        plain: dict[str, Any] = _plain(dataclasses.asdict(self))
        plain["verdicts"] = [verdict_to_dict(verdict) for verdict in self.verdicts]
        return plain


def outcome(
    paper: str,
    figure: str,
    recipe: Recipe,
    form: Form,
    runs: Mapping[str, list[Run]],
    why: str = "",
) -> Outcome:
    """Read the runs of every point, and judge the claims.

    A tiny form decides nothing, a smaller one no printed number. `why` says what ended the adding
    of seeds.
    """
    found = recipe.found(runs)
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
            number = Number.of((point, label), reading.words, reading.share, values)
            printed = recipe.paper.get((point, label, reading))
            numbers.append(dataclasses.replace(number, paper=printed))
    return Outcome(
        paper,
        figure,
        recipe.title,
        "tiny" if form.tiny else "fit" if form.fit else "paper",
        form.compat,
        tuple(form.settings),
        recipe.varied,
        (len(found.points), len(recipe.points)),
        tuple(recipe.said(form)),
        why,
        found.seeds,
        sum(run.info.get("status") == "diverged" for run in every),
        sum(float(run.metrics["seconds"][-1]) for run in every if len(run.metrics)),
        tuple(numbers),
        tuple(check(found, judge=judges(form, check.exact)) for check in recipe.checks),
    )


def judges(form: Form, exact: bool) -> bool:
    """Whether a form decides claims, or those about the exact numbers."""
    return not form.tiny and not (form.fit and exact)


def reasons_of(one: Mapping[str, Any]) -> tuple[str, ...]:
    """Why claims fail, of an outcome in which one does."""
    failed = any(verdict["answer"] == "does not hold" for verdict in one["verdicts"])
    return REASONS.get((one["paper"], one["figure"]), ()) if failed and not one["compat"] else ()


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON has it."""
    plain: dict[str, Any] = _plain(dataclasses.asdict(verdict))
    parts = [part_to_dict(part) for part in verdict.parts]
    return plain | {"measured": verdict.measured, "parts": parts}


def part_to_dict(part: Part) -> dict[str, Any]:
    """A part as JSON has it: of its values null is what is not known, and "inf" what never came."""
    floor = {"floor": part.floor} if part.relation == "between" else {}
    return {
        "where": part.where,
        "relation": part.relation,
        "limit": part.limit,
        **floor,
        "values": [
            None if math.isnan(value) else str(value) if math.isinf(value) else value
            for value in part.values
        ],
    }


def part_from(plain: Mapping[str, Any]) -> Part:
    """The part that `part_to_dict` wrote.

    >>> part = Part("1", (0.5, math.inf, -math.inf), "above", 0.1)
    >>> part_from(part_to_dict(part)) == part
    True
    """
    values = tuple(math.nan if value is None else float(value) for value in plain["values"])
    floor = float(plain.get("floor", -math.inf))
    return Part(plain["where"], values, plain["relation"], float(plain["limit"]), floor)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
