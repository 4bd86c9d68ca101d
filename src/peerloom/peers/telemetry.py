"""Telemetry of a running peer: one document for people, files and metrics; and its log."""

from __future__ import annotations

import logging
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core import Compressed, Delivery, Links, Part, RowWire, Tag
from ..core.events import (
    Alarm,
    Evaluated,
    Event,
    Finished,
    Late,
    LinkDown,
    LinkUp,
    PeerEvent,
    Refused,
    RelayChanged,
    RosterChanged,
    RoundDone,
    Saved,
    Started,
)
from ..errors import PeerloomError
from ..transport import Event as TransportEvent
from ..transport import LinkState, Transport
from .async_wire import AsyncWire
from .background import Background
from .disk import Disk
from .overview import members_of
from .status import WORKING, write_status
from .sync_wire import SyncWire

__all__ = ["StatusWriter", "Telemetry", "TimedWire", "link_event", "snapshot"]

_log = logging.getLogger("peerloom.peers")
_EVERY = 1.0  # seconds between two writes of the status file


@dataclass
class Telemetry:
    """What a row counts while it runs: an observer of its session, read by other threads."""

    row: int
    rounds: int
    channels: tuple[int, ...]  # those that rows travel on
    status: str = "running"
    first: int = 0  # the round it was started at
    round: int = 0  # the last one it finished
    began: float = field(default_factory=time.monotonic)
    compute_seconds: float = 0.0
    wait_seconds: float = 0.0
    waiting_since: float | None = None
    checkpoint_round: int = 0
    checkpoint_seconds: float = 0.0
    checkpoint_at: float | None = None
    last: dict[str, Any] = field(default_factory=dict)  # the last evaluation
    # The model after the last round, and how much it counts in the averaged one: for other threads.
    model: tuple[Tensor, float] | None = None
    consensus: float | None = None  # estimates, see `agreement`
    distance: float | None = None
    agreement_unknown: str = ""  # why there is no estimate, if that is not only too early
    complete: bool = False  # every round is done, here and at every neighbour
    _waited: float = 0.0  # seconds of mixings up to the last round

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Mark the time in which resources are measured; it is not counted as running."""
        self.status = "measuring"
        yield
        self.status, self.began = "running", time.monotonic()

    def observe(self, event: Event) -> None:
        """Count what a session tells."""
        match event:
            case Started(t):
                self.first = self.round = t
            case RoundDone(t, seconds):
                self.round = t
                self.compute_seconds += seconds - (self.wait_seconds - self._waited)
                self._waited = self.wait_seconds
            case Evaluated(_, metrics):
                self.last = dict(metrics)
            case Saved(t, seconds):
                self.checkpoint_round, self.checkpoint_seconds = t, seconds
                self.checkpoint_at = time.monotonic()
            case Finished(_, why):
                self.status = "done" if why == "rounds" else "stopped"


class TimedWire:
    """A wire that notes how long mixings take: sending, and above all waiting for neighbours."""

    def __init__(self, rows: RowWire, wire: SyncWire | AsyncWire, telemetry: Telemetry) -> None:
        self._rows, self._telemetry = rows, telemetry
        self.resume, self.memory = wire.resume, wire.memory

    def exchange(
        self,
        tag: Tag,
        links: Links,
        out: NDArray[np.int64],
        rows: Sequence[Tensor | Compressed],
        into: NDArray[np.int64],
        parts: tuple[Part, ...],
    ) -> Delivery:
        """Exchange over the wire below."""
        telemetry = self._telemetry
        telemetry.waiting_since = begin = time.monotonic()
        try:
            return self._rows.exchange(tag, links, out, rows, into, parts)
        finally:
            telemetry.wait_seconds += time.monotonic() - begin
            telemetry.waiting_since = None


def snapshot(
    transport: Transport, telemetry: Telemetry, disk: Disk | None = None
) -> dict[str, Any]:
    """Return everything that is known of a peer right now, as plain values."""
    now, since = time.monotonic(), telemetry.waiting_since
    running = telemetry.status == "running"
    return {
        "status": telemetry.status,
        "round": telemetry.round,
        "rounds": telemetry.rounds,
        "rounds_per_second": (telemetry.round - telemetry.first) / max(now - telemetry.began, 1e-9)
        if running
        else 0.0,
        "row": telemetry.row,
        "complete": telemetry.complete,
        "incarnation": transport.incarnation,
        "roster": {
            "version": transport.roster.version,
            "epoch": transport.roster.epoch,
            "members": len(transport.roster.members),
            "unsaved": transport.roster_unsaved,
            "expires": transport.roster.expires,
        },
        "seconds": {
            "running": now - telemetry.began,
            "compute": telemetry.compute_seconds,
            "wait": telemetry.wait_seconds,
            "waiting": 0.0 if since is None else now - since,
        },
        "checkpoint": {
            "round": telemetry.checkpoint_round,
            "seconds": telemetry.checkpoint_seconds,
            "age": None if telemetry.checkpoint_at is None else now - telemetry.checkpoint_at,
        },
        "peak_bytes": _peak_bytes(),
        "disk": {} if disk is None else {"used": disk.used(), "budget": disk.budget},
        "refusals": transport.refusals(),
        "last": telemetry.last,
        "agreement": {
            "consensus": telemetry.consensus,
            "distance": telemetry.distance,
            "unknown": telemetry.agreement_unknown,
        },
        "links": [_link(transport, telemetry, link) for link in transport.links()],
        "members": members_of(transport),
    }


def _peak_bytes() -> int:
    """Return the peak resident memory of this process."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _link(transport: Transport, telemetry: Telemetry, link: LinkState) -> dict[str, Any]:
    tally, rounds = (
        link.tally,
        [
            parcel.round
            for channel in telemetry.channels
            if (parcel := transport.newest(link.peer, channel))
        ],
    )
    return {
        "peer": link.name,
        "direction": link.direction,
        "up": link.up,
        "since": link.since,
        "rtt": link.rtt,
        "unacked_age": link.unacked_age,
        "lag": max(0, telemetry.round - max(rounds)) if rounds and link.direction == "in" else None,
        "frames": dict(link.frames),
        "bytes": dict(link.bytes),
        "reconnects": dict(link.reconnects),
        "pending": tally.pending,
        "imbalance": tally.created - tally.acked - tally.superseded - tally.refused - tally.pending,
        "congestion": link.congestion,
        "way": link.way,
    }


