"""The protocol of one connection: frames come in, frames go out, time is an argument.

    greeting ---- HELLO_OK ---> up        the side that dialled: its first frame is HELLO
    expecting --- HELLO ------> up        the side that was dialled
    up ---------- leave() ----> leaving   the last frame is BYE; answers may still come
    any --------- BYE, REFUSE of the greeting, the driver ---> closed

There is no socket, clock or TLS here. A driver puts what came into `buffer()` and calls
`received(count, now)`; it writes `outgoing(now)` and calls `sent(count)`; and it calls `tick(now)`
at `deadline()` at the latest. Frames are never cut: an answer waits until the frame under way is
out, which is at most one segment of a body.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from .cards import Passing, entries
from .edge import Edge
from .frames import FrameError, Head, encode
from .greeting import RefusedByPeerError
from .links import LinkTable
from .parser import Frame, Parser
from .reasons import FAREWELLS
from .receiver import Outcome, Receiver
from .schemas import GREETING, MAY_COME, Kind, State
from .sender import COPY_LIMIT, Sender, next_write
from .types import RefusedError

__all__ = ["Conversation"]

_NS = 1_000_000_000
_MOST_OLD_ROSTERS = 8  # over one connection
_LETTING_GO = 0.05  # seconds in which a thread that reads may let go of what was replaced


class Conversation:
    """One connection with one peer whose key is proved; it carries the links both ways."""

    def __init__(
        self,
        table: LinkTable,
        peer: str,
        dialled: bool,
        now: float,
        greeting: int = GREETING,
    ) -> None:
        self._table, self.peer = table, peer
        # The version of the frames: first that of the greeting, then the one agreed on.
        self.version = greeting
        lowest, highest = table.settings.versions
        # On which the two may agree: a greeting of version 6 knows no other.
        self.versions = [max(lowest, GREETING), highest] if greeting >= GREETING else [greeting] * 2
        self.state: State = "greeting" if dialled else "expecting"
        self.attempt, self.was_up = 0, False
        self.way = "direct"  # how the connection goes, for people
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
        with table.lock:
            self._budget = table.greetings.budget(peer)
        self._asked_us = False  # whether what asks for an answer has come since we last spoke
        self._pinged_us = False
        self._parser = Parser(self._admit, greeting)
        self.buffer = self._parser.buffer
        self._answers, self._pieces = deque[bytes](), deque[bytes | memoryview]()
        self._out = memoryview(b"")
        self._spoke = now  # when something other than an answer was last sent
        self._heard = now  # when anything last came
        self._patience = settings.dead
        # The PING that has no answer yet: its stamp, when it left, and whether no parcel was
        # unanswered then, so that its answer tells the round-trip time.
        self._asked: tuple[int, float, bool] | None = None
        self._must_ask = False  # whether to send a PING as soon as none is unanswered
        self.proved = -1.0  # when the last PING left that was answered
        self._old_rosters = 0  # that the other side brought
        self.roster_there = 0  # the newest version that the other side is known to have
        self._passing = Passing(table.cards)
        self._farewell, self._bye_sent = "", False
        self.news = False  # whether something came that other threads may wait for
        self.offered = [0, 0, 0]  # what our greeting said of a parcel that has come in part
        # Held by the thread that reads, from the bytes to their effect. Nobody waits for it.
        self.reading = threading.Lock()
        if dialled:
            self._greet()

    # -- coming in

    def received(self, count: int, now: float) -> None:
        """Read `count` bytes that were put into the buffer.

        Raises `FrameError` or `ConnectionError` if they end the connection.
        """
        self._heard = now
        try:
            self._parser.advance(count)
            while (frame := self._parser.next()) is not None:
                self._take(frame, now)
        except FrameError as error:
            # A later version may still read this answer, and report it.
            if error.reason == "protocol_version" and self.state == "expecting":
                self._refuse_greeting(error.reason)
            raise

    def _admit(self, head: Head, header: dict[str, Any]) -> memoryview | None:
        if self.state == "closed":
            return None
        self._check(head.kind)
        if head.kind in (Kind.ROSTER, Kind.CARDS):
            return memoryview(bytearray(head.body_length))
        if self.receiver is None:
            raise FrameError("out_of_turn", head.kind.name)
        return self.receiver.admit(head, header)

    def _check(self, kind: Kind) -> None:
        if kind not in MAY_COME[self.state]:
            raise FrameError("out_of_turn", kind.name)

    def _take(self, frame: Frame, now: float) -> None:
        if self.state == "closed":
            return  # it was replaced, or has said goodbye: what follows is ignored
        kind, header = frame.kind, frame.header
        self._check(kind)
        if kind in (Kind.DATA, Kind.MORE, Kind.SKIP):
            self._take_parcel(frame, now)
        elif kind in (Kind.ACK, Kind.REFUSE, Kind.PONG):
            with self._table.lock:
                self._budget.charge("answer", now)
                self._take_answer(kind, header, now)
        elif kind is Kind.PING:
            self._budget.charge("ping", now)
            if self._pinged_us:
                raise FrameError("too_fast", "PING before the last was answered")
            self._pinged_us = True
            with self._table.lock:
                # A PONG speaks for every parcel before it. That the link is gone is said by the
                # roster and BYE, which are about to leave: ending at once might hide them.
                if self.receiver is None or not self.receiver.dropped:
                    said = {"stamp": header["stamp"], "room": self._room()}
                    self._answers.append(self._encoded(Kind.PONG, said))
        elif kind is Kind.ROSTER:
            self._budget.charge("roster", now)
            self._take_roster(bytes(frame.body))
        elif kind is Kind.CARDS:
            self._take_cards(bytes(frame.body), now)
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
        self.roster_there = max(self.roster_there, there)
        if there <= known:  # two may cross, but checking a signature costs more than a parcel
            self._old_rosters += 1
            if self._old_rosters > _MOST_OLD_ROSTERS:
                raise FrameError("out_of_turn", "rosters that are known")

    def _take_cards(self, body: bytes, now: float) -> None:
        table, cards = self._table, entries(body)
        with table.lock:
            self._budget.charge_cards(1 + len(cards), len(table.newest.members), now)
            before = table.cards.version
            self._passing.has(table.cards.take(cards, table.newest))
            if table.cards.version != before:
                for talk in table.greetings.all():
                    table.wake(talk.peer)

    def _take_parcel(self, frame: Frame, now: float) -> None:
        receiver = self.receiver
        if receiver is None:
            raise FrameError("out_of_turn", frame.kind.name)
        size = 0
        if frame.kind is Kind.SKIP:
            with self._table.lock:
                answer = receiver.skip(frame.header)
        else:
            arrival = receiver.gathered(frame)  # checks a whole body, so without the lock
            if arrival is None:
                return
            size = arrival.length
            with self._table.lock:
                answer = receiver.apply(arrival)
        self.news = True
        self._account(receiver.outcome, size, now)
        if answer:
            if self._asked_us:  # a sender waits for an answer before it asks for the next
                raise FrameError("too_fast", f"{frame.kind.name} before the last was answered")
            self._asked_us = True
            self._answers.append(answer)

    def _account(self, outcome: Outcome, size: int, now: float) -> None:
        """Charge the neighbour for a parcel or promise that brought nothing new."""
        budget = self._budget
        if outcome in ("useful", "latest"):
            budget.earn("ping")  # a thread that waits for the answer may ask for it
        if outcome == "useful":
            budget.earn("greeting")  # a line may break often, as long as it carries something
        if outcome == "latest":
            budget.charge("latest", now)
        elif outcome != "useful":
            budget.charge(outcome, now, size)

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
        if self.proved < 0:
            self._table.greetings.confirm(self.peer)
        self.proved = when
        if alone:
            self._time(now - when)
        if self.sender is not None:
            self.sender.all_answered(header["room"])

    # -- greeting

    def _greet(self) -> None:
        with self._table.lock:
            hello = self._table.greetings.hello(self)
            self.attempt = hello["attempt"]
            self._answers.append(self._encoded(Kind.HELLO, {**hello, "room": self._room()}))

    def _take_greeting(self, kind: Kind, header: dict[str, Any], now: float) -> None:
        table = self._table
        try:
            if kind is Kind.HELLO:
                answer = table.greetings.accept(self, header)
                said = {**answer, "room": self._room()}
                self._answers.append(self._encoded(Kind.HELLO_OK, said))
                self._speak(answer["version"])
            else:
                self._speak(header.get("version", self.version))
                table.greetings.accepted(self, header, self.attempt)
                self._time(now - self._spoke)
        except RefusedError as refusal:
            self._refuse_greeting(refusal.why)
            raise
        self.state, self.was_up = "up", True
        for edge in self.edges:
            edge.version = self.version
        self.roster_there = header["roster_version"]
        self._budget.earn("cards")  # all of them come once more
        if self.receiver is not None:
            self.receiver.greeted(header["incarnation"], self.version, self.offered)
        if self.sender is not None:
            self.sender.resume(header, table.roster.epoch, self.version)
        if kind is Kind.HELLO:  # the side that dialled has timed its greeting instead
            self._answers.append(self._ping(now))
        table.went_up(self.peer, self.way)

    def _refuse_greeting(self, why: str) -> None:
        self._answers.append(self._encoded(Kind.REFUSE, {"seq": 0, "why": why, "room": 0}))

    def _speak(self, version: int) -> None:
        """Go on in the version on which the greeting agreed."""
        if not self.versions[0] <= version <= self.versions[1]:
            raise FrameError("protocol_version", f"{version} was not offered")
        self.version = self._parser.version = version

    def _encoded(self, kind: Kind, header: dict[str, Any], body: bytes = b"") -> bytes:
        return encode(kind, header, body, self.version)

    def _room(self) -> int:
        return 0 if self.receiver is None else self.receiver.room()

    def _time(self, seconds: float) -> None:
        """Note a round-trip time, limited so that slow answers cannot stretch the patience."""
        seconds = min(seconds, self._table.settings.dead)
        for edge in self.edges:
            edge.rtt = seconds if edge.rtt is None else 0.875 * edge.rtt + 0.125 * seconds
            self._patience = max(self._table.settings.dead, 10 * edge.rtt)

    # -- going out

    def outgoing(self, now: float) -> memoryview:
        """What to write next; empty if there is nothing now."""
        if not self._out:
            if not self._pieces:
                with self._table.lock:
                    self._gather(now)
            self._out = next_write(self._pieces)
        return self._out

    def sent(self, count: int) -> None:
        """Note that `count` bytes of `outgoing` were written."""
        self._out = self._out[count:]

    def _gather(self, now: float) -> None:
        """Queue the frames to write now: answers, then, once greeted, what is due."""
        pieces, size = self._pieces, 0
        if self._answers:
            pieces.extend(self._answers)
            self._answers.clear()
            self._asked_us = self._pinged_us = False
        if self._bye_sent or self.state not in ("up", "leaving"):
            return
        if self.roster_there < self._table.newest.version:
            self.roster_there = self._table.newest.version
            pieces.append(self._encoded(Kind.ROSTER, {}, self._table.newest.to_bytes()))
        if self.state == "leaving":
            self._take_leave(now)
            return
        if self.version >= 7 and (cards := self._passing.body(now)):
            pieces.append(self._encoded(Kind.CARDS, {}, cards))
        if self.receiver is not None and self.receiver.blocks_sender():
            pieces.append(self.receiver.grant())
        while self.sender is not None and size < COPY_LIMIT and (frame := self.sender.next(now)):
            pieces.extend(frame)
            size += sum(map(len, frame))
            self._budget.earn("answer")
            self._spoke = now
        quiet = now >= self._spoke + self._table.settings.heartbeat
        waits = self._must_ask or (self.sender is not None and self.sender.needs_ping)
        if self._asked is None and (quiet or waits):
            pieces.append(self._ping(now))
        elif quiet and self.receiver is not None:
            # The answer to the last PING may come late: show the other side that we are here.
            pieces.append(self.receiver.grant())
            self._spoke = now

    def _ping(self, now: float) -> bytes:
        stamp = int(now * _NS)
        alone = self.sender is None or not self.sender.unanswered
        self._asked, self._spoke, self._must_ask = (stamp, now, alone), now, False
        if self.sender is not None:
            self.sender.ask_all()
        return self._encoded(Kind.PING, {"stamp": stamp})

    def _take_leave(self, now: float) -> None:
        if self._asked is None and self.sender is not None and self.sender.unanswered:
            self._pieces.append(self._ping(now))  # learn what has arrived
        self._pieces.append(self._encoded(Kind.BYE, {"why": self._farewell}))
        self._bye_sent = True

    # -- time and end

    def deadline(self) -> float:
        """When to call `tick` at the latest."""
        due = self._heard + self._patience
        # While the driver cannot write, nothing else can be said.
        if self.state == "up" and not self._out:
            if self._asked is None or self.receiver is not None:
                due = min(due, self._spoke + self._table.settings.heartbeat)
            if self.sender is not None and self.sender.held_until:
                due = min(due, self.sender.held_until)
            if self.version >= 7:
                due = min(due, self._passing.due)
        return due

    def tick(self, now: float) -> None:
        """Raise `TimeoutError` if nothing came for too long; look at `outgoing` afterwards."""
        if now >= self._heard + self._patience:
            raise TimeoutError(f"nothing came for {now - self._heard:.1f} s")

    def leave(self, why: str) -> None:
        """Say goodbye after the frame under way; close the connection once `finished`."""
        with self._table.lock:
            if self.state == "up":
                self.state, self._farewell = "leaving", why
            elif self.state in ("greeting", "expecting"):
                self.state = "closed"

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be sent or expected."""
        gone = self._bye_sent and self._asked is None
        return (self.state == "closed" or gone) and not (self._out or self._pieces or self._answers)

    def prove(self) -> None:
        """Ask the other side whether it is there; `proved` tells when it was. Hold the lock."""
        self._must_ask = True
        self._table.wake(self.peer)

    def replaced(self) -> None:
        """End this conversation: another one carries the links from now on."""
        self.state = "closed"
        # Another thread may be reading into the parcel that is coming. It soon sees that all is
        # over, unless it waits for the lock that is held here: then the parcel begins anew.
        if self.reading.acquire(timeout=_LETTING_GO):
            try:
                self._parser.read_past()
                self.over()
            finally:
                self.reading.release()
        self._table.cut(self)

    def over(self) -> None:
        """Leave to the next conversation what has come in part; nothing is read here any more."""
        if self.receiver is not None:
            self.receiver.release()

    @property
    def edges(self) -> list[Edge]:
        """The links for which it was opened."""
        return [edge for edge in (self._out_edge, self._in_edge) if edge is not None]

    def fits(self) -> bool:
        """Whether the roster still has exactly the links for which it was opened."""
        return (
            self._table.edges.get(("out", self.peer)) is self._out_edge
            and self._table.edges.get(("in", self.peer)) is self._in_edge
        )
