"""What a neighbour may cost: budgets that fill up with time, and with useful work.

Ordered parcels need no bucket: a receiver says how many it takes, and takes them at its own pace.
Everything else that a neighbour can send is limited here, far above what an honest one sends.
"""

from __future__ import annotations

from typing import Literal

from .buckets import Bucket
from .frames import FrameError
from .types import Settings

__all__ = ["Budget"]

What = Literal[
    "greeting", "ping", "answer", "roster", "cards", "refused", "useless", "latest", "bytes"
]  # fmt: skip


_FEW = 16  # members: cards of a smaller federation are no more of a burden


class Budget:
    """The buckets of one neighbour; they outlive its connections."""

    def __init__(self, settings: Settings, longest: int) -> None:
        beats = 2 / settings.heartbeat
        again = settings.retain + settings.outbox + settings.inbox  # what a restart sends again
        self._buckets: dict[What, Bucket] = {
            "greeting": Bucket(2, 120),  # each costs a handshake, and lines of the log
            "ping": Bucket(20 + beats, 100),
            "answer": Bucket(20 + beats, 200),
            "roster": Bucket(1, 16),
            # In cards of all members, with their frames: each has up to one for every card. Of each
            # member one in four seconds is passed on, first four at once.
            "cards": Bucket(1, 16),
            "refused": Bucket(10, 100 + again),
            # Parcels that came before, or for rounds that are over.
            "useless": Bucket(200, 400 + again),
            # Parcels of which only the newest counts, and promises: each waits for its answer, or
            # the connection ends. Two processes of one machine exchange 5,200 of 40 KB a second.
            "latest": Bucket(20_000, 40_000),
            "bytes": Bucket(1e6 + 4 * longest, 64e6 + again * longest),  # of refused and useless
        }

    def charge(self, what: What, now: float, size: int = 0, count: float = 1) -> None:
        """Take tokens, and `size` bytes; `FrameError` if there are none left."""
        debt = self._buckets[what].take(count, now)
        if size:
            debt += self._buckets["bytes"].take(size, now)
        if debt:
            raise FrameError("too_fast", what)

    def charge_cards(self, count: int, members: int, now: float) -> None:
        """Take what so many cards and frames of them are in a roster of so many members."""
        self.charge("cards", now, count=count / max(members, _FEW))

    def earn(self, what: What) -> None:
        """Give two tokens back: useful work makes more of these necessary."""
        self._buckets[what].earn(2)