class StatusWriter(Background):
    """Writes the status file every second, and at the end once more with how the run ended."""

    def __init__(
        self, folder: Path, telemetry: Telemetry, read: Callable[[], dict[str, Any]]
    ) -> None:
        self._folder, self._telemetry, self._read = folder, telemetry, read
        self._trouble = False
        super().__init__("status", _EVERY)

    def __enter__(self) -> Self:
        self._write({})
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is not None and self._telemetry.status in WORKING:
            self._telemetry.status = (
                "failed" if isinstance(error, PeerloomError | OSError) else "stopped"
            )
        self._write({"error": str(error)} if self._telemetry.status == "failed" else {})

    def work(self) -> float:
        """Write once."""
        self._write({})
        return _EVERY

    def _write(self, more: dict[str, Any]) -> None:
        """Write the status. A full disk does not stop the peer here: checkpoints report it."""
        try:
            write_status(self._folder, self._read() | more)
            self._trouble = False
        except OSError as error:
            if not self._trouble:
                _log.warning("The status cannot be written: %s", error)
            self._trouble = True


_LINK_EVENTS = {
    each.kind: each
    for each in (LinkUp, LinkDown, Late, Refused, Alarm, RosterChanged, RelayChanged)
}


def link_event(event: TransportEvent) -> PeerEvent:
    """Return an event of the transport as an event of the run."""
    return _LINK_EVENTS[event.kind](event.peer, event.text, event.way)
