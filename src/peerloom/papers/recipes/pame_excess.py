"""How far PaME's objective lies above the least one: at the end, or in the mean on the way."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Literal

import numpy as np

from ...registry import build
from ...reports.groups import column
from ...runs import Run
from ...sweeps.readings import Found

__all__ = ["excess"]

When = Literal["along", "end"]


def excess(found: Found, point: str, label: str, when: When) -> dict[str, float]:
    """By seed, the objective less the least that any model reaches on these samples.

    "along" is the mean over the rounds of a run: who falls sooner has less of it, whatever rule
    ends runs.
    """
    runs = found.runs.get(point, {}).get(label, {})
    return {seed: _excess(run, when) for seed, run in runs.items()}


def _excess(run: Run, when: When) -> float:
    if run.info.get("status") == "diverged":
        return math.inf
    rounds, above = column(run, "round"), column(run, "average_loss") - least_of(run)
    if when == "end" or len(rounds) < 2:
        return float(above[-1])
    return float(np.diff(rounds) @ (above[1:] + above[:-1]) / 2 / (rounds[-1] - rounds[0]))


def least_of(run: Run) -> float:
    """The least objective of the run's linear regression, which is known exactly."""
    return _least(json.dumps(run.config["problem"]["data"], sort_keys=True))


@cache  # the same samples are those of every seed and of many points
def _least(table: str) -> float:
    data = build("data", json.loads(table), "problem.data")
    apart = data.x @ data.facts["solution"] - data.y
    return float(np.mean(np.square(apart)) / 2)
