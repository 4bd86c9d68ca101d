"""The sending half of a link over one connection: outbox entries to frames, answers back.

    ready ----- a frame that asks for an answer -----> awaiting
    ready <---- its ACK, its REFUSE ------------------ awaiting

Ordered parcels are sent only while the other side has room: each answer says for how many more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from .edge import Edge
from .frames import FrameError, begin, encode, seal
from .outbox import Entry, Outbox
from .reasons import bounded
from .schemas import SEGMENT, VERSION, Kind
from .types import Parcel

__all__ = ["COPY_LIMIT", "Pieces", "Sender", "next_write"]

Pieces = list["bytes | memoryview"]
COPY_LIMIT = 65536  # bytes up to which pieces are copied together to leave in one write


class Sender:
    """Sends what the outbox holds, one frame at a time."""

    def __init__(self, outbox: Outbox, edge: Edge, incarnation: int, heartbeat: float) -> None:
        self._outbox, self._edge = outbox, edge
        self._incarnation, self._heartbeat = incarnation, heartbeat
        self.state: Literal["ready", "awaiting"] = "ready"
        self._asked = 0  # the number of the frame whose answer is awaited
        self.held_until = 0.0  # when a refused entry may be sent again; 0 if none waits for that
        # A long body under way: its parcel, its number, and how many bytes of it were sent.
        self._body: tuple[Parcel, int, int] | None = None
        self._room = 0
        self._ordered = deque[int]()  # numbers of ordered parcels sent since `_room` was told
        self._pinged = 0  # the answer to the last PING acknowledges all up to this number
        self._last = 0  # the number of what was sent last over this connection
        self._version = VERSION  # of the frames
        self._part = (0, 0)  # number and length of what the other side has of a parcel

    def resume(self, said: Mapping[str, Any], epoch: int, version: int) -> None:
        """Go on where the other side stands, by its greeting, in the version agreed on."""
        self._version = version
        inc, seq = said["last"]
        arrived = self._outbox.resume(
            self._incarnation, (inc, seq), said["incarnation"], said["want"], epoch
        )
        self._count(arrived)
        self._room = said["room"]
        mine, number, size = said["part"] if version >= 7 else (0, 0, 0)
        first = self._outbox.waiting[0] if self._outbox.waiting else None
        fits = first is not None and first.seq == number and 0 < size < first.size
        if mine == self._incarnation and fits and not size % SEGMENT:
            self._part = (number, size)

    @property
    def unanswered(self) -> bool:
        """Whether something was sent that is not answered yet."""
        return bool(self._outbox.last)

    def ask_all(self) -> None:
        """Note that a PING leaves now: its answer acknowledges all that was wholly sent before."""
        self._pinged = self._complete

    def all_answered(self, room: int) -> None:
        """Note the answer to the last PING."""
        self.acked(self._pinged, room)

    @property
    def _complete(self) -> int:
        """The number of the last parcel that was wholly sent over this connection."""
        return self._last if self._body is None else self._body[1] - 1

    @property
    def needs_ping(self) -> bool:
        """Whether a thread waits for an answer for which no frame under way asks."""
        return self.state == "ready" and self._outbox.answers_requested

    def next(self, now: float) -> Pieces:
        """The next frame, in the pieces in which it leaves; none if there is nothing to send."""
        if self._body is not None:
            return self._more(*self._body)
        if self.state == "awaiting" or now < self.held_until:
            return []
        self.held_until = 0.0
        if not self._outbox.waiting:
            return []
        entry = self._outbox.next(len(self._ordered) < self._room)
        if entry is None:
            return []
        self._last = entry.seq
        if entry.asks:
            self.state, self._asked = "awaiting", entry.seq
        order = {"epoch": entry.epoch, "incarnation": self._incarnation, "seq": entry.seq}
        if entry.parcel is None:
            return [encode(Kind.SKIP, {"round": entry.round, **order}, version=self._version)]
        if entry.mode == "ordered":
            self._ordered.append(entry.seq)
        (number, size), self._part = self._part, (0, 0)
        if number == entry.seq:
            return self._more(entry.parcel, number, size)
        return self._data(entry, entry.parcel, order)

    def _data(self, entry: Entry, parcel: Parcel, order: dict[str, int]) -> Pieces:
        place = {"channel": parcel.channel, "round": parcel.round, "mix_index": parcel.mix_index}
        how = {"mode": entry.mode, "ask": entry.asks, "length": len(parcel.body)}
        if len(parcel.body) > SEGMENT:
            self._body = (parcel, entry.seq, SEGMENT)
        header = {**place, **how, **order}
        return _pieces(Kind.DATA, header, parcel.body.data[:SEGMENT], self._version)

    def _more(self, parcel: Parcel, seq: int, at: int) -> Pieces:
        end = at + SEGMENT
        self._body = None if end >= len(parcel.body) else (parcel, seq, end)
        part = parcel.body.data[at:end]
        return _pieces(Kind.MORE, {"seq": seq, "at": at}, part, self._version)

    # -- answers

    def acked(self, seq: int, room: int) -> None:
        """Note that the other side has all up to `seq`, and takes `room` ordered parcels more."""
        if seq > self._complete:
            raise FrameError("out_of_turn", "an answer to what was not sent")
        self._settle(seq, room)
        if seq >= self._asked:
            self.state = "ready"

    def refused(self, seq: int, why: str, room: int, now: float) -> None:
        """Note that the other side refuses `seq` for good, but has everything before it."""
        if self.state != "awaiting" or seq != self._asked or self._body is not None:
            raise FrameError("out_of_turn", "a refusal of what does not ask")
        why = bounded(why)
        entry = self._outbox.under_way(seq)
        self._settle(seq - 1, room)
        if entry is not None:
            self._edge.count("sent", entry.size)
        self._edge.frames[f"refused_{why}"] += 1
        if why == "epoch_ahead":  # the entry waits until the other side adopts the roster
            self._outbox.again()
            self.held_until = now + self._heartbeat
            # It is sent again under its number; an answer under way does not speak for that.
            self._last, self._pinged = seq - 1, min(self._pinged, seq - 1)
        else:
            self._outbox.refused(seq, why)
        self._forget_ordered(seq)
        self.state = "ready"

    def _settle(self, seq: int, room: int) -> None:
        self._count(self._outbox.acked(seq))
        self._room = room
        self._forget_ordered(seq)

    def _forget_ordered(self, seq: int) -> None:
        while self._ordered and self._ordered[0] <= seq:
            self._ordered.popleft()

    def _count(self, arrived: Iterable[Entry]) -> None:
        for entry in arrived:
            self._edge.count("sent", entry.size)
            self._edge.count("acked", entry.size)


def _pieces(kind: Kind, header: Mapping[str, Any], body: memoryview, version: int) -> Pieces:
    if len(body) <= COPY_LIMIT:
        return [encode(kind, header, body, version)]
    start, digest = begin(kind, header, len(body), version)
    digest.update(body)
    return [start, body, seal(digest)]


def next_write(pieces: deque[bytes | memoryview]) -> memoryview:
    """Take off what to write next: small pieces together, a large one alone; empty if none."""
    if not pieces:
        return memoryview(b"")
    parts, size = [pieces.popleft()], 0
    while pieces and len(pieces[0]) < COPY_LIMIT and (size := size + len(parts[-1])) < COPY_LIMIT:
        parts.append(pieces.popleft())
    return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
