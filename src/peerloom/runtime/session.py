"""The loop over a rule: the only place that calls `init` and `step`, and that writes the round."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from ..core import Caution, Checkpoint, CheckpointError, Ledger, Remembers, Rule, masses
from ..core.events import (
    Diverged,
    Evaluated,
    Event,
    Finished,
    Observer,
    Observers,
    RoundDone,
    Saved,
    Started,
)
from ..core.tensor_file import Array, Pieces
from ..experiment import Experiment
from .guard import Guard, diverged, is_finite
from .port import RowPort
from .stop import StopRule

__all__ = ["DurableWire", "Session", "Snapshot"]


@runtime_checkable
class DurableWire(Protocol):
    """A wire that may stop in the midst of a round, and whose messages outlive the process."""

    def resume(self, t: int, memory: dict[str, Array]) -> None:
        """Go on after round t with what it remembered then."""

    def memory(self, t: int) -> Callable[[], Pieces]:
        """What a checkpoint of round t must hold of it; put together only when one is written."""


class Snapshot:
    """The run after round t. It hands out copies: nothing done to them disturbs the run."""

    def __init__(
        self, t: int, state: Any, port: RowPort, rule: Rule, *, ledger: Ledger | None = None
    ) -> None:
        self.t, self._state, self.port, self._rule = t, state, port, rule
        self.account = port.ledger if ledger is None else ledger
        """What the run has cost, to read while it stands here: the account goes on with the run."""

    @property
    def state(self) -> Any:
        """The rule's state, a named tuple of row tensors."""
        return type(self._state)(*(field.clone() for field in self._state))

    @property
    def x(self) -> Tensor:
        """The models of the clients [m, n]."""
        return self.models.clone()

    @property
    def models(self) -> Tensor:
        """The same, not copied: for whoever only reads them, while the run stands here."""
        return self._state.x[: self.port.network.clients]  # type: ignore[no-any-return]

    @property
    def mass(self) -> Tensor:
        """How much each of these models counts in the averaged one [m], in float64."""
        port = self.port
        found = masses(self._rule, port.network, port.place.rows, self._state._asdict())
        return found[: port.network.clients]

    @property
    def ledger(self) -> Ledger:
        """A copy of the account. Ask while the run stands here."""
        if self.account is self.port.ledger and self.port.t != self.t:
            raise RuntimeError(
                f"The ledger of round {self.t} is gone, the run has reached round {self.port.t}. "
                "Take it inside the loop."
            )
        return self.account.copy()

    def checkpoint(self) -> Checkpoint:
        """Where another session can go on. Ask while the run stands here."""
        return Checkpoint(
            self.t,
            self.port.place.rows,
            type(self._rule).__name__,
            _arrays(self.state),
            self.ledger.arrays(),
            problem=_kept_by_problem(self.port),
        )

    @property
    def net(self) -> RowPort:
        """The old name of `port`."""
        warnings.warn("A snapshot's `net` is now called `port`.", Caution, stacklevel=2)
        return self.port


class _Point(NamedTuple):
    """Where a session stands after a round, replaced as a whole."""

    t: int
    state: Any
    ledger: Ledger
    memory: Callable[[], Pieces]
    problem: Mapping[int, bytes]


