"""Run an experiment: iterate, measure when it is time to, keep what is found, and go on where a run stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core import ConfigError, DivergedError, Ledger
from ..engines import Checkpoint, iterate
from ..engines import Path as MixPath
from ..experiment import Experiment
from ..measures import measure
from ..runtime import ProcessFacts, prepare_process, trace
from ..schedules import NOTHING_TO_MEASURE, Record
from .store import RunFolder
from .table import Table

__all__ = ["Result", "simulate"]

SAVE_EVERY = 5.0  # seconds between checkpoints: what a killed run loses at the most


@dataclass(frozen=True)
class Result:
    """What a run gave."""

    experiment: Experiment
    state: Any  # the algorithm's last state, a named tuple of row tensors
    metrics: Table  # one row per evaluation; `peerloom.measures.METRICS` says what each column means
    ledger: Ledger  # what it cost
    rounds: int  # rounds done
    finished: bool  # False if it was asked to stop before its end

    @property
    def x(self) -> Tensor:
        """The models of the clients [m, n]."""
        return self.state.x[: self.experiment.graph.clients]  # type: ignore[no-any-return]


def simulate(
    exp: Experiment,
    *,
    device: str = "cpu",
    path: MixPath = "auto",
    out: Path | str | None = None,
    resume: bool = False,
    on_round: Callable[[int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    record: bool = False,
) -> Result:
    """Run an experiment in this process.

    `out` is a folder to keep the run in; with `resume` it goes on from what that folder holds, to the same bits as a run
    that was never stopped. `on_round` is told of every round; `stop` is asked after each whether to stop there. With
    `record` the folder also keeps what fired, for `schedules.Replay`.
    """
    if exp.measures:
        raise ConfigError(NOTHING_TO_MEASURE)  # before a folder is made for it
    if record and out is None:
        raise ConfigError("A record needs a folder to lie in: give `out`.")
    prepared = prepare_process()
    folder = _folder(exp, out, resume, prepared)
    begun = folder is not None and resume and (folder.path / "state.npz").exists()
    start = folder.checkpoint(exp, trace(exp.algorithm).state, device) if folder and begun else None
    rows = [row for row in folder.rows() if row["round"] <= start.t] if folder and start else []
    if folder:
        folder.save_metrics(rows)  # without what was measured after the state that was kept
    clock = _Clock(rows[-1]["seconds"] if rows else 0.0)
    saved = time.monotonic()
    finished = True
    steps = iterate(exp, device=device, path=path, resume=start)
    try:
        for snapshot in steps:
            last_round = snapshot.t == exp.rounds
            ends = last_round or (exp.until_delay is not None and snapshot.net.ledger.delay() >= exp.until_delay)
            known = bool(rows) and rows[-1]["round"] == snapshot.t
            if (ends or exp.evaluate.due(snapshot.t, exp.rounds)) and not known:
                rows.append(measure(snapshot, clock.pause(), exp.algorithm if exp.evaluate.closely else None))
                if folder:
                    folder.add_metrics(rows[-1])
                clock.go_on()
            ends = ends or _settled(exp, rows)
            if on_round is not None:
                on_round(snapshot.t)
            finished = ends or not (stop is not None and stop())
            due = not ends and (not finished or time.monotonic() - saved > SAVE_EVERY)
            if folder and due and bool(torch.isfinite(snapshot.x).all()):  # never a state the guard is about to refuse
                folder.save(Checkpoint(snapshot.t, snapshot.state, snapshot.ledger))
                saved = time.monotonic()
            if ends or not finished:
                break
    except DivergedError as error:
        if folder:
            folder.save_metrics([row for row in rows if row["round"] < error.round])
            folder.mark("diverged", message=str(error), round=error.round, row=error.row)
        raise
    except Exception as error:
        if folder:
            folder.mark("failed", message=str(error))
        raise
    if folder:
        folder.save(Checkpoint(snapshot.t, snapshot.state, snapshot.ledger))
        if record:
            folder.save_fired(Record.of(exp.graph, snapshot.net.activity, snapshot.t))
        folder.mark("done" if finished else "interrupted", rounds=snapshot.t)
    return Result(exp, snapshot.state, Table.of(rows), snapshot.ledger, snapshot.t, finished)


def _settled(exp: Experiment, rows: list[dict[str, Any]]) -> bool:
    """PaME's rule: f at the averaged model, summed over clients, hardly differs between the last three evaluations."""
    if exp.until_settled is None or len(rows) < 3:
        return False
    f = [exp.graph.clients * row["average_loss"] for row in rows[-3:]]
    return bool(np.std(f) < exp.until_settled)


class _Clock:
    """Seconds spent on rounds; evaluation does not count."""

    def __init__(self, before: float) -> None:
        self._total, self._since = before, time.perf_counter()

    def pause(self) -> float:
        self._total += time.perf_counter() - self._since
        return self._total

    def go_on(self) -> None:
        self._since = time.perf_counter()


def _folder(exp: Experiment, out: Path | str | None, resume: bool, prepared: ProcessFacts) -> RunFolder | None:
    if out is None:
        return None
    folder = RunFolder(Path(out))
    if resume and (folder.path / "run.json").exists():
        folder.check_same(exp)
        folder.mark("running", process=prepared._asdict())
        return folder
    return RunFolder.create(folder.path, exp, process=prepared._asdict())
