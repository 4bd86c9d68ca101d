"""What was sent of late, remembered for neighbours that start again from older checkpoints than ours."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..transport import Receipt

__all__ = ["Sent", "SentLog"]


class Sent(NamedTuple):
    """One parcel as it was sent."""

    row: int  # of the receiver
    round: int
    turn: int
    body: NDArray[np.floating]


@dataclass
class _Entry:
    sent: Sent
    receipt: Receipt
    open: int  # the last round in which it was not acknowledged yet


class SentLog:
    """Parcels in the order of sending. One is forgotten some rounds after its receiver had it: when that goes back to a
    checkpoint of its own, it may need it once more. One that is still under way is never forgotten, however long ago it was
    sent: after a crash here nobody else has it.
    """

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._entries: dict[int, _Entry] = {}
        self._open: list[int] = []  # those that were not acknowledged yet when last looked at,
        self._closed: deque[int] = deque()  # and the others, in the order in which they were
        self._count = 0

    def add(self, sent: Sent, receipt: Receipt, now: int) -> None:
        """Remember a parcel that is sent in round `now`, perhaps not for the first time."""
        self._count += 1
        self._entries[self._count] = _Entry(sent, receipt, now)
        self._open.append(self._count)

    def forget(self, now: int) -> None:
        """Forget what nobody can need any more in round `now`. The hundreds that stay are not looked at."""
        entries, still = self._entries, list[int]()
        for number in self._open:
            if entries[number].receipt.outcome == "pending":
                entries[number].open = now
                still.append(number)
            else:
                self._closed.append(number)
        self._open = still
        while self._closed and entries[self._closed[0]].open <= now - self._rounds:
            del entries[self._closed.popleft()]

    def until(self, t: int) -> list[Sent]:
        """What was sent for rounds up to t."""
        return [entry.sent for entry in self._entries.values() if entry.sent.round <= t]
