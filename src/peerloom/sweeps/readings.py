"""Numbers read off runs: a metric at the end or along an axis, or the cost of a level."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..reports.groups import column, grouped, seed_of
from ..runs import Run

__all__ = ["Found", "Reading", "column_of", "in_words", "middle", "quartiles", "words_of"]

_WORDS = {
    "mean_accuracy": "accuracy",
    "average_accuracy": "accuracy of the averaged model",
    "mean_loss": "loss",
    "average_loss": "loss of the averaged model",
    "average_train_loss": "training loss of the averaged model",
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
    if column in _WORDS:
        return _WORDS[column]
    for prefix, words in (("mean_", "{}"), ("average_", "{} of the averaged model")):
        if column.startswith(prefix):  # what a problem measures besides
            return words.format(column.removeprefix(prefix))
    return column


@dataclass(frozen=True)
class Reading:
    """What is read off one run.

    metric  a column of the run's table
    at      where: "end", "common" (as far along `axis` as all runs of the seed at that point
            came), a value on `axis`, "along" (the mean up to there, which says who is faster also
            where all end alike), or "settled": at the end of a run that ended because it had
            settled, and not because its rounds were over
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
    """The runs of a recipe: by point, by label, by seed, in the order of seeds.

    `planned` are all points that there could be; by default those that were run.
    """

    def __init__(
        self,
        runs: Mapping[str, Sequence[Run]],
        varied: str = "",
        planned: Iterable[str] | None = None,
    ) -> None:
        self.varied = varied
        self.planned = list(runs if planned is None else planned)
        self.runs = {
            point: {
                group.label: dict(
                    sorted(
                        ((seed_of(run), run) for run in group.runs), key=lambda one: _rank(one[0])
                    )
                )
                for group in grouped(list(some))
            }
            for point, some in runs.items()
        }

    def only(self, seeds: Collection[str]) -> Found:
        """The same with the runs of these seeds."""
        some = Found({}, self.varied, self.planned)
        some.runs = {
            point: {
                label: {seed: run for seed, run in runs.items() if seed in seeds}
                for label, runs in labels.items()
            }
            for point, labels in self.runs.items()
        }
        return some

    @property
    def points(self) -> list[str]:
        """The points that were run, in their order."""
        return list(self.runs)

    def place(self, where: str) -> str:
        """In words, where something was found."""
        return in_words(where, self.varied, self.planned)

    @property
    def seeds(self) -> int:
        """How many seeds the fullest label has."""
        return max(
            (len(runs) for labels in self.runs.values() for runs in labels.values()), default=0
        )

    @property
    def seed_names(self) -> list[str]:
        """All seeds that occur, in their order."""
        every = {s for labels in self.runs.values() for runs in labels.values() for s in runs}
        return sorted(every, key=_rank)

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
        return {
            seed: reading.of(run, self._common(point, seed, reading))
            for seed, run in runs.get(label, {}).items()
        }

    def _common(self, point: str, seed: str, reading: Reading) -> float:
        """How far all runs of a seed came that did not diverge.

        Of this seed alone: what it gives does not depend on how many others there are.
        """
        if reading.at not in ("common", "along"):
            return math.nan
        runs = [some[seed] for some in self.runs[point].values() if seed in some]
        ends = [column_of(run, reading.axis) for run in runs if _whole(run)]
        return min((float(end[-1]) for end in ends if len(end)), default=math.nan)


def column_of(run: Run, name: str) -> NDArray[np.float64]:
    """A column of the table, or one that is derived: PaME's communication rounds.

    Those are how often a client hears, in the mean over clients. A client that asks a fraction of
    its neighbours, the same for all or its own, hears max(1, ceil(fraction |N_i|)) messages each
    time.
    """
    if name != "communications":
        return column(run, name)
    degrees = np.bincount(run.network["layers"]["peers"]["target"])
    fractions = np.broadcast_to(run.config.get("schedule", {}).get("fraction", 1.0), len(degrees))
    heard = (
        max(1, math.ceil(fraction * degree - 1e-9))
        for fraction, degree in zip(fractions.tolist(), degrees.tolist(), strict=True)
    )
    return np.asarray(column(run, "messages") / sum(heard))


def in_words(where: str, varied: str, points: Iterable[str]) -> str:
    """Where something was found: the bare value of a point gets the name of what is varied.

    >>> in_words("0.4 over 0.2", "radius", ["0.2", "0.4"]), in_words("IID", "data", ["IID"])
    ('radius 0.4 over 0.2', 'IID')
    """
    first = where.split(" ")[0]
    bare = first[:1].isdigit() and any(first == point.split(" ")[0] for point in points)
    return f"{varied} {where}" if bare and varied else where


def _rank(seed: str) -> tuple[int, str]:
    """Seeds in the order of numbers."""
    return (int(seed) if seed.lstrip("-").isdigit() else 0, seed)


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
