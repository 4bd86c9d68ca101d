"""Run an experiment: iterate, measure when due, save, and go on where a run stopped."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ..core import Caution, Checkpoint, ConfigError, DivergedError, Ledger
from ..core.events import Observer, each_round
from ..experiment import Experiment
from ..measures import measure
from ..runtime import Path as MixPath
from ..runtime import ProcessFacts, Session, Snapshot, prepare_process, simulation
from ..runtime.guard import is_finite
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
    metrics: (
        Table  # one row per evaluation; `peerloom.measures.METRICS` says what each column means
    )
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
    observers: Sequence[Observer] = (),
    on_round: Callable[[int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    record: bool = False,
) -> Result:
    """Run an experiment in this process.

    `out` is a folder to keep the run in; with `resume` it goes on from what that folder holds, to
    the same bits as a run that was never stopped. `observers` are told what happens
    (`peerloom.core.events`); `stop` is asked after each round whether to stop there. With `record`
    the folder also keeps what fired, for `schedules.Replay`. `on_round` is the old name of an
    observer that is told of rounds alone.
    """
    if exp.measures:
        raise ConfigError(NOTHING_TO_MEASURE)  # before a folder is made for it
    if record and out is None:
        raise ConfigError("A record needs a folder to lie in: give `out`.")
    if on_round is not None:
        warnings.warn(
            "simulate(on_round=...) is now simulate(observers=[...]).", Caution, stacklevel=2
        )
        observers = [*observers, each_round(on_round)]
    keeper = _Keeper.open(exp, out, resume)
    session = simulation(exp, device=device, path=path, resume=keeper.begin, observers=observers)
    with keeper.marking():
        for snapshot in session:
            keeper.evaluate(session, snapshot)
            if stop is not None and session.finished is None and stop():
                session.request_stop()
            keeper.save_if_due(session)
        keeper.end(session, record)
    finished = session.finished != "asked"
    return Result(exp, snapshot.state, Table.of(keeper.rows), snapshot.ledger, snapshot.t, finished)


class _Keeper:
    """Evaluates a run when it is time to, and keeps what is found in its folder, if it has one."""

    def __init__(
        self,
        exp: Experiment,
        folder: RunFolder | None,
        begin: Checkpoint | None,
        rows: list[dict[str, Any]],
    ) -> None:
        self._exp, self._folder, self.begin, self.rows = exp, folder, begin, rows
        self._clock = _Clock(rows[-1]["seconds"] if rows else 0.0)
        self._saved = time.monotonic()

    @classmethod
    def open(cls, exp: Experiment, out: Path | str | None, resume: bool) -> _Keeper:
        """With what the folder holds, where a run is resumed."""
        folder = _folder(exp, out, resume, prepare_process())
        begin = folder.checkpoint() if folder and resume else None
        rows = [row for row in folder.rows() if row["round"] <= begin.t] if folder and begin else []
        if folder:
            folder.save_metrics(rows)  # without what was measured after the state that was kept
        return cls(exp, folder, begin, rows)

    def evaluate(self, session: Session, snapshot: Snapshot) -> None:
        """Measure the models, if this round is one to do so, and tell the session."""
        exp = self._exp
        if session.finished is None and not exp.evaluate.due(snapshot.t, exp.rounds):
            return
        if not self.rows or self.rows[-1]["round"] != snapshot.t:
            closely = exp.algorithm if exp.evaluate.closely else None
            trained = exp.algorithm if exp.evaluate.train else None
            self.rows.append(measure(snapshot, self._clock.pause(), closely, trained))
            if self._folder:
                self._folder.add_metrics(self.rows[-1])
            self._clock.go_on()
        session.evaluated(self.rows)

    def save_if_due(self, session: Session) -> None:
        """A checkpoint now and then, and one where the run was asked to stop."""
        due = session.finished is None and time.monotonic() - self._saved > SAVE_EVERY
        # Never a state that the guard is about to refuse.
        if self._folder and due and is_finite(session.state.x):
            self._folder.save(session.checkpoint())
            self._saved = time.monotonic()

    def end(self, session: Session, record: bool) -> None:
        """The last checkpoint, and how the run ended."""
        if self._folder:
            self._folder.save(session.checkpoint())
            if record:
                self._folder.save_fired(
                    Record.of(self._exp.graph, session.port.activity, session.t)
                )
            self._folder.mark(
                "interrupted" if session.finished == "asked" else "done", rounds=session.t
            )

    @contextmanager
    def marking(self) -> Iterator[None]:
        """Note in the folder that the run failed, if it does."""
        try:
            yield
        except DivergedError as error:
            if self._folder:
                self._folder.save_metrics([row for row in self.rows if row["round"] < error.round])
                self._folder.mark("diverged", message=str(error), round=error.round, row=error.row)
            raise
        except Exception as error:
            if self._folder:
                self._folder.mark("failed", message=str(error))
            raise


class _Clock:
    """Seconds spent on rounds; evaluation does not count."""

    def __init__(self, before: float) -> None:
        self._total, self._since = before, time.perf_counter()

    def pause(self) -> float:
        self._total += time.perf_counter() - self._since
        return self._total

    def go_on(self) -> None:
        self._since = time.perf_counter()


def _folder(
    exp: Experiment, out: Path | str | None, resume: bool, prepared: ProcessFacts
) -> RunFolder | None:
    if out is None:
        return None
    folder = RunFolder(Path(out))
    if resume and (folder.path / "run.json").exists():
        folder.check_same(exp)
        folder.mark("running", process=prepared._asdict())
        return folder
    return RunFolder.create(folder.path, exp, process=prepared._asdict())