class Session:
    """Runs the rows of one port through the rounds of an experiment.

    Where the wire is durable a round is all or nothing: if it is interrupted, `t`, `state`,
    `ledger` and `checkpoint()` are those of the round before. Elsewhere only `t` and `state` are,
    which saves a copy of the ledger in every round. Either way an interrupted session does not go
    on.
    """

    def __init__(
        self,
        exp: Experiment,
        port: RowPort,
        *,
        stop: StopRule | None = None,
        guard: Guard = Guard(),  # noqa: B008  (frozen)
        observers: Sequence[Observer] = (),
        resume: Checkpoint | None = None,
    ) -> None:
        self._exp, self._port, self._guard = exp, port, guard
        self._rule = type(exp.algorithm).__name__
        self._stop = StopRule.of(exp) if stop is None else stop
        self._tell = Observers(observers)
        self._resume = resume
        self._wire = port.wire if isinstance(port.wire, DurableWire) else None
        # Asked once: such a check takes longer than much of a round.
        self._remembers = port.problem if isinstance(port.problem, Remembers) else None
        self._no_grad = torch.no_grad()  # as a decorator it would be made anew in every round
        self._asked = self._broken = False
        self._end: str | None = None
        self._now: _Point | None = None
        self._good: _Point | None = None  # where the guard last looked

    @property
    def t(self) -> int:
        """The last round that is done."""
        return self._point.t

    @property
    def state(self) -> Any:
        """The rule's state after that round."""
        return self._point.state

    @property
    def ledger(self) -> Ledger:
        """What the run has cost up to that round."""
        return self._point.ledger

    @property
    def port(self) -> RowPort:
        """The port of the rows that are run."""
        return self._port

    @property
    def finished(self) -> str | None:
        """Why the session ended: rounds, delay, settled, paused or asked; None while it goes on."""
        return self._end or ("asked" if self._asked else None)

    def __iter__(self) -> Iterator[Snapshot]:
        """A snapshot of the start, then one after every round until the session is finished."""
        yield self.start()
        while self.finished is None:
            yield self.step()
        self.close()

    @torch.no_grad()
    def start(self) -> Snapshot:
        """The first state: the rule's `init` in round 0, or the checkpoint's."""
        port, rule, begin = self._port, self._exp.algorithm, self._resume
        if begin is None:
            x = self._exp.start(port.place.rows.tolist()).to(port.place.device)
            state = rule.init(x, port)
        else:
            state = self._state_of(begin)
            port.t, port.ledger = begin.t, Ledger.of(port.network, begin.ledger)
            if self._remembers is not None:
                self._remembers.restore(begin.problem)
        if self._wire is not None:
            self._wire.resume(port.t, {} if begin is None else begin.memory())
        self._resume = None  # its file is replaced in time, and what is mapped of it takes room
        self._now = self._good = self._reach(state)
        self._end = self._stop.reached(port.t, port.ledger)
        if not is_finite(state.x):
            self._raise_diverged(port.t, state)
        self._tell(Started(port.t))
        return Snapshot(port.t, state, port, self._exp.algorithm)

    def step(self) -> Snapshot:
        """One round more."""
        if self._end is not None or self._asked:
            raise RuntimeError(f"This session ended after round {self.t} ({self.finished}).")
        if self._broken:
            raise RuntimeError(
                f"Round {self.t + 1} was interrupted. Go on in a new session, from a checkpoint."
            )
        before, port = self._point, self._port
        begin = time.monotonic() if self._tell else 0.0
        port.t = t = before.t + 1
        self._broken = True  # until the round is done: the port has counted part of it
        with self._no_grad:
            state = self._exp.algorithm.step(before.state, port)
        end = self._stop.reached(t, port.ledger)
        self._watch(state, last=end is not None)
        # One assignment, so that an interruption leaves either the round before or this one, whole.
        self._now = self._reach(state)
        self._end, self._broken = end, False
        if self._tell:
            self._tell(RoundDone(t, time.monotonic() - begin))
        return Snapshot(t, state, port, self._exp.algorithm)

    def evaluated(self, metrics: Sequence[Mapping[str, Any]]) -> None:
        """Tell of the evaluations so far, the newest last: the run ends where they have settled."""
        if metrics and metrics[-1]["round"] == self.t:
            self._tell(Evaluated(self.t, metrics[-1]))
        if self._end is None and self._stop.settled is not None:
            settled = self._stop.has_settled([row["average_loss"] for row in metrics[-3:]])
            self._end = "settled" if settled else None

    def saved(self, t: int, seconds: float) -> None:
        """Tell that a checkpoint of round t was written, and how long that took."""
        self._tell(Saved(t, seconds))

    def request_stop(self) -> None:
        """End after the round that is under way. Any thread may ask."""
        self._asked = True

    def close(self) -> None:
        """Tell the observers that the session is over. Whoever iterates over it need not."""
        self._tell(Finished(self.t, self.finished or "asked"))

    def checkpoint(self) -> Checkpoint:
        """Where a session can go on: the last round that is done."""
        at = self._point
        if self._broken and self._wire is None:
            raise RuntimeError(
                f"Round {at.t + 1} was interrupted, "
                f"and the account of round {at.t} is gone with it."
            )
        account = at.ledger if self._wire is not None else at.ledger.copy()
        rows = self._port.place.rows
        return Checkpoint(
            at.t, rows, self._rule, _arrays(at.state), account.arrays(), at.memory(), at.problem
        )

    @property
    def _point(self) -> _Point:
        if self._now is None:
            raise RuntimeError("This session has not begun. Call start(), or iterate over it.")
        return self._now

    def _state_of(self, begin: Checkpoint) -> Any:
        """Return a copy of a checkpoint's rows, as the rule's own state."""
        from .dry_run import trace  # which runs a session itself

        found, place = trace(self._exp.algorithm), self._port.place
        if begin.rule != self._rule or tuple(begin.state) != found.state._fields:
            raise CheckpointError(
                f"The checkpoint is of {begin.rule} with {', '.join(begin.state)}, but the run is "
                f"of {self._rule} with {', '.join(found.state._fields)}. "
                "Go on with the rule that began it."
            )
        if not np.array_equal(begin.rows, place.rows):
            raise CheckpointError(
                f"The checkpoint holds {len(begin.rows)} rows, and not the {len(place.rows)} that "
                "live here. Take the part of these with `select`, or put all parts together with "
                "`merge`."
            )
        if begin.wire and self._wire is None:
            raise CheckpointError(
                "The checkpoint remembers messages of a wire between peers. "
                "Only they can go on with it."
            )
        rows = (
            torch.from_numpy(np.array(value)).to(place.device, place.dtype)
            for value in begin.state.values()
        )
        return found.state(*rows)

    def _reach(self, state: Any) -> _Point:
        port, kept = self._port, self._kept()
        if self._wire is None:
            return _Point(port.t, state, port.ledger, dict, kept)
        return _Point(port.t, state, port.ledger.copy(), self._wire.memory(port.t), kept)

    def _kept(self) -> Mapping[int, bytes]:
        """What the problem keeps of rows beside their state, if it does."""
        return {} if self._remembers is None else self._remembers.memory()

    def _watch(self, state: Any, last: bool) -> None:
        """Look at the models if it is time to; always after the last round."""
        good, t = self._good, self._port.t
        assert good is not None
        if not last and not self._guard.due(t - good.t, state.x):
            return
        if is_finite(state.x):
            self._good = _Point(t, state, self._port.ledger, dict, self._kept())
            return
        if self._guard.replay and good.t < t - 1:
            self._replay(good, t)
        self._raise_diverged(t, state)

    def _replay(self, good: _Point, t: int) -> None:
        """Repeat the rounds since the last good look and raise in the first bad one."""
        account, rows = Ledger(self._port.network).arrays(), self._port.place.rows
        begin = Checkpoint(
            good.t, rows, self._rule, _arrays(good.state), account, problem=good.problem
        )
        again = Session(
            self._exp,
            self._port.twin(),
            stop=StopRule(t),
            guard=Guard(every=1, replay=False),
            observers=[self._tell_divergence],
            resume=begin,
        )
        for _ in again:
            pass

    def _tell_divergence(self, event: Event) -> None:
        if isinstance(event, Diverged):
            self._tell(event)

    def _raise_diverged(self, t: int, state: Any) -> None:
        error = diverged(self._exp, t, self._port.place.rows.tolist(), state.x)
        self._tell(Diverged(t, error.row, str(error)))
        raise error


def _arrays(state: Any) -> dict[str, Array]:
    return {name: value.numpy(force=True) for name, value in state._asdict().items()}


def _kept_by_problem(port: RowPort) -> Mapping[int, bytes]:
    """What the problem keeps of rows beside their state, if it does."""
    return port.problem.memory() if isinstance(port.problem, Remembers) else {}
