"""All that is said over one connection: frames come in, frames go out, time is an argument. No socket, no clock, no TLS.

    greeting ---- HELLO_OK ---> up          who dialled: HELLO is its first word
    expecting --- HELLO ------> up          who was dialled
    up ---------- leave() ----> leaving     BYE is the last word; answers to what was sent may still come
    any --------- BYE, REFUSE of the greeting, the driver ---> closed

A driver over sockets, memory or a relay puts what came into `buffer()` and says `received(count, now)`; it writes
`outgoing(now)` and says `sent(count)`; and it calls `tick(now)` at `deadline()` at the latest. Frames are never cut: an
answer waits until the frame under way is out, which is at most one segment of a body.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

from .edge import Edge
from .frames import FrameError, Head, Kind, encode
from .links import LinkTable
from .parser import Frame, Parser
from .reasons import FAREWELLS, bounded
from .receiver import Receiver
from .sender import JOIN, Sender, next_write
from .types import RefusedError

__all__ = ["Conversation", "RefusedByPeerError", "State"]

State = Literal["greeting", "expecting", "up", "leaving", "closed"]

_TALK = (
    Kind.DATA,
    Kind.MORE,
    Kind.SKIP,
    Kind.ACK,
    Kind.REFUSE,
    Kind.PING,
    Kind.PONG,
    Kind.ROSTER,
    Kind.BYE,
)
MAY_COME: dict[State, tuple[Kind, ...]] = {
    "greeting": (Kind.HELLO_OK, Kind.REFUSE),
    "expecting": (Kind.HELLO,),
    "up": _TALK,
    "leaving": _TALK,
    "closed": (),
}
"""What the other side may say in each state; anything else ends the connection."""

_NS = 1_000_000_000
# More than what comes with one read can ask for: a peer that asks on without reading is cut off.
_MOST_ANSWERS = 1024
_MOST_OLD_ROSTERS = 8  # over one connection


class RefusedByPeerError(ConnectionError):
    """The other side does not want this connection; `why` is its word."""

    def __init__(self, why: str) -> None:
        super().__init__(f"refused by the other side: {why}")
        self.why = bounded(why)


class Conversation:
    """One connection with one peer, whose key is proved; it carries the links of both directions."""

    def __init__(self, table: LinkTable, peer: str, dialled: bool, now: float) -> None:
        self._table, self.peer = table, peer
        self.state: State = "greeting" if dialled else "expecting"
        self.attempt, self.was_up = 0, False
        settings = table.settings
        with table.lock:
            self._out_edge: Edge | None = table.edges.get(("out", peer))
            self._in_edge: Edge | None = table.edges.get(("in", peer))
            self.sender = None
            if self._out_edge is not None:
                self.sender = Sender(
                    table.outboxes[peer], self._out_edge, table.incarnation, settings.heartbeat
                )
            self.receiver = None if self._in_edge is None else Receiver(table, peer)
        self._parser = Parser(self._admit)
        self.buffer = self._parser.buffer
        self._answers, self._pieces = deque[bytes](), deque[bytes | memoryview]()
        self._out = memoryview(b"")
        self._spoke = self._heard = (
            now  # when something was last said other than an answer, and when anything was heard
        )
        self._patience = settings.dead
        # The stamp of a PING that has no answer yet, when it left, and whether its answer has no parcels to wait for.
        self._asked: tuple[int, float, bool] | None = None
        self._old_rosters = 0  # that the other side brought
        self._roster_there = 0  # the newest version that the other side is known to have
        self._farewell, self._said_goodbye = "", False
        self.news = False  # whether something came that others may wait for
        if dialled:
            self._greet()

    # -- coming in

    def received(self, count: int, now: float) -> None:
        """So many bytes were put into the buffer. Raises `FrameError` or `ConnectionError` if that ends the connection."""
        self._heard = now
        try:
            self._parser.advance(count)
            while (frame := self._parser.next()) is not None:
                self._take(frame, now)
        except FrameError as error:
            # A later version may still read this answer, and tell its people.
            if error.reason == "protocol_version" and self.state == "expecting":
                self._answers.append(
                    encode(Kind.REFUSE, {"seq": 0, "why": error.reason, "room": 0})
                )
            raise

    def _admit(self, head: Head, header: dict[str, Any]) -> memoryview | None:
        if self.state == "closed":
            return None
        self._check(head.kind)
        if head.kind is Kind.ROSTER:
            return memoryview(bytearray(head.body_length))
        if self.receiver is None:
            raise FrameError("out_of_turn", head.kind.name)
        return self.receiver.admit(head, header)

    def _check(self, kind: Kind) -> None:
        if kind not in MAY_COME[self.state]:
            raise FrameError("out_of_turn", kind.name)

    def _take(self, frame: Frame, now: float) -> None:
        if self.state == "closed":
            return  # it was replaced, or has said goodbye: what follows is nobody's
        kind, header = frame.kind, frame.header
        self._check(kind)
        if len(self._answers) > _MOST_ANSWERS:
            raise FrameError("out_of_turn", "more is asked than is listened to")
        if kind in (Kind.DATA, Kind.MORE, Kind.SKIP):
            self._take_parcel(frame)
        elif kind in (Kind.ACK, Kind.REFUSE, Kind.PONG):
            with self._table.lock:
                self._take_answer(kind, header, now)
        elif kind is Kind.PING:
            with self._table.lock:
                if self.receiver is not None and self.receiver.dropped:
                    # A PONG would speak for a parcel that was not taken.
                    raise ConnectionError("a link is gone, and a parcel of it with it")
                room = self._room()
                self._answers.append(encode(Kind.PONG, {"stamp": header["stamp"], "room": room}))
        elif kind is Kind.ROSTER:
            self._take_roster(bytes(frame.body))
        elif kind is Kind.BYE:
            self.state = "closed"
            if header["why"] in FAREWELLS:
                self._table.refuse(self.peer, f"by_peer_{header['why']}")
        else:
            with self._table.lock:
                self._take_greeting(kind, header, now)

    def _take_roster(self, data: bytes) -> None:
        known = self._table.newest.version
        there = self._table.brought(data)
        self._roster_there = max(self._roster_there, there)
        if there <= known:  # two that cross are no fault, but a signature costs more than a parcel
            self._old_rosters += 1
            if self._old_rosters > _MOST_OLD_ROSTERS:
                raise FrameError("out_of_turn", "rosters that are known")

    def _take_parcel(self, frame: Frame) -> None:
        receiver = self.receiver
        if receiver is None:
            raise FrameError("out_of_turn", frame.kind.name)
        if frame.kind is Kind.SKIP:
            with self._table.lock:
                answer = receiver.skip(frame.header)
        else:
            arrival = receiver.gathered(
                frame
            )  # which judges a whole body: others need not wait for that
            if arrival is None:
                return
            with self._table.lock:
                answer = receiver.apply(arrival)
        self.news = True
        if answer:
            self._answers.append(answer)

    def _take_answer(self, kind: Kind, header: dict[str, Any], now: float) -> None:
        if kind is Kind.REFUSE and not header["seq"]:
            raise RefusedByPeerError(header["why"])
        sender = self.sender
        if kind is Kind.PONG:
            self._take_pong(header, now)
        elif sender is None:
            raise FrameError("out_of_turn", kind.name)
        elif kind is Kind.ACK:
            sender.acked(header["seq"], header["room"])
        else:
            sender.refused(header["seq"], header["why"], header["room"], now)
        self.news = True

    def _take_pong(self, header: dict[str, Any], now: float) -> None:
        if self._asked is None or header["stamp"] != self._asked[0]:
            raise FrameError("out_of_turn", "PONG")
        _, when, alone = self._asked
        self._asked = None
        if alone:
            self._time(now - when)
        if self.sender is not None:
            self.sender.all_answered(header["room"])

    # -- greeting

    def _greet(self) -> None:
        with self._table.lock:
            hello = self._table.greetings.hello(self.peer)
            self.attempt = hello["attempt"]
            self._answers.append(encode(Kind.HELLO, {**hello, "room": self._room()}))

    def _take_greeting(self, kind: Kind, header: dict[str, Any], now: float) -> None:
        table = self._table
        try:
            if kind is Kind.HELLO:
                answer = table.greetings.accept(self, header)
                self._answers.append(encode(Kind.HELLO_OK, {**answer, "room": self._room()}))
            else:
                table.greetings.accepted(self, header, self.attempt)
                self._time(now - self._spoke)
        except RefusedError as refusal:
            self._answers.append(encode(Kind.REFUSE, {"seq": 0, "why": refusal.why, "room": 0}))
            raise
        self.state, self.was_up = "up", True
        self._roster_there = header["roster_version"]
        if self.receiver is not None:
            self.receiver.greeted(header["incarnation"])
        if self.sender is not None:
            self.sender.resume(header, table.roster.epoch)
        if kind is Kind.HELLO:  # who dialled knows from its greeting how long an answer takes
            self._answers.append(self._ping(now))
        table.went_up(self.peer)

    def _room(self) -> int:
        return 0 if self.receiver is None else self.receiver.room()

    def _time(self, seconds: float) -> None:
        seconds = min(
            seconds, self._table.settings.dead
        )  # who answers late must not be waited for ever longer
        for edge in self.edges:
            edge.rtt = seconds if edge.rtt is None else 0.875 * edge.rtt + 0.125 * seconds
            self._patience = max(self._table.settings.dead, 10 * edge.rtt)

    # -- going out

    def outgoing(self, now: float) -> memoryview:
        """What to write next; empty if there is nothing for now."""
        if not self._out:
            if not self._pieces:
                with self._table.lock:
                    self._gather(now)
            self._out = next_write(self._pieces)
        return self._out

    def sent(self, count: int) -> None:
        """So many bytes of it were written."""
        self._out = self._out[count:]

    def _gather(self, now: float) -> None:
        """Queue the frames to be written now: answers, then, once greeted, whatever is due."""
        pieces, size = self._pieces, 0
        if self._answers:
            pieces.extend(self._answers)
            self._answers.clear()
        if self._said_goodbye or self.state not in ("up", "leaving"):
            return
        if self._roster_there < self._table.newest.version:
            self._roster_there = self._table.newest.version
            pieces.append(encode(Kind.ROSTER, {}, self._table.newest.to_bytes()))
        if self.state == "leaving":
            self._take_leave(now)
            return
        if self.receiver is not None and self.receiver.starved():
            pieces.append(self.receiver.grant())
        while self.sender is not None and size < JOIN and (frame := self.sender.next(now)):
            pieces.extend(frame)
            size += sum(map(len, frame))
            self._spoke = now
        quiet = now >= self._spoke + self._table.settings.heartbeat
        if self._asked is None and (quiet or (self.sender is not None and self.sender.presses)):
            pieces.append(self._ping(now))
        elif quiet and self.receiver is not None:
            # The answer to the last PING may come behind much else: the other side is to hear that we are here.
            pieces.append(self.receiver.grant())
            self._spoke = now

    def _ping(self, now: float) -> bytes:
        stamp = int(now * _NS)
        self._asked, self._spoke = (
            (stamp, now, self.sender is None or not self.sender.unsettled),
            now,
        )
        if self.sender is not None:
            self.sender.ask_all()
        return encode(Kind.PING, {"stamp": stamp})

    def _take_leave(self, now: float) -> None:
        if self._asked is None and self.sender is not None and self.sender.unsettled:
            self._pieces.append(self._ping(now))  # what has arrived is to be known
        self._pieces.append(encode(Kind.BYE, {"why": self._farewell}))
        self._said_goodbye = True

    @property
    def streaming(self) -> bool:
        """Whether the write under way is one of many."""
        return bool(self._pieces)

    # -- time and end

    def deadline(self) -> float:
        """When `tick` is to be called at the latest."""
        due = self._heard + self._patience
        if (
            self.state == "up" and not self._out
        ):  # while the driver cannot write, nothing else can be said
            if self._asked is None or self.receiver is not None:
                due = min(due, self._spoke + self._table.settings.heartbeat)
            if self.sender is not None and self.sender.held_until:
                due = min(due, self.sender.held_until)
        return due

    def tick(self, now: float) -> None:
        """Time has passed: raises `TimeoutError` if nothing was heard for too long. Then look at `outgoing`."""
        if now >= self._heard + self._patience:
            raise TimeoutError(f"nothing came for {now - self._heard:.1f} s")

    def leave(self, why: str) -> None:
        """Say goodbye, once what is being written is out; `finished` tells when the driver may close."""
        with self._table.lock:
            if self.state == "up":
                self.state, self._farewell = "leaving", why
            elif self.state in ("greeting", "expecting"):
                self.state = "closed"

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be said or heard."""
        gone = self._said_goodbye and self._asked is None
        return (self.state == "closed" or gone) and not (self._out or self._pieces or self._answers)

    def replaced(self) -> None:
        """Another conversation carries the links from now on."""
        self.state = "closed"
        self._table.cut(self)

    @property
    def edges(self) -> list[Edge]:
        """The links that it was opened for."""
        return [edge for edge in (self._out_edge, self._in_edge) if edge is not None]

    def fits(self) -> bool:
        """Whether the links that it was opened for are still those of the roster."""
        return (
            self._table.edges.get(("out", self.peer)) is self._out_edge
            and self._table.edges.get(("in", self.peer)) is self._in_edge
        )
