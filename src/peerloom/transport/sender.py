"""The sending half of a link over one connection: entries of the outbox to frames, answers to the outbox.

    ready ----- a frame that asks for an answer -----> awaiting
    ready <---- its ACK, its REFUSE ------------------ awaiting

Ordered parcels are sent only while the other side has room: every answer says how many more it takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from .edge import Edge
from .frames import SEGMENT, FrameError, Kind, begin, encode, seal
from .outbox import Entry, Outbox
from .reasons import bounded
from .types import Parcel

__all__ = ["JOIN", "Pieces", "Sender", "next_write"]

Pieces = list["bytes | memoryview"]
JOIN = 65536  # bytes that are worth a copy if they then leave in one write


class Sender:
    """Sends what the outbox holds, one frame at a time."""

    def __init__(self, outbox: Outbox, edge: Edge, incarnation: int, heartbeat: float) -> None:
        self._outbox, self._edge = outbox, edge
        self._incarnation, self._heartbeat = incarnation, heartbeat
        self.state: Literal["ready", "awaiting"] = "ready"
        self._asked = 0  # the number of the frame whose answer is awaited
        self._held_until = 0.0
        self._body: tuple[Parcel, int, int] | None = (
            None  # a long one under way, its number, and how much has left
        )
        self._room = 0
        self._ordered = deque[
            int
        ]()  # numbers of the ordered parcels sent since the other side said how much room it has
        self._pinged = 0  # the number for which, and for all before it, the answer to a PING speaks
        self._last = 0  # the number of what was sent last over this connection

    def resume(self, said: Mapping[str, Any], epoch: int) -> None:
        """Begin where the other side stands, by its own word."""
        inc, seq = said["last"]
        arrived = self._outbox.resume(
            self._incarnation, (inc, seq), said["incarnation"], said["want"], epoch
        )
        self._count(arrived)
        self._room = said["room"]

    @property
    def unsettled(self) -> bool:
        """Whether something was sent that is not answered for yet."""
        return bool(self._outbox.last)

    def ask_all(self) -> None:
        """A PING leaves now: its answer speaks for all that was wholly sent before it."""
        self._pinged = self._complete

    def all_answered(self, room: int) -> None:
        """Its PONG is here."""
        self.acked(self._pinged, room)

    @property
    def _complete(self) -> int:
        """The number of the last parcel that was wholly sent over this connection."""
        return self._last if self._body is None else self._body[1] - 1

    @property
    def held_until(self) -> float:
        """A moment at which something can be sent that cannot now; 0 if there is none."""
        return self._held_until

    @property
    def presses(self) -> bool:
        """Whether somebody waits for an answer that nothing that was sent asks for."""
        return self.state == "ready" and self._outbox.pressed

    def next(self, now: float) -> Pieces:
        """The next frame in the pieces in which it leaves; none if there is nothing to send for now."""
        if self._body is not None:
            return self._more(*self._body)
        if self.state == "awaiting" or now < self._held_until:
            return []
        self._held_until = 0.0
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
            return [encode(Kind.SKIP, {"round": entry.round, **order})]
        if entry.mode == "ordered":
            self._ordered.append(entry.seq)
        return self._data(entry, entry.parcel, order)

    def _data(self, entry: Entry, parcel: Parcel, order: dict[str, int]) -> Pieces:
        place = {"channel": parcel.channel, "round": parcel.round, "mix_index": parcel.mix_index}
        how = {"mode": entry.mode, "ask": entry.asks, "length": len(parcel.body)}
        if len(parcel.body) > SEGMENT:
            self._body = (parcel, entry.seq, SEGMENT)
        return _pieces(Kind.DATA, {**place, **how, **order}, parcel.body.data[:SEGMENT])

    def _more(self, parcel: Parcel, seq: int, at: int) -> Pieces:
        end = at + SEGMENT
        self._body = None if end >= len(parcel.body) else (parcel, seq, end)
        return _pieces(Kind.MORE, {"seq": seq, "at": at}, parcel.body.data[at:end])

    # -- answers

    def acked(self, seq: int, room: int) -> None:
        """The other side has everything up to this number, and takes `room` ordered parcels after it."""
        if seq > self._complete:
            raise FrameError("out_of_turn", "an answer to what was not sent")
        self._settle(seq, room)
        if seq >= self._asked:
            self.state = "ready"

    def refused(self, seq: int, why: str, room: int, now: float) -> None:
        """It will never take this one, but has everything before it."""
        if self.state != "awaiting" or seq != self._asked or self._body is not None:
            raise FrameError("out_of_turn", "a refusal of what does not ask")
        why = bounded(why)
        entry = self._outbox.under_way(seq)
        self._settle(seq - 1, room)
        if entry is not None:
            self._edge.count("sent", entry.size)
        self._edge.frames[f"refused_{why}"] += 1
        if (
            why == "epoch_ahead"
        ):  # the other side adopts the roster in its own time; the entry waits
            self._outbox.again()
            self._held_until = now + self._heartbeat
            # It will be sent once more under its number, of which an answer that is still under way knows nothing.
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


def _pieces(kind: Kind, header: Mapping[str, Any], body: memoryview) -> Pieces:
    if len(body) <= JOIN:
        return [encode(kind, header, body)]
    start, digest = begin(kind, header, len(body))
    digest.update(body)
    return [start, body, seal(digest)]


def next_write(pieces: deque[bytes | memoryview]) -> memoryview:
    """Take off what is to be written next: small pieces together, a large one alone, nothing if there is none."""
    if not pieces:
        return memoryview(b"")
    parts, size = [pieces.popleft()], 0
    while pieces and len(pieces[0]) < JOIN and (size := size + len(parts[-1])) < JOIN:
        parts.append(pieces.popleft())
    return memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
