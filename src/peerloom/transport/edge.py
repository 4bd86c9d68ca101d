"""Parts of the link table: one directed link, and the threads that wait for a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from .types import Body, LinkState, Tally

__all__ = ["Arrival", "Edge", "Waiters"]


@dataclass
class Arrival:
    """A parcel as it comes in; one that is not wanted has no body, and perhaps a reason."""

    header: dict[str, Any]
    body: Body | None = None
    why: str = ""
    filled: int = 0

    @property
    def length(self) -> int:
        """Bytes of the whole body."""
        return int(self.header["length"])

    @property
    def place(self) -> list[int]:
        """How a greeting names what is there of it: incarnation, seq, bytes."""
        return [self.header["incarnation"], self.header["seq"], self.filled]


@dataclass
class Edge:
    """State and counters of one directed link; they outlive its connections."""

    peer: str
    direction: Literal["in", "out"]
    since: float
    up: bool = False
    was_up: bool = False  # at any time of this process
    rtt: float | None = None
    congestion: str = ""
    version: int = 0  # of the protocol, on the last connection
    way: str = ""
    frames: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    reconnects: Counter[str] = field(default_factory=Counter)
    part: Arrival | None = None  # a parcel that was coming when the last connection was lost

    def count(self, result: str, size: int) -> None:
        """Count one more parcel with this result."""
        self.frames[result] += 1
        self.bytes[result] += size

    def state(self, name: str, now: float, unacked_age: float, tally: Tally) -> LinkState:
        """The link as it is now, as a value."""
        return LinkState(
            peer=self.peer,
            name=name,
            direction=self.direction,
            up=self.up,
            since=now - self.since,
            rtt=self.rtt,
            unacked_age=unacked_age,
            frames=dict(self.frames),
            bytes=dict(self.bytes),
            reconnects=dict(self.reconnects),
            tally=tally,
            congestion=self.congestion,
            version=self.version,
            way=self.way if self.up else "",
        )


class Waiters:
    """Waiting threads: how to wake each, and when an arrival is worth it.

    The table's lock guards all of it.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], None], Callable[[], bool]]] = []
        self.version = 0  # grows with every change that a waiting thread may want to see

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @contextmanager
    def waiting(self, wake: Callable[[], None], ready: Callable[[], bool]) -> Iterator[None]:
        """Register a waiting thread: `wake` is called on a change, or an arrival if `ready`."""
        entry = (wake, ready)
        self._waiting.append(entry)
        try:
            yield
        finally:
            self._waiting.remove(entry)

    def wake_all(self) -> None:
        """Wake every thread: something changed that all must see."""
        self.version += 1
        for wake, _ in self._waiting:
            wake()

    def arrived(self) -> None:
        """Wake the threads for which this arrival or answer was the last one missing."""
        self.version += 1
        for wake, ready in self._waiting:
            if ready():
                wake()
