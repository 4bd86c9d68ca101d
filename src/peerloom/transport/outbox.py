"""What waits to go over one directed link, and the account of it. Pure bookkeeping: no thread, no socket, no clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .types import Mode, OutboxFullError, Parcel, Receipt, Tally

__all__ = ["Entry", "Outbox"]

_SMALL = 65536  # bytes of a parcel whose answer costs more than it tells


@dataclass
class Entry:
    """A parcel, or a promise to skip rounds, on its way. It gets its number when it is first sent."""

    round: int
    parcel: Parcel | None
    mode: Mode
    epoch: int
    receipt: Receipt
    created: float
    number: int = 0
    seq: int = 0
    asks: bool = True  # whether the other side is to answer at once
    repeat: bool = False  # whether an earlier process had sent it already

    @property
    def sent(self) -> bool:
        """Whether it may have reached the other side."""
        return self.seq > 0

    @property
    def size(self) -> int:
        """Of the parcel, in bytes."""
        return 0 if self.parcel is None else self.parcel.body.nbytes


class Outbox:
    """First in, first out; what is not yet sent may be superseded.

    Numbers are given in the order of sending, so (incarnation, seq) grows on the wire whatever was dropped in between.

    An answer to a small parcel costs nearly as much as the parcel. So of those of which every one counts only each
    `window`th asks for one, which then speaks for all before it; but all do until the other side has taken the first of a
    connection, of an epoch, or after a refusal.
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
        self._under_way: deque[Entry] = (
            deque()
        )  # sent over the present connection, not answered yet
        self.waiting: deque[Entry] = deque()  # those to be sent after them
        self._calm = -1  # the epoch of what the other side took last
        self._pressed = False
        self._retained: deque[Entry] = deque(maxlen=retain)
        self._latest: dict[
            int, Entry
        ] = {}  # the last acked parcel of each channel where only the latest counts
        self._promise: Entry | None = None  # the last acked skip
        self._receiver = 0  # the incarnation of the other side that acked them
        self._seq = 0
        self._created = self._acked = self._superseded = self._refused = 0

    def __iter__(self) -> Iterator[Entry]:
        yield from self._under_way
        yield from self.waiting

    @property
    def tally(self) -> Tally:
        """The account; balanced by construction of every method below, and tested to be."""
        pending = len(self._under_way) + len(self.waiting)
        return Tally(self._created, self._acked, self._superseded, self._refused, pending)

    def oldest(self) -> float | None:
        """When the oldest entry that is not settled was created."""
        return min((entry.created for entry in self), default=None)

    # -- filling

    def put(
        self, parcel: Parcel, mode: Mode, epoch: int, now: float, repeat: bool = False
    ) -> Receipt:
        """Queue a parcel; with 'latest' it replaces an unsent one of its channel. What is repeated is not limited."""
        if mode == "latest":
            self._supersede(
                lambda e: (
                    e.mode == "latest"
                    and e.parcel is not None
                    and e.parcel.channel == parcel.channel
                )
            )
        elif not repeat and self._full():
            raise OutboxFullError(
                f"{self._limit} parcels wait for {self._peer[:7]}, as many as the settings allow. Withdraw old rounds, "
                "send with mode='latest', or raise Settings.outbox."
            )
        return self._append(
            Entry(parcel.round, parcel, mode, epoch, Receipt(self._peer), now, repeat=repeat)
        )

    def _full(self) -> bool:
        """Whether as many ordered parcels wait as may; repeats of an earlier process do not count."""
        if len(self._under_way) + len(self.waiting) < self._limit:
            return False
        return sum(entry.mode == "ordered" and not entry.repeat for entry in self) >= self._limit

    def skip(self, round: int, epoch: int, now: float) -> Receipt:
        """Queue the promise to send nothing for rounds up to this one; it replaces an unsent earlier promise."""
        self._supersede(lambda entry: entry.parcel is None and entry.round <= round)
        return self._append(Entry(round, None, "latest", epoch, Receipt(self._peer), now))

    def withdraw(self, before_round: int) -> int:
        """Drop unsent parcels of older rounds."""
        return self._supersede(
            lambda entry: entry.parcel is not None and entry.round < before_round
        )

    def forget_epochs(self, before: int) -> None:
        """Refuse here what every receiver would refuse: entries of an epoch that is over."""
        for box in (self._under_way, self.waiting):
            for entry in [entry for entry in box if entry.epoch < before]:
                box.remove(entry)
                self._refuse(entry, "stale_epoch")

    def forget_all(self, why: str) -> None:
        """The link is gone for good."""
        for box in (self._under_way, self.waiting):
            while box:
                self._refuse(box.popleft(), why)

    # -- emptying

    def next(self, room: bool = True) -> Entry | None:
        """The entry to send now, numbered; from now on it is under way. Ordered parcels wait for room there."""
        if not self.waiting or (not room and self.waiting[0].mode == "ordered"):
            return None
        entry = self.waiting.popleft()
        if not entry.sent:
            self._seq += 1
            entry.seq = self._seq
        self._under_way.append(entry)
        entry.asks = (
            self._pressed
            or entry.mode == "latest"
            or entry.size > _SMALL
            or entry.epoch != self._calm
            or len(self._under_way) >= self._window
        )
        return entry

    @property
    def last(self) -> int:
        """The number of what was sent last and is not answered yet; 0 if there is nothing."""
        return self._under_way[-1].seq if self._under_way else 0

    def under_way(self, seq: int) -> Entry | None:
        """The entry of this number, if it is under way."""
        return next((entry for entry in self._under_way if entry.seq == seq), None)

    @property
    def pressed(self) -> bool:
        """Whether somebody waits for the answer to what is under way."""
        return self._pressed and bool(self._under_way)

    def press(self) -> None:
        """Ask for answers at once until nothing is pending any more."""
        self._pressed = True

    def acked(self, seq: int) -> list[Entry]:
        """The other side has everything up to this number; what of it was still open."""
        found = []
        while self._under_way and self._under_way[0].seq <= seq:
            found.append(self._under_way.popleft())
            self._ack(found[-1])
        self._pressed = self._pressed and bool(self._under_way or self.waiting)
        return found

    def refused(self, seq: int, why: str) -> bool:
        """The other side will never take it; whether that was still open."""
        self._calm = -1
        if not self._under_way or self._under_way[0].seq != seq:
            return False
        self._refuse(self._under_way.popleft(), why)
        return True

    def again(self) -> None:
        """Nothing that is under way arrives: it is to be sent once more."""
        self._calm = -1
        while self._under_way:
            self.waiting.appendleft(self._under_way.pop())

    def _ack(self, entry: Entry) -> None:
        self._acked += 1
        self._calm = entry.epoch
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
        """After a new connection: `last` is what the other side has of us, `receiver` its incarnation, `want` its round.

        What arrived without our knowing counts as acked, and is returned. A receiver that was restarted has lost what it
        had, so it gets the retained rounds from `want` on, the newest of every channel, and the last promise once more.
        """
        self.again()
        arrived = list[Entry]()
        if last[0] == mine:
            while self.waiting and self.waiting[0].sent and self.waiting[0].seq <= last[1]:
                arrived.append(self.waiting.popleft())
                self._ack(arrived[-1])
            self._calm = -1
        restarted, self._receiver = self._receiver not in (0, receiver), receiver
        if not restarted:
            return arrived
        for entry in self.waiting:
            entry.seq = 0  # its number may lie below those of the repeats; to a new life of the receiver it is new anyway
        present = {
            entry.parcel.channel
            for entry in self.waiting
            if entry.parcel is not None and entry.mode == "latest"
        }
        again = [entry for entry in self._retained if entry.round >= want]
        again += [entry for channel, entry in self._latest.items() if channel not in present]
        again += (
            [self._promise] if self._promise is not None and self._promise.round >= want else []
        )
        self._retained.clear()
        self._latest.clear()
        for entry in reversed([entry for entry in again if entry.epoch == epoch]):
            repeat = Entry(
                entry.round,
                entry.parcel,
                entry.mode,
                entry.epoch,
                Receipt(self._peer),
                entry.created,
            )
            self._enter(repeat)
            self.waiting.appendleft(repeat)
        return arrived

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
