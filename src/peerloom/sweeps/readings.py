"""Numbers read off runs: a metric at the end or along an axis, or the cost of a level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..reports.groups import column, grouped, seed_of
from ..runs import Run

__all__ = ["Found", "Reading", "column_of", "middle", "quartiles", "words_of"]

_WORDS = {
    "mean_accuracy": "accuracy",
    "average_accuracy": "accuracy of the averaged model",
    "mean_loss": "loss",
    "average_loss": "loss of the averaged model",
    "consensus": "consensus error",
    "consensus_tracker": "consensus error of trackers",
    "consensus_direction": "consensus error of directions",
    "gradient_error": "gradient estimation error",
    "proximal_gradient": "proximal gradient",
    "paper_bytes": "bytes, as the paper counts them",
    "processing_delay": "processing delay",
    "transmission_delay": "transmission delay",
    "round": "rounds",
    "delay_both_ways": "delay both ways",
    "communications": "communication rounds",
}


def words_of(column: str) -> str:
    """A column in words.

    >>> words_of("average_loss"), words_of("gradients")
    ('loss of the averaged model', 'gradients')
    """
    return _WORDS.get(column, column)


@dataclass(frozen=True)
class Reading:
    """What is read off one run.

    metric  a column of the run's table
    at      where: "end", "common" (as far along `axis` as all runs of the point came), a value on
            `axis`, "along" (the mean up to there, which says who is faster also where all end
            alike), or "settled": at the end of a run that ended because it had settled, and not
            because its rounds were over
    axis    a column that grows
    upto    with "common" and "along": no further than this value
    level   in place of `at`: where this other column first met this value
    """

    metric: str
    at: float | Literal["end", "common", "along", "settled"] = "end"
    axis: str = "round"
    upto: float = math.inf
    level: tuple[str, float] | None = None

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return "accuracy" in self.metric

    @property
    def share(self) -> bool:
        """Whether it is written in per cent."""
        return self.higher

    @property
    def least(self) -> float:
        """The smallest difference that a single seed can tell."""
        return 0.001 if self.metric.endswith(("accuracy", "loss")) else 0.0

    @property
    def worst(self) -> float:
        """What a run that diverged, or never got there, is given."""
        return -math.inf if self.higher else math.inf

    @property
    def words(self) -> str:
        """The reading in words, as a heading has it."""
        what = words_of(self.metric)
        if self.level is not None:
            name, value = self.level
            return f"{what} to {words_of(name)} {value:g}"
        if self.at == "end":
            return f"{what} at the end"
        if self.at == "settled":
            return f"{what} until it settles"
        if self.at == "along":
            return f"mean of {what} over the {words_of(self.axis)}"
        axis = words_of(self.axis) if self.axis != "round" else "round"
        if self.at != "common":
            return f"{what} at {axis} {self.at:g}"
        return f"{what} at equal {axis}" + (
            f", {self.upto:g} at the most" if self.upto < math.inf else ""
        )

    def of(self, run: Run, common: float = math.nan) -> float:
        """The number read off a run; NaN where the run does not say."""
        if run.info.get("status") == "diverged":
            return self.worst
        y = column_of(run, self.metric)
        if self.level is not None:
            name, value = self.level
            seen = column_of(run, name)
            met = np.flatnonzero(seen >= value if "accuracy" in name else seen <= value)
            return float(y[met[0]]) if len(met) else math.inf
        if self.at == "settled" and run.info["rounds"] >= run.config["rounds"]:
            return self.worst
        if self.at in ("end", "settled"):
            return float(y[-1]) if len(y) else math.nan
        known = np.isfinite(y)
        if not known.any():
            return math.nan
        x, y = column_of(run, self.axis)[known], y[known]
        position = min(common, self.upto) if isinstance(self.at, str) else self.at
        if not x[0] <= position <= x[-1]:
            return math.nan
        here = float(np.interp(position, x, y))
        if self.at != "along":
            return here
        x, y = np.append(x[x < position], position), np.append(y[x < position], here)
        return float(np.diff(x) @ (y[1:] + y[:-1]) / 2 / (x[-1] - x[0])) if len(x) > 1 else here


class Found:
    """The runs of a recipe: by point, by label, by seed."""

    def __init__(self, runs: Mapping[str, Sequence[Run]], varied: str = "") -> None:
        self.varied = varied
        self.runs = {
            point: {
                group.label: {seed_of(run): run for run in group.runs}
                for group in grouped(list(some))
            }
            for point, some in runs.items()
        }

    @property
    def points(self) -> list[str]:
        """The points that were run, in their order."""
        return list(self.runs)

    def place(self, where: str) -> str:
        """In words, where something was found: a bare value gets the name of what is varied."""
        point = next(
            (
                point
                for point in self.points
                if point and where.split(" ")[0] == point.split(" ")[0]
            ),
            "",
        )
        return f"{self.varied} {where}" if point[:1].isdigit() and self.varied else where

    @property
    def seeds(self) -> int:
        """How many seeds the fullest label has."""
        return max(
            (len(runs) for labels in self.runs.values() for runs in labels.values()), default=0
        )

    @property
    def algorithms(self) -> list[str]:
        """The algorithms of all points, in the order of their first appearance."""
        return list(dict.fromkeys(label for point in self.points for label in self.labels(point)))

    def labels(self, point: str) -> list[str]:
        """The algorithms of a point."""
        return list(self.runs.get(point, {}))

    def values(self, point: str, label: str, reading: Reading) -> dict[str, float]:
        """The reading of every seed; empty where nothing of the kind was run."""
        runs = self.runs.get(point, {})
        common = math.nan
        if reading.at in ("common", "along"):
            ends = [
                column_of(run, reading.axis)
                for some in runs.values()
                for run in some.values()
                if _whole(run)
            ]
            common = min((float(end[-1]) for end in ends if len(end)), default=math.nan)
        return {seed: reading.of(run, common) for seed, run in runs.get(label, {}).items()}


def column_of(run: Run, name: str) -> NDArray[np.float64]:
    """A column of the table, or one that is derived: PaME's communication rounds.

    Those are how often a client hears, in the mean over clients. A client that asks a fraction of
    its neighbours hears max(1, ceil(fraction |N_i|)) messages each time.
    """
    if name != "communications":
        return column(run, name)
    fraction = float(run.config.get("schedule", {}).get("fraction", 1.0))
    heard = np.bincount(run.network["layers"]["peers"]["target"])
    return np.asarray(
        column(run, "messages")
        / sum(max(1, math.ceil(fraction * degree - 1e-9)) for degree in heard)
    )


def _whole(run: Run) -> bool:
    return run.info.get("status") == "done"


def middle(values: Sequence[float]) -> float:
    """The median; of two in the middle that are not both finite, the lower one."""
    ranked = sorted(value for value in values if not math.isnan(value))
    if not ranked:
        return math.nan
    low, high = ranked[(len(ranked) - 1) // 2], ranked[len(ranked) // 2]
    return (low + high) / 2 if math.isfinite(low) and math.isfinite(high) else low


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper quartile, both of them values that occurred.

    Of up to three values, least and largest.

    >>> quartiles([5.0, 1.0, 2.0, 4.0, 3.0])
    (2.0, 4.0)
    """
    ranked = sorted(value for value in values if not math.isnan(value))
    if not ranked:
        return math.nan, math.nan
    count = len(ranked)
    return ranked[math.ceil(count / 4) - 1], ranked[math.ceil(3 * count / 4) - 1]
