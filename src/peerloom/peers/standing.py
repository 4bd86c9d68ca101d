"""How a running peer stands: what it counts while it works, as one document for people, files and metrics."""

from __future__ import annotations

import logging
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core import Cargo, Delivery, Links
from ..core.events import Evaluated, Event, RoundDone, Saved, Started
from ..errors import PeerloomError
from ..transport import LinkState, Post
from .background import Background
from .free import FreeWire
from .status import WORKING, write_status
from .wire import PostWire

__all__ = ["Gauges", "Herald", "TimedWire", "standing"]

_log = logging.getLogger("peerloom.peers")
_EVERY = 1.0  # seconds between two words on how a peer stands


@dataclass
class Gauges:
    """What a row counts while it runs. One thread writes; others read whenever they like."""

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
    model: Tensor | None = None  # as it is after the last round
    consensus: float | None = None  # estimates, see `agreement`
    distance: float | None = None
    _waited: float = 0.0  # seconds of mixings up to the last round

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """How able the peer is: before its rounds begin, and not counted among their seconds."""
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
                self.checkpoint_round, self.checkpoint_seconds, self.checkpoint_at = t, seconds, time.monotonic()


class TimedWire:
    """A wire that notes how long mixings take: sending, and above all waiting for neighbours."""

    def __init__(self, wire: PostWire | FreeWire, gauges: Gauges) -> None:
        self._wire, self._gauges = wire, gauges
        self.resume, self.memory = wire.resume, wire.memory

    def swap(
        self,
        tag: tuple[int, int],
        links: Links,
        out: NDArray[np.int64],
        payload: Tensor,
        into: NDArray[np.int64],
        cargo: tuple[Cargo, ...],
    ) -> Delivery:
        """As the wire below does it."""
        gauges = self._gauges
        gauges.waiting_since = begin = time.monotonic()
        try:
            return self._wire.swap(tag, links, out, payload, into, cargo)
        finally:
            gauges.wait_seconds += time.monotonic() - begin
            gauges.waiting_since = None


def standing(post: Post, gauges: Gauges) -> dict[str, Any]:
    """Everything that is known of a peer right now, as plain values."""
    now, since = time.monotonic(), gauges.waiting_since
    running = gauges.status == "running"
    return {
        "status": gauges.status,
        "round": gauges.round,
        "rounds": gauges.rounds,
        "rounds_per_second": (gauges.round - gauges.first) / max(now - gauges.began, 1e-9) if running else 0.0,
        "row": gauges.row,
        "incarnation": post.incarnation,
        "roster": {"version": post.roster.version, "epoch": post.roster.epoch, "members": len(post.roster.members)},
        "seconds": {
            "running": now - gauges.began,
            "compute": gauges.compute_seconds,
            "wait": gauges.wait_seconds,
            "waiting": 0.0 if since is None else now - since,
        },
        "checkpoint": {
            "round": gauges.checkpoint_round,
            "seconds": gauges.checkpoint_seconds,
            "age": None if gauges.checkpoint_at is None else now - gauges.checkpoint_at,
        },
        "peak_bytes": _peak_bytes(),
        "refusals": post.refusals(),
        "last": gauges.last,
        "agreement": {"consensus": gauges.consensus, "distance": gauges.distance},
        "links": [_link(post, gauges, link) for link in post.links()],
    }


def _peak_bytes() -> int:
    """The most memory that this process had so far."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _link(post: Post, gauges: Gauges, link: LinkState) -> dict[str, Any]:
    tally, rounds = link.tally, [parcel.round for channel in gauges.channels if (parcel := post.newest(link.peer, channel))]
    return {
        "peer": link.name,
        "direction": link.direction,
        "up": link.up,
        "since": link.since,
        "rtt": link.rtt,
        "unacked_age": link.unacked_age,
        "lag": max(0, gauges.round - max(rounds)) if rounds and link.direction == "in" else None,
        "frames": dict(link.frames),
        "bytes": dict(link.bytes),
        "reconnects": dict(link.reconnects),
        "pending": tally.pending,
        "imbalance": tally.created - tally.acked - tally.superseded - tally.refused - tally.pending,
        "congestion": link.congestion,
    }


class Herald(Background):
    """Writes down every second how a peer stands, also while it waits for others; its last word says how it ended."""

    def __init__(self, folder: Path, gauges: Gauges, look: Callable[[], dict[str, Any]]) -> None:
        self._folder, self._gauges, self._look = folder, gauges, look
        self._trouble = False
        super().__init__("herald", _EVERY)

    def __enter__(self) -> Self:
        self._write({})
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        if error is not None and self._gauges.status in WORKING:
            self._gauges.status = "failed" if isinstance(error, PeerloomError | OSError) else "stopped"
        self._write({"error": str(error)} if self._gauges.status == "failed" else {})

    def work(self) -> float:
        """Write once."""
        self._write({})
        return _EVERY

    def _write(self, more: dict[str, Any]) -> None:
        """A status that cannot be written (a full disk) stops nobody: whatever is wrong shows where it matters."""
        try:
            write_status(self._folder, self._look() | more)
            self._trouble = False
        except OSError as error:
            if not self._trouble:
                _log.warning("The status cannot be written: %s", error)
            self._trouble = True
