"""A network in memory with its own clock: the same endpoints and boxes as over TLS, and every fault on purpose.

Frames and acknowledgements are lost, duplicated, delayed and overtake each other; endpoints crash and start again. All of
it follows from one seed, so a failure that was seen once can be seen again. Time passes only while somebody waits.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from .baton import Baton, CrashedError
from .board import Board
from .endpoint import Endpoint
from .history import History
from .outbox import Entry
from .roster import Roster
from .types import Event, RefusedError, RunIdentity, Settings

__all__ = ["CrashedError", "Faults", "MemoryNetwork"]


@dataclass(frozen=True)
class Faults:
    """How bad the network is. `delay` is drawn uniformly for every frame, so frames overtake each other."""

    loss: float = 0.0
    duplicate: float = 0.0
    delay: tuple[float, float] = (0.001, 0.01)
    patience: float = 0.1
    """A frame without an answer for this long means: the connection is broken, open a new one."""


@dataclass
class _Wire:
    """One directed link: the connection it has at present, and how far the frames of this one have come.

    Within a connection frames come in the order in which they were sent, as TCP has it; after one that is lost, none does.
    """

    source: str
    target: str
    connection: int = 0
    sent: int = 0
    came: int = 0
    early: dict[int, Callable[[int], bool]] = field(default_factory=dict)
    asked: int = 0  # the frame that waits for its answer

    def connect(self, connection: int) -> None:
        """Begin anew; 0 for no connection."""
        self.connection, self.sent, self.came, self.asked = connection, 0, 0, 0
        self.early = {}


class MemoryNetwork:
    """All peers of a roster in one process. `endpoint(peer)` starts one, `crash(peer)` kills it without a word.

    Calls that wait (`take`, `settle`, `wait_news`) make the network move. To run whole engines against each other, give
    their main functions to `run`: they become threads of which exactly one works at a time, in an order drawn from the seed.
    """

    def __init__(
        self,
        roster: Roster,
        run: RunIdentity,
        seed: int = 0,
        faults: Faults | None = None,
        settings: Settings | None = None,
        history: Callable[[str], History] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self._roster, self._run, self._faults = roster, run, faults or Faults()
        self._settings, self._history, self._on_event = settings or Settings(), history, on_event
        self._random = random.Random(seed)  # noqa: S311  (faults of a test, not secrets)
        self._lock = threading.RLock()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._wires: dict[tuple[str, str], _Wire] = {}
        self._lives: dict[str, int] = {}
        self.boards: dict[str, Board] = {}
        self.now = 0.0
        self._baton = Baton(self._lock, self._random, self._move, lambda: self.now)

    # -- endpoints

    def endpoint(self, peer: str, roster: Roster | None = None) -> Endpoint:
        """A new life of a peer, with the next incarnation."""
        with self._lock:
            self.crash(peer)
            self._lives[peer] = self._lives.get(peer, 0) + 1
            history = None if self._history is None else self._history(peer)
            chosen = roster or self._roster
            board = Board(
                peer,
                chosen,
                self._run,
                self._lives[peer],
                self._settings,
                lambda: self.now,
                self._on_event,
                history,
                self._lock,
            )
            return Endpoint.over(board, _MemoryCarrier(self, board))

    def crash(self, peer: str) -> None:
        """End a peer as kill -9 would: its memory is gone, and so are its connections."""
        with self._lock:
            if self.boards.pop(peer, None) is None:
                return
            for wire in self._wires.values():
                if peer in (wire.source, wire.target):
                    self._cut(wire, "closed")

    def pass_time(self, seconds: float) -> None:
        """Let the network move for a while."""
        with self._lock:
            end = self.now + seconds
            while self.now < end:
                self._move(end)

    def run(
        self,
        programs: dict[str, Callable[[Endpoint], object]],
        crashes: list[tuple[float, str, float]] | None = None,
    ) -> dict[str, object]:
        """Run a function per peer to its end; what each returned.

        `crashes` are (time, peer, seconds until it starts again): the function is then called anew with the endpoint of
        the next life. Inside it `CrashedError` ends whatever was going on.
        """
        for when, peer, seconds in crashes or []:
            self.at(when, lambda peer=peer, seconds=seconds: self._kill(peer, seconds))  # type: ignore[misc]
        return self._baton.run(programs, self.endpoint)

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a moment of the network's clock."""
        heapq.heappush(self._queue, (when, next(self._count), action))

    def _kill(self, peer: str, seconds: float) -> None:
        if peer in self.boards:
            self.crash(peer)
            self._baton.crash(peer, self.now + seconds)

    # -- time

    def _move(self, limit: float) -> None:
        """The next event, or the passing of time up to a limit."""
        if self._queue and self._queue[0][0] <= limit:
            when, _, action = heapq.heappop(self._queue)
            self.now = max(self.now, when)
            action()
        else:
            self.now = max(self.now, limit)

    def rest(self, board: Board, seconds: float) -> None:
        """A peer waits: others work, frames travel."""
        if self._baton.running:
            self._baton.park(board, self.now + seconds)
        else:
            self._move(self.now + max(seconds, 0.0))

    def _later(self, action: Callable[[], None], copies: bool = True) -> None:
        """Let a frame travel: perhaps not at all, perhaps twice."""
        if self._random.random() < self._faults.loss:
            return
        repeat = copies and self._random.random() < self._faults.duplicate
        for _ in range(2 if repeat else 1):
            self.at(self.now + self._random.uniform(*self._faults.delay), action)

    # -- links

    def open(self, board: Board) -> None:
        """A peer begins to dial its targets; those who dial it try again by themselves."""
        with self._lock:
            self.boards[board.me] = board
            for other in {*board.outboxes, *board.inboxes}:
                for wire in (self._wire(board.me, other), self._wire(other, board.me)):
                    self._connect(wire)

    def _wire(self, source: str, target: str) -> _Wire:
        return self._wires.setdefault((source, target), _Wire(source, target))

    def wake(self, source: str, target: str) -> None:
        """Send what waits, if the link is free for it."""
        with self._lock:
            wire = self._wire(source, target)
            if wire.connection and not wire.asked and source in self.boards:
                self._transmit(wire)

    def _connect(self, wire: _Wire) -> None:
        """What HELLO and HELLO_OK do, in one step."""
        sender, receiver = self.boards.get(wire.source), self.boards.get(wire.target)
        if sender is None or receiver is None:
            return
        outbox, inbox = sender.outboxes.get(wire.target), receiver.inboxes.get(wire.source)
        if outbox is None or inbox is None or sender.barred(wire.target) or receiver.barred(wire.source):
            return
        wire.connect(next(self._count) + 1)
        outbox.resume(sender.incarnation, inbox.last, receiver.incarnation, inbox.want, sender.roster.epoch)
        sender.touch()
        for edge, board in ((sender.edges["out", wire.target], sender), (receiver.edges["in", wire.source], receiver)):
            if not edge.up:
                board.went_up(edge)
        self._transmit(wire)

    def _cut(self, wire: _Wire, why: str) -> None:
        wire.connect(0)
        for owner, way, other in ((wire.source, "out", wire.target), (wire.target, "in", wire.source)):
            board = self.boards.get(owner)
            if board is not None and (way, other) in board.edges:
                board.went_down(board.edges[way, other], why)

    def _transmit(self, wire: _Wire) -> None:
        """Send what waits, up to the first frame that asks for an answer."""
        sender = self.boards[wire.source]
        outbox = sender.outboxes.get(wire.target)
        if outbox is None:
            return
        while not wire.asked and (entry := outbox.next()) is not None:
            sender.edges["out", wire.target].frames["sent"] += 1
            self._say(wire, entry.asks, partial(self._arrive, wire, entry, entry.seq, entry.asks, sender.incarnation))
        if outbox.last and not wire.asked:
            ask = partial(self._ask, wire, wire.connection, wire.sent)
            if outbox.pressed:
                ask()
            else:
                self.at(self.now + sender.settings.heartbeat, ask)

    def _ask(self, wire: _Wire, connection: int, sent: int) -> None:
        """What PING does after a while in which nothing else was sent: to have all settled that was."""
        if wire.connection == connection and wire.sent == sent and not wire.asked and wire.source in self.boards:
            outbox = self.boards[wire.source].outboxes.get(wire.target)
            if outbox is not None:
                self._say(wire, True, partial(self._pong, wire, outbox.last))

    def _say(self, wire: _Wire, asks: bool, arrive: Callable[[int], bool]) -> None:
        """Let a frame travel; if it asks for an answer, wait for that."""
        wire.sent += 1
        connection, number = wire.connection, wire.sent
        self._later(lambda: self._come(wire, connection, number, arrive))
        if asks:
            wire.asked = number
            self.at(self.now + self._faults.patience, lambda: self._give_up(wire, connection, number))

    def _come(self, wire: _Wire, connection: int, number: int, arrive: Callable[[int], bool]) -> None:
        """A frame is there: its turn has come if all before it were taken. A second copy of it is tried at once."""
        if wire.connection != connection:
            return
        if number <= wire.came:
            arrive(number)
            return
        wire.early[number] = arrive
        while (taken := wire.early.pop(wire.came + 1, None)) is not None and taken(wire.came + 1):
            wire.came += 1

    def _give_up(self, wire: _Wire, connection: int, number: int) -> None:
        if wire.connection == connection and wire.asked == number and wire.source in self.boards:
            self._connect(wire)

    def _arrive(self, wire: _Wire, entry: Entry, seq: int, asks: bool, incarnation: int, number: int) -> bool:
        """Whether the frame was taken, in whatever way; otherwise nothing more comes over this connection."""
        receiver = self.boards.get(wire.target)
        if receiver is None or wire.source not in receiver.inboxes:
            return False
        inbox, edge, mine = receiver.inboxes[wire.source], receiver.edges["in", wire.source], receiver.roster.epoch
        facts = {"from": wire.source, "life": receiver.incarnation}
        order = {"epoch": entry.epoch, "incarnation": incarnation, "seq": seq}
        place = {"round": entry.round, "turn": 0, "channel": -1, "keep": entry.keep}
        try:
            if entry.parcel is None:
                result = inbox.skip(entry.round, entry.epoch, (incarnation, seq), mine)
            else:
                parcel = replace(entry.parcel, peer=wire.source, epoch=entry.epoch, incarnation=incarnation, seq=seq)
                place |= {"turn": parcel.turn, "channel": parcel.channel}
                full = entry.keep == "every" and len(inbox) >= receiver.settings.inbox
                if full and (incarnation, seq) > inbox.last and (parcel.round, parcel.turn) >= inbox.floor:
                    return False  # no room: it is sent again after a while
                check = receiver.run.channels[parcel.channel].check
                if check is not None:
                    check(parcel.body.data)
                result = inbox.deliver(parcel, entry.keep, mine)
        except RefusedError as refusal:
            if not asks:
                self._connect(wire)  # it is sent again, asks, and is counted
                return False
            receiver.refuse(wire.source, refusal.why)
            edge.frames[f"refused_{refusal.why}"] += 1
            if refusal.why != "epoch_ahead":
                self._answer(wire, number, seq, refusal.why)
            return True
        edge.frames[result] += 1
        if result != "duplicate":
            receiver.record("apply", result=result, **facts, **order, **place)
            receiver.news += 1
            receiver.touch()
        if asks:
            self._answer(wire, number, seq)
        return True

    def _pong(self, wire: _Wire, last: int, number: int) -> bool:
        self._answer(wire, number, last)
        return True

    def _answer(self, wire: _Wire, number: int, seq: int, why: str = "") -> None:
        """Let the answer to a frame travel: all parcels up to `seq` have arrived, or all but this one."""
        self._later(partial(self._answered, wire, wire.connection, number, seq, why))

    def _answered(self, wire: _Wire, connection: int, number: int, seq: int, why: str) -> None:
        sender = self.boards.get(wire.source)
        if wire.connection != connection or wire.asked != number or sender is None or wire.target not in sender.outboxes:
            return
        wire.asked = 0
        outbox, edge = sender.outboxes[wire.target], sender.edges["out", wire.target]
        edge.frames["acked"] += len(outbox.acked(seq - 1 if why else seq))
        if why and outbox.refused(seq, why):
            edge.frames[f"refused_{why}"] += 1
        sender.touch()
        self._transmit(wire)

    def rewire(self, board: Board) -> None:
        """A peer changed its roster: links that are no more close, new ones open."""
        with self._lock:
            if self.boards.get(board.me) is not board:
                return
            for wire in list(self._wires.values()):
                if board.me not in (wire.source, wire.target) or not wire.connection:
                    continue
                other = wire.target if wire.source == board.me else wire.source
                if board.closed("out" if wire.source == board.me else "in", other):
                    self._cut(wire, "removed")
            self.open(board)


class _MemoryCarrier:
    """The carrier of one endpoint of the network."""

    port = 0

    def __init__(self, network: MemoryNetwork, board: Board) -> None:
        self._network, self._board = network, board
        board.rewire = lambda: network.rewire(board)

    def start(self) -> None:
        self._network.open(self._board)

    def stop(self) -> None:
        if self._network.boards.get(self._board.me) is self._board:
            self._network.crash(self._board.me)

    def wake(self, peer: str) -> None:
        self._network.wake(self._board.me, peer)

    def push(self) -> None:
        pass  # who is woken goes on at once

    def rest(self, seconds: float, ripe: Callable[[], bool]) -> None:
        self._network.rest(self._board, seconds)
