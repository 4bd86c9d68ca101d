"""One row of an experiment, in a process of its own: rounds, checkpoints, measurements, until it is done or must stop."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..config import experiment_to_toml
from ..core import DivergedError, Ledger
from ..engines import build_net
from ..errors import PeerError
from ..experiment import Experiment
from ..transport import Post, Wanted
from .free import FreeWire
from .keep import Keep
from .shape import Shape
from .standing import Gauges, TimedWire
from .wire import Pieces, PostWire

__all__ = ["AskedToStop", "RowResult", "RowRun", "spec_hash"]

_log = logging.getLogger("peerloom.peers")
_GOODBYE = 30.0  # seconds in which neighbours may fetch the last parcels
_GATHER = 10.0  # seconds in which neighbours may come, where nobody waits for them later
_LOOK = 0.05
_ATTEMPTS, _PAUSE = 3, 2.0  # to write a checkpoint, and seconds between them: somebody may be tidying up
_NO_NEWS = 2**62  # more than ever arrive: to let a little time pass


def spec_hash(exp: Experiment) -> str:
    """One hash of everything that determines the run: peers with another one do not talk to each other."""
    return hashlib.sha256(experiment_to_toml(exp).encode()).hexdigest()


class AskedToStop(BaseException):
    """Raised by whoever wants the run to end; the round under way is given up, and nothing else.

    A signal's handler says `SHIELD.throw(AskedToStop())`: then no frame of a link is cut in two.
    """


class Point(NamedTuple):
    """Where a row stands after a round."""

    t: int
    state: Any
    ledger: Ledger
    memory: Callable[[], Pieces]


@dataclass(frozen=True)
class RowResult:
    """What a row ended with."""

    t: int
    state: Any
    ledger: Ledger
    finished: bool


class RowRun:
    """Runs one row over a post. Everything that must survive lies in `keep`: a row that is killed and started again goes on
    as if nothing had happened, since a round is a pure function of the state before it and of what neighbours sent.
    """

    def __init__(
        self,
        exp: Experiment,
        row: int,
        post: Post,
        keep: Keep,
        shape: Shape,
        *,
        gauges: Gauges | None = None,
        on_round: Callable[[int], None] | None = None,
    ) -> None:
        self._exp, self._row, self._post, self._keep = exp, row, post, keep
        self._every, self._on_round, self._free = shape.checkpoint_every, on_round, shape.free
        self._tried = -1  # the last round of which a checkpoint was to be written
        self._reached = 0  # the round that earlier processes may have got to
        began = keep.began(post.roster)
        self._wire = FreeWire(post, row, shape, began) if shape.free else PostWire(post, row, shape, began, keep.journal())
        self.gauges = gauges or Gauges(row, exp.rounds, tuple(shape.channels))
        self._net = build_net(exp, np.array([row]), wire=TimedWire(self._wire, self.gauges))

    @torch.no_grad()
    def run(self) -> RowResult:
        """From the last checkpoint, or from the start, to the end or until `AskedToStop` is raised."""
        exp, net, keep = self._exp, self._net, self._keep
        state = exp.algorithm.init(exp.start([self._row]).to(net.place.dtype), net)
        kept = keep.load(exp.graph, type(state))
        if kept is not None:
            net.t, state, net.ledger, self._reached = kept.t, kept.state, kept.ledger, kept.reached
        if exp.evaluate.due(net.t, exp.rounds):  # a peer may have been stopped between a round and its measurement
            self._measure(state.x)
        self._wire.resume(net.t, kept.memory if kept is not None else {}, self._reached)
        if self._free:
            self._gather()
        self.gauges.first = self.gauges.round = net.t
        done, version = self._point(state), self._roster_version
        if isinstance(self._wire, PostWire):
            self._wire.safeguard = lambda: self._save(done)
            if net.t + self._ahead > max(
                self._reached, net.t + 1
            ):  # who starts after this process must know how far it may get
                self._save(done)
        try:
            while net.t < exp.rounds:
                net.t += 1
                begin, waited = time.monotonic(), self.gauges.wait_seconds
                # One assignment, so that a request to stop finds either the round before or this one, whole.
                done = self._point(exp.algorithm.step(done.state, net))
                self.gauges.stepped(net.t, time.monotonic() - begin, self.gauges.wait_seconds - waited)
                if exp.evaluate.due(net.t, exp.rounds):
                    self._measure(done.state.x)
                version, before = self._roster_version, version
                if net.t % self._every == 0 or version > before:  # who was removed does not send anything again
                    self._save(done)
                if self._on_round is not None:
                    self._on_round(net.t)
        except AskedToStop:
            self._save(done, last=True)
            self.gauges.status = "stopped"
            return RowResult(*done[:3], finished=False)
        except PeerError:
            if done.t > self._tried:
                self._save(done, last=True)
            raise
        self._save(done, last=True)
        self._part()
        self.gauges.status = "done"
        return RowResult(*done[:3], finished=True)

    @property
    def _roster_version(self) -> int:
        return (self._post.offered() or self._post.roster).version

    def _save(self, done: Point, last: bool = False) -> None:
        """Write a checkpoint. Without it the row does not go on: neighbours keep parcels for the newest two only.

        It says how far this process may get beyond it: into the next round, or until the next is written, should that be
        spoilt until the one after.
        """
        begin, memory, self._tried = time.monotonic(), done.memory(), done.t
        reached = max(self._reached, done.t + (1 if last else self._ahead))
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._keep.save(done.t, done.state, done.ledger, memory, reached)
                break
            except OSError as error:
                text = f"The checkpoint after round {done.t} cannot be written ({error.strerror or error})"
                if attempt == _ATTEMPTS:
                    raise PeerError(
                        f"{text}, tried {attempt} times, in {self._keep.folder}. Older ones are whole: make room, then "
                        "start this peer again. Neighbours wait for it."
                    ) from error
                _log.warning("%s; trying again.", text)
                self._post.wait_news(_NO_NEWS, _PAUSE)
        self.gauges.saved(done.t, time.monotonic() - begin)

    @property
    def _ahead(self) -> int:
        """Rounds that a process may get beyond a checkpoint, should the next one be spoilt."""
        return 1 if self._every == 1 else 2 * self._every

    def _point(self, state: Any) -> Point:
        """Where the row stands after this round."""
        # The sum alone may overflow although every number is finite; then the longer look decides.
        if not math.isfinite(state.x.sum().item()) and not torch.isfinite(state.x).all():
            text = (
                f"{self._exp.name} diverged: in round {self._net.t} the model here is no longer finite. Try smaller steps."
            )
            raise DivergedError(text, round=self._net.t, row=self._row)
        self.gauges.model = state.x[0]
        return Point(self._net.t, state, self._net.ledger.copy(), self._wire.memory(self._net.t))

    def _gather(self) -> None:
        """Give neighbours a moment to come: who waits for nobody would otherwise be done before they are there."""
        for _ in range(round(_GATHER / _LOOK)):
            if all(link.up for link in self._post.links()):
                break
            self._post.wait_news(_NO_NEWS, _LOOK)

    def _part(self) -> None:
        """Stay until neighbours have all they need: one that is killed now, and started again, asks for the last rounds."""
        post, after = self._post, self._exp.rounds + 1
        post.skip(after)
        post.settle(None, _GOODBYE)
        post.take_all([Wanted(peer, after, 0) for peer in post.roster.sources(post.me)], _GOODBYE)

    def _measure(self, x: Tensor) -> None:
        net = self._net
        found: dict[str, Any] = {"round": net.t, "seconds": time.monotonic() - self.gauges.began}
        found["cpu_seconds"] = time.process_time()
        if self._row < net.network.clients:
            judged = net.problem.evaluate(x)
            found["loss"] = float(judged.loss[0])
            found["accuracy"] = None if judged.accuracy is None else float(judged.accuracy[0])
        found["consensus"] = self.gauges.consensus
        self.gauges.last = found
        self._keep.measured(found, x[0], net.ledger)
