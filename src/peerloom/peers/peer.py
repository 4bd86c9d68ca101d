"""One row of an experiment in a process of its own: rounds, checkpoints, evaluations."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..core import CodedWire, Draws, judged_fields
from ..core.events import Observer
from ..errors import PeerError
from ..experiment import Experiment
from ..runtime import Guard, Session, Snapshot, StopRule, build_port
from ..transport import Skipped, StopRequested, Transport, Wanted
from .async_wire import AsyncWire
from .disk import Disk
from .folder import PeerFolder
from .sent_files import SentFiles
from .sync_wire import SyncWire
from .telemetry import Telemetry, TimedWire
from .wire_memory import files_in, reached_in, reached_memory
from .wire_plan import WirePlan

__all__ = ["Holder", "PeerRun", "check_stop"]

_log = logging.getLogger("peerloom.peers")
_GOODBYE = 30.0  # seconds in which neighbours may fetch the last parcels
_GATHER = 10.0  # seconds in which neighbours may come, where nobody waits for them later
_LOOK = 0.05
_ATTEMPTS = 3  # to write a checkpoint: somebody may be making room
_PAUSE = 2.0  # seconds between them
_NO_NEWS = 2**62  # more than ever arrive: to let a little time pass


class Holder(Protocol):
    """Decides when checkpoints that are due are written; without one that is at once."""

    nbytes: int
    """Bytes on disk that it may take itself."""

    def hold(self, save: Callable[[], None], last: bool) -> None:
        """Take what writes a checkpoint that is due; `last` says that the peer ends with it.

        One that is due may wait until the next one is. One with which the peer ends may be left
        out: a later process goes on from the one before.
        """


class AtOnce:
    """Writes checkpoints when they are due."""

    nbytes = 0

    def hold(self, save: Callable[[], None], last: bool) -> None:
        """Write it."""
        save()


def check_stop(exp: Experiment) -> None:
    """Refuse until_delay and until_settled: nobody between peers could judge them."""
    StopRule.of(exp).check_rounds_only(
        "it depends on all rows, and a peer knows its own. Leave it out and give `rounds`; "
        "`peerloom run` tells how many a simulated run takes until then."
    )


class PeerRun:
    """One row, over a transport. Everything that must survive lies in its folder.

    A row that is killed and started again goes on as if nothing had happened, since a round is a
    pure function of the state before it and of what neighbours sent.
    """

    def __init__(
        self,
        exp: Experiment,
        row: int,
        transport: Transport,
        folder: PeerFolder,
        plan: WirePlan,
        *,
        telemetry: Telemetry | None = None,
        observers: Sequence[Observer] = (),
        pause: int | None = None,
        disk: Disk | None = None,
        device: str = "cpu",
        holder: Holder | None = None,
    ) -> None:
        check_stop(exp)
        if exp.evaluate.train:
            _log.info(
                "evaluate.train: a peer knows neither the averaged model nor what the others hold, "
                "so it does not measure the training loss; where all rows run on one machine "
                "(`peerloom up`), it is measured when they are put together."
            )
        self._exp, self._row, self._transport, self._folder = exp, row, transport, folder
        self._every, self._free, self._disk = plan.checkpoint_every, plan.free, disk
        self._most = self._every  # rounds between two checkpoints
        self._hold = (holder or AtOnce()).hold
        if holder is not None:  # one may wait until the next is due
            self._every = max(1, self._every // 2)
            self._most = 2 * self._every
        self._tried = -1  # the last round of which a checkpoint was to be written
        self._sent = SentFiles(folder.path / "sent", plan.large)
        kept = folder.newest(self._sent)
        self._sent.clean(folder.files_named())
        # The round that earlier processes may have got to.
        self._reached = 0 if kept is None else reached_in(kept.memory())
        began = folder.began(transport.roster)
        wire = (
            AsyncWire(transport, row, plan, began)
            if plan.free
            else SyncWire(transport, row, plan, began, folder.journal(), self._sent)
        )
        self._wire = wire
        if isinstance(wire, SyncWire):
            wire.checkpoint_now = self._save
        self.telemetry = telemetry or Telemetry(row, exp.rounds, tuple(plan.channels))
        hosted = np.array([row])
        rows = (
            wire
            if isinstance(wire, AsyncWire)
            else CodedWire(exp.message, Draws(exp.seed), hosted, wire, self._sent)
        )
        port = build_port(
            exp,
            hosted,
            gradients=None if device == "cpu" else device,
            mixer="links",
            wire=TimedWire(rows, wire, self.telemetry),
        )
        watchers = [self.telemetry.observe, *observers]
        stop = StopRule(exp.rounds, pause=pause)
        guard = Guard(every=1, replay=False)
        self._session = Session(exp, port, stop=stop, guard=guard, observers=watchers, resume=kept)

    def run(self) -> Session:
        """Run from the last checkpoint, or the start, to the end or until a stop is requested."""
        session = self._session
        # A peer may have been stopped between a round and its evaluation.
        self._observe(session.start())
        if self._free:
            self._gather()
        elif session.t + self._ahead > max(self._reached, session.t + 1):
            self._hold(self._save, False)  # a later process must know how far this one may have got
        version = self._roster_version
        try:
            while session.finished is None:
                self._transport.raise_if_stopped()  # a round may not wait for anybody
                self._observe(session.step())
                version, before = self._roster_version, version
                # A peer that was removed does not send anything again.
                if session.t % self._every == 0 or version > before:
                    self._hold(self._save, False)
        except StopRequested:
            session.request_stop()
            self._hold(partial(self._save, last=True), True)
            session.close()
            return session
        except PeerError:
            if session.t > self._tried:
                self._hold(partial(self._save, last=True), True)
            raise
        self._save(last=True)
        with suppress(StopRequested):  # all is done and written
            if session.finished == "rounds":
                self._wait_for_neighbours()
            else:
                # Neighbours may still wait for this round's parcels.
                self._transport.settle(None, _GOODBYE)
        session.close()
        return session

    def _observe(self, snapshot: Snapshot) -> None:
        state = self._session.state
        self.telemetry.model = state.x[0], float(snapshot.mass[0])
        if self._exp.evaluate.due(snapshot.t, self._exp.rounds):
            self._evaluate(state)

    @property
    def _roster_version(self) -> int:
        return (self._transport.offered() or self._transport.roster).version

    @property
    def _ahead(self) -> int:
        """Rounds that a process may get beyond a checkpoint, should the next one be damaged."""
        return 1 if self._most == 1 else 2 * self._most

    def _save(self, last: bool = False) -> None:
        """Write a checkpoint, or raise: neighbours keep parcels for the newest two only.

        It tells how far this process may get beyond it (`_ahead`).
        """
        begin, done = time.monotonic(), self._session.checkpoint()
        if not self._free:
            reached = max(self._reached, done.t + (1 if last else self._ahead))
            done = replace(done, wire={**done.wire, **reached_memory(reached)})
        self._tried = done.t
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._transport.save_roster()  # first: a checkpoint must not take its room
                self._sent.sync(file.number for file in files_in(done.wire))
                self._folder.save(done)
                break
            except OSError as error:
                why = error.strerror or error
                what = (
                    "roster, and so the checkpoint"
                    if self._transport.roster_unsaved
                    else ("checkpoint")
                )
                text = f"The {what} after round {done.t} cannot be written ({why})"
                if attempt == _ATTEMPTS:
                    raise PeerError(
                        f"{text}, tried {attempt} times, in {self._folder.path}. Older ones are "
                        "whole: make room, then start this peer again. Neighbours wait for it."
                    ) from error
                _log.warning("%s; trying again.", text)
                time.sleep(_PAUSE)
        if isinstance(self._wire, SyncWire):
            self._wire.saved(done.t)
            self._sent.keep(self._folder.files_named() | self._wire.files_needed())
        if self._disk is not None:
            self._disk.check()
        self._session.saved(done.t, time.monotonic() - begin)

    def _gather(self) -> None:
        """Give neighbours time to connect: a peer that never waits could be done before that."""
        for _ in range(round(_GATHER / _LOOK)):
            if all(link.up for link in self._transport.links()):
                break
            self._transport.wait_for_arrivals(_NO_NEWS, _LOOK)

    def _wait_for_neighbours(self) -> None:
        """Stay until neighbours are done: one that is started again asks for the last rounds."""
        transport, after = self._transport, self._exp.rounds + 1
        transport.skip(after)
        settled = transport.settle(None, _GOODBYE)
        answers = transport.receive_all(
            [Wanted(peer, after, 0) for peer in transport.roster.sources(transport.me)], _GOODBYE
        )
        self.telemetry.complete = settled and all(
            isinstance(answer, Skipped) for answer in answers.values()
        )

    def _evaluate(self, state: Any) -> None:
        port = self._session.port
        found: dict[str, Any] = {
            "round": port.t,
            "seconds": time.monotonic() - self.telemetry.began,
        }
        found["cpu_seconds"] = time.process_time()
        if self._row < port.network.clients:
            judged = port.problem.evaluate(state.x)
            own = {"loss": judged.loss, "accuracy": judged.accuracy} | dict(judged.more)
            found |= {name: None if one is None else _known(one[0]) for name, one in own.items()}
        found["consensus"] = self.telemetry.consensus
        kept = {name: getattr(state, name)[0] for name in judged_fields(self._exp.algorithm)}
        self._folder.measured(found, kept, port.ledger)
        self._session.evaluated([found])


def _known(value: float) -> float | None:
    """A number as a status has it: None where it is not known."""
    return None if math.isnan(value) else float(value)
