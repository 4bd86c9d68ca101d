"""The tables of a comparison as data: delays to targets, final figures, equal delay."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runs import Run
from .groups import (
    LOSS,
    Group,
    Quality,
    column,
    grouped,
    own_names,
    quality_of,
    seed_of,
    unfinished,
)
from .headline import headline
from .targets import Reach, Spread, choose_targets, reach, spread
from .wording import number

__all__ = ["FINAL", "Equal", "Final", "Summary", "summary"]

# The columns of the table of final figures, in its order.
FINAL = (
    "round",
    "mean_accuracy",
    "average_accuracy",
    "mean_loss",
    "average_train_loss",
    "consensus",
    "delay",
    "delay_normalised",
    "bytes",
    "messages",
    "gradients",
    "seconds",
)


@dataclass(frozen=True)
class Final:
    """The figures of one algorithm at the last evaluation of its runs."""

    label: str
    algorithm: str
    seeds: tuple[str, ...]
    unfinished: int
    figures: dict[str, Spread]  # by the columns of FINAL, then what problems measure besides


@dataclass(frozen=True)
class Equal:
    """The quality of one algorithm at the delay at which all are compared."""

    label: str
    seeds: int
    value: Spread  # mean over clients of each one's own model
    by_seed: dict[str, float | None]
    averaged: Spread  # the averaged model


@dataclass(frozen=True)
class Summary:
    """All tables of a comparison, over seeds: median, least and largest."""

    quality: str  # what models are judged by: accuracy, or loss where there is none
    headline: tuple[str, ...]
    notes: tuple[str, ...]
    targets: tuple[float, ...]
    reach: tuple[Reach, ...]  # one per algorithm and target
    equal_delay: float | None
    at_equal_delay: tuple[Equal, ...]
    final: tuple[Final, ...]

    def to_dict(self) -> dict[str, Any]:
        """The summary as JSON has it: lists, dictionaries, numbers and strings."""
        plain: dict[str, Any] = _plain(dataclasses.asdict(self))
        return plain


def summary(runs: list[Run], targets: Sequence[float] | None = None) -> Summary:
    """The tables of these runs.

    `targets` are levels to be reached; by default round levels that some algorithm reaches.
    """
    groups, quality = grouped(runs), quality_of(runs)
    measured = any(len(run.metrics) for run in runs)
    given = None if targets is None else sorted(targets, reverse=not quality.higher)
    levels = choose_targets(groups, quality) if given is None else given
    reached = [reach(group, level, quality) for level in levels for group in groups]
    delay = _common_delay(groups)
    equal = [_equal(group, delay, quality) for group in groups] if delay else []
    sentences = ["Nothing is evaluated yet."]
    if measured:
        sentences = headline(quality, levels, reached, delay, equal)
    return Summary(
        quality=quality.name,
        headline=tuple(sentences),
        notes=tuple(_notes(groups, quality if measured else None)),
        targets=tuple(levels),
        reach=tuple(reached),
        equal_delay=delay,
        at_equal_delay=tuple(equal),
        final=tuple(_final(group, own_names(groups)) for group in groups),
    )


def _common_delay(groups: Sequence[Group]) -> float | None:
    """The largest delay that all finished runs reached, or all runs if none is finished."""
    ends = [
        (run, float(column(run, "delay")[-1]))
        for group in groups
        for run in group.runs
        if len(run.metrics)
    ]
    moved = [(run, end) for run, end in ends if end > 0]
    return min(
        (end for run, end in moved if not unfinished(run)),
        default=min((end for _, end in moved), default=None),
    )


def _equal(group: Group, delay: float, quality: Quality) -> Equal:
    own, averaged = (
        {seed_of(run): _at(run, delay, name) for run in group.runs}
        for name in (quality.own, quality.averaged)
    )
    over, whole = (
        spread([value for value in found.values() if value is not None])
        for found in (own, averaged)
    )
    return Equal(group.label, len(own), over, own, whole)


def _at(run: Run, delay: float, name: str) -> float | None:
    """A column at a delay, interpolated linearly between evaluations; None beyond the end."""
    x, y = column(run, "delay"), column(run, name)
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    after = int(np.searchsorted(x, delay, side="right"))
    if after == 0 or (after == len(x) and x[-1] < delay):
        return None
    if x[after - 1] == delay:
        return float(y[after - 1])
    share = (delay - x[after - 1]) / (x[after] - x[after - 1])
    return float(y[after - 1] + share * (y[after] - y[after - 1]))


def _final(group: Group, own: Sequence[str]) -> Final:
    measured = [run for run in group.runs if len(run.metrics)]
    names = [*FINAL, *(f"{which}_{name}" for name in own for which in ("mean", "average"))]
    figures = {name: spread([column(run, name)[-1] for run in measured]) for name in names}
    seeds, late = tuple(map(seed_of, group.runs)), sum(map(unfinished, group.runs))
    return Final(group.label, group.algorithm, seeds, late, figures)


def _notes(groups: Sequence[Group], quality: Quality | None) -> list[str]:
    """What a reader must know before trusting the figures."""
    notes = []
    if quality is LOSS:
        notes.append(
            "The problem has no accuracy, or not all runs measured it, "
            "so models are judged by their loss."
        )
    for group in groups:
        for run in group.runs:
            name = f"{group.label}, seed {seed_of(run)}"
            if not len(run.metrics):
                notes.append(f"{name}: no evaluation yet.")
            if unfinished(run):
                status = run.info.get("status", "status unknown")
                at = f" at round {number(column(run, 'round')[-1])}" if len(run.metrics) else ""
                if run.info.get("status") == "diverged":
                    at = f" in round {run.info.get('round', 'unknown')}"
                notes.append(f"{name}: {status}{at}, so its figures are not final.")
    return notes


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
