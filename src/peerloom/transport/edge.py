"""One directed link as this peer sees it: whether it is up, since when, and what went over it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from .types import LinkState, Tally

__all__ = ["Edge"]


@dataclass
class Edge:
    """The state and the counters of one directed link; they outlive its connections."""

    peer: str
    direction: Literal["in", "out"]
    since: float
    up: bool = False
    rtt: float | None = None
    congestion: str = ""
    frames: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    reconnects: Counter[str] = field(default_factory=Counter)

    def count(self, result: str, size: int) -> None:
        """One more parcel with this result."""
        self.frames[result] += 1
        self.bytes[result] += size

    def state(self, name: str, now: float, unacked_age: float, tally: Tally) -> LinkState:
        """The link as it is now, for whoever asks."""
        return LinkState(
            self.peer,
            name,
            self.direction,
            self.up,
            now - self.since,
            self.rtt,
            unacked_age,
            dict(self.frames),
            dict(self.bytes),
            dict(self.reconnects),
            tally,
            self.congestion,
        )
