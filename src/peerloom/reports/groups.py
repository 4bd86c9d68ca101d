"""Runs by algorithm, one per seed, and the columns of their metrics as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..measures import own_metrics
from ..runs import Run
from .wording import number, percent

__all__ = [
    "ACCURACY",
    "LOSS",
    "Group",
    "Quality",
    "column",
    "flat",
    "grouped",
    "is_measured",
    "last_clients",
    "own_names",
    "quality_of",
    "seed_of",
    "unfinished",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """The runs of one algorithm, one per seed."""

    label: str
    algorithm: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Quality:
    """What models are judged by: the columns that hold it, and which way is better."""

    name: str
    own: str
    averaged: str
    clients: str
    higher: bool

    def text(self, value: float | None) -> str:
        """A value as text."""
        return percent(value) if self.higher else number(value)

    def level(self, value: float) -> str:
        """A value as a level to be reached: 40 % accuracy, a loss of 0.2."""
        return (
            f"{self.text(value)} {self.name}"
            if self.higher
            else f"a {self.name} of {self.text(value)}"
        )

    def met(self, values: Floats, target: float) -> NDArray[np.bool_]:
        """Where a target is reached."""
        return values >= target if self.higher else values <= target

    def best(self, values: Floats) -> float:
        """The best of some values; NaN where there is none."""
        known = values[np.isfinite(values)]
        return (
            float("nan") if not len(known) else float(known.max() if self.higher else known.min())
        )


ACCURACY = Quality("accuracy", "mean_accuracy", "average_accuracy", "client_accuracy", higher=True)
LOSS = Quality("loss", "mean_loss", "average_loss", "client_loss", higher=False)


def column(run: Run, name: str) -> Floats:
    """One column of a run's metrics; missing values are NaN."""
    if name not in run.metrics.columns:
        return np.full(len(run.metrics), np.nan)
    return np.asarray(run.metrics[name], np.float64)


def is_measured(groups: Sequence[Group], name: str) -> bool:
    """Whether any run has numbers in this column."""
    return any(np.isfinite(column(run, name)).any() for group in groups for run in group.runs)


def own_names(groups: Sequence[Group]) -> list[str]:
    """What the problems of these runs measure besides loss and accuracy, by name."""
    runs = [run for group in groups for run in group.runs]
    names = dict.fromkeys(name for run in runs for name in own_metrics(run.metrics.columns))
    return [name for name in names if is_measured(groups, f"mean_{name}")]


def last_clients(run: Run, quality: Quality) -> list[float]:
    """The quality of each client's own model at the last evaluation; empty if not measured."""
    if quality.clients not in run.metrics.columns or not len(run.metrics):
        return []
    found = run.metrics[quality.clients][-1]
    return [float(value) for value in found] if np.ndim(found) else []


def quality_of(runs: Sequence[Run]) -> Quality:
    """Accuracy where every run that has rows knows it, else the loss."""
    measured = [run for run in runs if len(run.metrics)]
    known = all(np.isfinite(column(run, ACCURACY.own)).any() for run in measured)
    return ACCURACY if measured and known else LOSS


def seed_of(run: Run) -> str:
    """The run's seed, as a word."""
    return str(run.info.get("seed", "unknown"))


def unfinished(run: Run) -> bool:
    """Whether the run is not at its end."""
    return run.info.get("status") != "done"


def grouped(runs: Sequence[Run]) -> list[Group]:
    """Runs by label, in order of appearance; a label whose seeds repeat is split by settings."""
    by_label: dict[str, list[Run]] = {}
    for run in runs:
        by_label.setdefault(
            str(run.info.get("label") or run.info.get("algorithm") or run.path.name), []
        ).append(run)
    groups = []
    for label, members in by_label.items():
        for suffix, part in _apart(members).items():
            kept = {seed_of(run): run for run in part}  # of the same experiment, the later run
            algorithm = str(part[0].info.get("algorithm", "unknown"))
            groups.append(Group(f"{label}{suffix}", algorithm, tuple(kept.values())))
    return groups


def _apart(runs: list[Run]) -> dict[str, list[Run]]:
    """Runs of one label by the settings in which they differ; all together if no seed repeats."""
    if len({seed_of(run) for run in runs}) == len(runs):
        return {"": runs}
    tables = [flat(run.config) for run in runs]
    keys = sorted({key for table in tables for key in table if key.rpartition(".")[2] != "seed"})
    differing = [key for key in keys if len({repr(table.get(key)) for table in tables}) > 1]
    parts: dict[str, list[Run]] = {}
    for run, table in zip(runs, tables, strict=True):
        settings = ", ".join(
            f"{key.rpartition('.')[2]} = {table.get(key, 'unset')}" for key in differing
        )
        parts.setdefault(f" ({settings})" if settings else "", []).append(run)
    return parts


def flat(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """A nested table with its keys written out.

    >>> flat({"graph": {"radius": 0.4}, "seed": 1})
    {'graph.radius': 0.4, 'seed': 1}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= (
            flat(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
        )
    return found
