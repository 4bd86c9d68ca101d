"""How long a recipe would take on this machine.

A few rounds are timed, and the rounds it needs are counted exactly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...config import comparison_from
from ...core import DivergedError
from ...experiment import Experiment
from ...measures import measure
from ...problems import Quadratic
from ...runtime import iterate

__all__ = ["Expected", "estimate"]


@dataclass(frozen=True)
class Expected:
    """The runs of one algorithm at one point."""

    point: str
    name: str
    runs: int
    rounds: int  # of each run; of runs that end once they have settled, the most
    evaluations: int
    round_seconds: float
    evaluation_seconds: float

    @property
    def seconds(self) -> float:
        """Of all runs, one after another."""
        return self.runs * (
            self.rounds * self.round_seconds + self.evaluations * self.evaluation_seconds
        )


def estimate(
    tables: Mapping[str, dict[str, Any]],
    seconds: float = 3.0,
    say: Callable[[str], None] = lambda text: None,
) -> list[Expected]:
    """What each algorithm needs at each point.

    All algorithms are timed at the first point, one of them at every other; the rest follows from
    the ratios. Each is timed for `seconds`, and for a round at the least.
    """
    found: list[Expected] = []
    ratios: dict[str, float] = {}
    for point, table in tables.items():
        by_name: dict[str, list[Experiment]] = {}
        for exp in comparison_from(table).experiments:
            by_name.setdefault(exp.name, []).append(exp)
        first = next(iter(by_name))
        lead = (0.0, 0.0)
        for name, runs in by_name.items():
            say(f"{point} {name}".strip())
            rounds, evaluations = _rounds(runs[0])
            if name == first or name not in ratios:
                spent = _timed(runs[0], seconds)
                lead = spent if name == first else lead
                ratios.setdefault(name, spent[0] / lead[0])
            else:
                spent = (lead[0] * ratios[name], lead[1])
            found.append(Expected(point, name, len(runs), rounds, evaluations, *spent))
    return found


def _rounds(exp: Experiment) -> tuple[int, int]:
    """Rounds and evaluations of a run.

    Delays do not depend on the model, so one that costs nothing counts them exactly.
    """
    nothing = Quadratic(np.zeros((exp.graph.clients, 1, 1)), np.zeros((exp.graph.clients, 1)))
    end = exp.rounds
    if exp.until_delay is not None:
        stand_in = replace(exp, problem=nothing, x0=None, until_settled=None)
        end = max(snapshot.t for snapshot in iterate(stand_in))
    return end, sum(t == end or exp.evaluate.due(t, exp.rounds) for t in range(end + 1))


def _timed(exp: Experiment, seconds: float) -> tuple[float, float]:
    """Seconds of a round, and of an evaluation."""
    snapshots = iterate(exp)
    last = next(snapshots)
    begin = time.perf_counter()
    measure(last, seconds=0.0)
    evaluation = time.perf_counter() - begin
    begin, done = time.perf_counter(), 0
    try:
        for _ in snapshots:
            done += 1
            if time.perf_counter() - begin > seconds:
                break
    except DivergedError:
        done += 1
    return (time.perf_counter() - begin) / max(done, 1), evaluation
