"""What waits to go over one directed link, and the account of it. Pure bookkeeping: no thread, no socket, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .types import Keep, OutboxFullError, Parcel, Receipt, Tally

__all__ = ["Entry", "Outbox"]


@dataclass
class Entry:
    """A parcel, or a promise to skip rounds, on its way. It gets its number when it is first sent."""

    round: int
    parcel: Parcel | None
    keep: Keep
    epoch: int
    receipt: Receipt
    created: float
    number: int = 0
    seq: int = 0

    @property
    def sent(self) -> bool:
        """Whether it may have reached the other side."""
        return self.seq > 0


class Outbox:
    """First in, first out, one at a time; what is not yet sent may be superseded.

    Numbers are given in the order of sending, so (incarnation, seq) grows on the wire whatever was dropped in between.
    """

    def __init__(
        self, peer: str, limit: int, retain: int, note: Callable[[str, Entry], None] = lambda what, entry: None
    ) -> None:
        self._peer, self._limit, self._note = peer, limit, note
        self._waiting: deque[Entry] = deque()
        self._retained: deque[Entry] = deque(maxlen=retain)
        self._latest: dict[int, Entry] = {}  # the last acked parcel of each channel where only the newest counts
        self._promise: Entry | None = None  # the last acked skip
        self._receiver = 0  # the incarnation of the other side that acked them
        self._seq = 0
        self._created = self._acked = self._superseded = self._refused = 0

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._waiting)

    @property
    def tally(self) -> Tally:
        """The account; balanced by construction of every method below, and tested to be."""
        return Tally(self._created, self._acked, self._superseded, self._refused, len(self._waiting))

    def oldest(self) -> float | None:
        """When the oldest waiting entry was created."""
        return min((entry.created for entry in self._waiting), default=None)

    # -- filling

    def put(self, parcel: Parcel, keep: Keep, epoch: int, now: float) -> Receipt:
        """Queue a parcel; with 'newest' it replaces an unsent one of its channel."""
        if keep == "newest":
            self._supersede(lambda e: e.keep == "newest" and e.parcel is not None and e.parcel.channel == parcel.channel)
        elif sum(entry.keep == "every" for entry in self._waiting) >= self._limit:
            raise OutboxFullError(
                f"{self._limit} parcels wait for {self._peer[:7]}, as many as the settings allow. Withdraw old rounds, "
                "send with keep='newest', or raise Settings.outbox."
            )
        return self._append(Entry(parcel.round, parcel, keep, epoch, Receipt(self._peer), now))

    def skip(self, round: int, epoch: int, now: float) -> Receipt:
        """Queue the promise to send nothing for rounds up to this one; it replaces an unsent earlier promise."""
        self._supersede(lambda entry: entry.parcel is None and entry.round <= round)
        return self._append(Entry(round, None, "newest", epoch, Receipt(self._peer), now))

    def withdraw(self, before_round: int) -> int:
        """Drop unsent parcels of older rounds."""
        return self._supersede(lambda entry: entry.parcel is not None and entry.round < before_round)

    def forget_epochs(self, before: int) -> None:
        """Refuse here what every receiver would refuse: entries of an epoch that is over."""
        for entry in [entry for entry in self._waiting if entry.epoch < before]:
            self._waiting.remove(entry)
            self._refuse(entry, "stale_epoch")

    def forget_all(self, why: str) -> None:
        """The link is gone for good."""
        while self._waiting:
            self._refuse(self._waiting.popleft(), why)

    # -- emptying

    def head(self) -> Entry | None:
        """The entry to send now, numbered."""
        if not self._waiting:
            return None
        entry = self._waiting[0]
        if not entry.sent:
            self._seq += 1
            entry.seq = self._seq
        return entry

    def acked(self, seq: int) -> bool:
        """The other side has it; whether that was still open."""
        entry = self._leave(seq)
        if entry is None:
            return False
        self._acked += 1
        entry.receipt.outcome = "acked"
        self._note("ack", entry)
        if entry.parcel is None:
            self._promise = entry
        elif entry.keep == "newest":
            self._latest[entry.parcel.channel] = entry
        else:
            self._retained.append(entry)
        return True

    def refused(self, seq: int, why: str) -> bool:
        """The other side will never take it; whether that was still open."""
        entry = self._leave(seq)
        if entry is None:
            return False
        self._refuse(entry, why)
        return True

    def resume(self, mine: int, last: tuple[int, int], receiver: int, want: int, epoch: int) -> None:
        """After a new connection: `last` is what the other side has of us, `receiver` its incarnation, `want` its round.

        What arrived without our knowing counts as acked. A receiver that was restarted has lost what it had, so it gets
        the retained rounds from `want` on, the newest of every channel, and the last promise once more.
        """
        if last[0] == mine:
            while self._waiting and self._waiting[0].sent and self._waiting[0].seq <= last[1]:
                self.acked(self._waiting[0].seq)
        restarted, self._receiver = self._receiver not in (0, receiver), receiver
        if not restarted:
            return
        for entry in self._waiting:
            entry.seq = 0  # its number may lie below those of the repeats; to a new life of the receiver it is new anyway
        present = {entry.parcel.channel for entry in self._waiting if entry.parcel is not None and entry.keep == "newest"}
        again = [entry for entry in self._retained if entry.round >= want]
        again += [entry for channel, entry in self._latest.items() if channel not in present]
        again += [self._promise] if self._promise is not None and self._promise.round >= want else []
        self._retained.clear()
        self._latest.clear()
        for entry in reversed([entry for entry in again if entry.epoch == epoch]):
            repeat = Entry(entry.round, entry.parcel, entry.keep, entry.epoch, Receipt(self._peer), entry.created)
            self._enter(repeat)
            self._waiting.appendleft(repeat)

    # -- inside

    def _append(self, entry: Entry) -> Receipt:
        self._enter(entry)
        self._waiting.append(entry)
        return entry.receipt

    def _enter(self, entry: Entry) -> None:
        self._created += 1
        entry.number = self._created
        self._note("put", entry)

    def _leave(self, seq: int) -> Entry | None:
        if self._waiting and self._waiting[0].sent and self._waiting[0].seq == seq:
            return self._waiting.popleft()
        return None

    def _refuse(self, entry: Entry, why: str) -> None:
        self._refused += 1
        entry.receipt.outcome, entry.receipt.reason = "refused", why
        self._note("refuse", entry)

    def _supersede(self, matches: Callable[[Entry], bool]) -> int:
        old = [entry for entry in self._waiting if not entry.sent and matches(entry)]
        for entry in old:
            self._waiting.remove(entry)
            self._superseded += 1
            entry.receipt.outcome = "superseded"
            self._note("superseded", entry)
        return len(old)
