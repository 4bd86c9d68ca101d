"""What waits to be sent over one directed link. No thread, no socket, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .identity import short_id
from .types import Mode, OutboxFullError, Parcel, Receipt, Tally

__all__ = ["Entry", "Outbox"]

_SMALL = 65536  # bytes up to which an answer to each parcel costs more than it is worth


@dataclass
class Entry:
    """A parcel, or a promise to skip rounds; it gets its number when it is first sent."""

    round: int
    parcel: Parcel | None
    mode: Mode
    epoch: int
    receipt: Receipt
    created: float
    number: int = 0
    seq: int = 0
    asks: bool = True  # for an answer at once
    repeat: bool = False  # whether an earlier process had sent it

    @property
    def sent(self) -> bool:
        """Whether it may have reached the other side."""
        return self.seq > 0

    @property
    def size(self) -> int:
        """Bytes of the parcel's body."""
        return 0 if self.parcel is None else self.parcel.body.nbytes


class Outbox:
    """A queue, first in, first out; unsent entries may be superseded.

    Numbers are given in the order of sending, so (incarnation, seq) grows on the wire whatever was
    dropped in between.

    An answer to a small parcel costs nearly as much as the parcel. So only every `window`th small
    ordered parcel asks for one, which acknowledges all before it. Every parcel asks until the
    other side has taken the first of a connection, of an epoch, or after a refusal.
    """

    def __init__(
        self,
        peer: str,
        limit: int,
        retain: int,
        note: Callable[[str, Entry], None] = lambda what, entry: None,
        window: int = 1,
    ) -> None:
        self._peer, self._limit, self._note, self._window = peer, limit, note, window
        self._under_way = deque[Entry]()  # sent over this connection, not answered yet
        self.waiting = deque[Entry]()  # to be sent after them
        self._acked_epoch = -1  # of the last acked entry; -1: everything asks for an answer
        self._answers_requested = False
        self._retained: deque[Entry] = deque(maxlen=retain)
        self._latest: dict[int, Entry] = {}  # the last acked 'latest' parcel of each channel
        self._promise: Entry | None = None  # the last acked skip
        self._receiver = 0  # the incarnation of the receiver that acked them
        self._seq = 0
        self._created = self._acked = self._superseded = self._refused = 0

    def __iter__(self) -> Iterator[Entry]:
        yield from self._under_way
        yield from self.waiting

    @property
    def tally(self) -> Tally:
        """The account: created = acked + superseded + refused + pending."""
        pending = len(self._under_way) + len(self.waiting)
        return Tally(self._created, self._acked, self._superseded, self._refused, pending)

    def oldest(self) -> float | None:
        """When the oldest pending entry was created."""
        return min((entry.created for entry in self), default=None)

    # -- filling

    def put(
        self, parcel: Parcel, mode: Mode, epoch: int, now: float, repeat: bool = False
    ) -> Receipt:
        """Queue a parcel; with 'latest' it replaces an unsent one of its channel.

        Raises `OutboxFullError` if too many ordered parcels wait; a `repeat` is always taken.
        """
        if mode == "latest":
            channel = parcel.channel
            self._supersede(
                lambda e: e.mode == mode and e.parcel is not None and e.parcel.channel == channel
            )
        elif not repeat and self._full():
            raise OutboxFullError(
                f"{self._limit} parcels wait for {short_id(self._peer)}, as many as the settings "
                "allow. Withdraw old rounds, send with mode='latest', or raise Settings.outbox."
            )
        return self._append(
            Entry(parcel.round, parcel, mode, epoch, Receipt(self._peer), now, repeat=repeat)
        )

    def _full(self) -> bool:
        """Whether as many ordered parcels wait as may; repeats do not count."""
        if len(self._under_way) + len(self.waiting) < self._limit:
            return False
        return sum(entry.mode == "ordered" and not entry.repeat for entry in self) >= self._limit

    def skip(self, round: int, epoch: int, now: float) -> Receipt:
        """Queue the promise to send nothing up to this round; it replaces an unsent earlier one."""
        self._supersede(lambda entry: entry.parcel is None and entry.round <= round)
        return self._append(Entry(round, None, "latest", epoch, Receipt(self._peer), now))

    def withdraw(self, before_round: int) -> int:
        """Drop unsent parcels of older rounds."""
        return self._supersede(
            lambda entry: entry.parcel is not None and entry.round < before_round
        )

    def forget_epochs(self, before: int) -> None:
        """Refuse entries of past epochs, as every receiver would."""
        for box in (self._under_way, self.waiting):
            for entry in [entry for entry in box if entry.epoch < before]:
                box.remove(entry)
                self._refuse(entry, "stale_epoch")

    def forget_all(self, why: str) -> None:
        """Refuse everything: the link is gone."""
        for box in (self._under_way, self.waiting):
            while box:
                self._refuse(box.popleft(), why)

    # -- emptying

    def next(self, room: bool = True) -> Entry | None:
        """Number the entry to send now and count it as under way; ordered ones need `room`."""
        if not self.waiting or (not room and self.waiting[0].mode == "ordered"):
            return None
        entry = self.waiting.popleft()
        if not entry.sent:
            self._seq += 1
            entry.seq = self._seq
        self._under_way.append(entry)
        entry.asks = (
            self._answers_requested
            or entry.mode == "latest"
            or entry.size > _SMALL
            or entry.epoch != self._acked_epoch
            or len(self._under_way) >= self._window
        )
        return entry

    @property
    def last(self) -> int:
        """The number of the last unanswered entry; 0 if there is none."""
        return self._under_way[-1].seq if self._under_way else 0

    def under_way(self, seq: int) -> Entry | None:
        """The entry of this number, if it is under way."""
        return next((entry for entry in self._under_way if entry.seq == seq), None)

    @property
    def answers_requested(self) -> bool:
        """Whether a thread waits for the answer to what is under way."""
        return self._answers_requested and bool(self._under_way)

    def request_answers(self) -> None:
        """Ask for answers at once until nothing is pending."""
        self._answers_requested = True

    def acked(self, seq: int) -> list[Entry]:
        """Ack everything up to this number; the entries that were still open."""
        found = []
        while self._under_way and self._under_way[0].seq <= seq:
            found.append(self._under_way.popleft())
            self._ack(found[-1])
        if not (self._under_way or self.waiting):
            self._answers_requested = False
        return found

    def refused(self, seq: int, why: str) -> bool:
        """Refuse the first entry under way if it has this number; whether it had."""
        self._acked_epoch = -1
        if not self._under_way or self._under_way[0].seq != seq:
            return False
        self._refuse(self._under_way.popleft(), why)
        return True

    def again(self) -> None:
        """Queue everything under way to be sent again."""
        self._acked_epoch = -1
        while self._under_way:
            self.waiting.appendleft(self._under_way.pop())

    def _ack(self, entry: Entry) -> None:
        self._acked += 1
        self._acked_epoch = entry.epoch
        entry.receipt.outcome = "acked"
        self._note("ack", entry)
        if entry.parcel is None:
            self._promise = entry
        elif entry.mode == "latest":
            self._latest[entry.parcel.channel] = entry
        else:
            self._retained.append(entry)

    def resume(
        self, mine: int, last: tuple[int, int], receiver: int, want: int, epoch: int
    ) -> list[Entry]:
        """Go on over a new connection; return what arrived without our knowing, now acked.

        `mine` is our incarnation, `last` the (incarnation, seq) that the other side has of us,
        `receiver` its incarnation, `want` its round. A receiver that was restarted has lost what
        it had: it gets again the retained rounds from `want` on, the latest parcel of every
        channel, and the last promise.
        """
        self.again()
        arrived = list[Entry]()
        if last[0] == mine:
            while self.waiting and self.waiting[0].sent and self.waiting[0].seq <= last[1]:
                arrived.append(self.waiting.popleft())
                self._ack(arrived[-1])
            self._acked_epoch = -1
        restarted, self._receiver = self._receiver not in (0, receiver), receiver
        if restarted:
            self._repeat(want, epoch)
        return arrived

    def _repeat(self, want: int, epoch: int) -> None:
        """Queue again, before everything else, what a restarted receiver has lost."""
        for entry in self.waiting:
            # Its number may lie below those of the repeats; to a new process it is new anyway.
            entry.seq = 0
        present = {
            entry.parcel.channel
            for entry in self.waiting
            if entry.parcel is not None and entry.mode == "latest"
        }
        again = [entry for entry in self._retained if entry.round >= want]
        again += [entry for channel, entry in self._latest.items() if channel not in present]
        if self._promise is not None and self._promise.round >= want:
            again.append(self._promise)
        self._retained.clear()
        self._latest.clear()
        for entry in reversed([entry for entry in again if entry.epoch == epoch]):
            receipt = Receipt(self._peer)
            repeat = Entry(
                entry.round, entry.parcel, entry.mode, entry.epoch, receipt, entry.created
            )
            self._enter(repeat)
            self.waiting.appendleft(repeat)

    # -- inside

    def _append(self, entry: Entry) -> Receipt:
        self._enter(entry)
        self.waiting.append(entry)
        return entry.receipt

    def _enter(self, entry: Entry) -> None:
        self._created += 1
        entry.number = self._created
        self._note("put", entry)

    def _refuse(self, entry: Entry, why: str) -> None:
        self._refused += 1
        entry.receipt.outcome, entry.receipt.reason = "refused", why
        self._note("refuse", entry)

    def _supersede(self, matches: Callable[[Entry], bool]) -> int:
        old = [entry for entry in self.waiting if not entry.sent and matches(entry)]
        for entry in old:
            self.waiting.remove(entry)
            self._superseded += 1
            entry.receipt.outcome = "superseded"
            self._note("superseded", entry)
        return len(old)
