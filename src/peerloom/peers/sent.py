"""What was sent recently, for neighbours that start again from an older checkpoint."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import NamedTuple

from ..transport import Body, Receipt

__all__ = ["Sent", "SentLog"]


class Sent(NamedTuple):
    """One parcel as it was sent."""

    row: int  # of the receiver
    round: int
    mix_index: int
    body: Body


class SentLog:
    """Per receiver, in order: the last `keep` acknowledged parcels, and all that are pending.

    A receiver that goes back to a checkpoint may need again what it acknowledged since then. The
    log counts parcels, not rounds, so it suffices however seldom a link fires and however long the
    receiver is away. A pending parcel is never forgotten: after a crash here nobody else has it.
    What an earlier process sent counts like what this one sends, so restarts do not make the log
    longer.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._pending: defaultdict[int, deque[tuple[Sent, Receipt]]] = defaultdict(deque)
        self._acknowledged: defaultdict[int, deque[Sent]] = defaultdict(
            lambda: deque(maxlen=self._keep)
        )

    def add(self, sent: Sent, receipt: Receipt) -> None:
        """Remember a parcel that is sent now, perhaps not for the first time."""
        self._pending[sent.row].append((sent, receipt))

    def forget(self) -> None:
        """Forget what nobody can need any more; parcels of a link are settled in order."""
        for row, pending in self._pending.items():
            while pending and pending[0][1].outcome != "pending":
                self._acknowledged[row].append(pending.popleft()[0])

    def bodies(self) -> Iterator[Body]:
        """Yield the body of every parcel that is remembered."""
        for row, pending in self._pending.items():
            yield from (sent.body for sent in self._acknowledged[row])
            yield from (sent.body for sent, _ in pending)

    def until(self, t: int) -> list[Sent]:
        """What was sent for rounds up to t, receiver by receiver, each in the order of sending."""
        found = []
        for row, pending in self._pending.items():
            found += [sent for sent in self._acknowledged[row] if sent.round <= t]
            found += [sent for sent, _ in pending if sent.round <= t]
        return found
