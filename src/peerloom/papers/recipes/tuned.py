"""Algorithms that were run with several steps, each counted with the one that learns best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...reports.groups import column, seed_of
from ...runs import Run

__all__ = ["STEP", "at_best_steps"]

STEP = ", step "  # between an algorithm's label and the step of a run


def at_best_steps(runs: Mapping[str, Sequence[Run]]) -> dict[str, list[Run]]:
    """Of every algorithm and seed the run with the least training loss, under its bare label.

    By the training loss, so that nothing is chosen by what is judged.
    """
    made = {}
    for point, some in runs.items():
        best: dict[tuple[str, str], Run] = {}
        for run in some:
            key = str(run.info.get("label")).partition(STEP)[0], seed_of(run)
            if key not in best or _loss(run) < _loss(best[key]):
                best[key] = run
        made[point] = [
            replace(run, info=run.info | {"label": label}) for (label, _), run in best.items()
        ]
    return made


def _loss(run: Run) -> float:
    """The training loss at the end; of a run that diverged, or has none, the worst there is."""
    ends = column(run, "average_train_loss")
    known = run.info.get("status") != "diverged" and len(ends) and math.isfinite(ends[-1])
    return float(ends[-1]) if known else math.inf
