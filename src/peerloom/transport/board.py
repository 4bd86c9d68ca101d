"""What the threads of one endpoint share: boxes, counters, the roster, one lock. Carriers move frames between boards."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from ..errors import PeerError
from .frames import FrameError
from .history import History
from .inbox import Inbox
from .outbox import Entry, Outbox
from .reasons import ALARMS, explained
from .roster import Roster, RosterForkError
from .shield import SHIELD
from .turns import InTurns, Turn
from .types import Event, LinkState, RunIdentity, Settings, Tally

__all__ = ["Board", "Edge"]

_log = logging.getLogger("peerloom.transport")


@dataclass
class Edge:
    """One directed link as the endpoint sees it: whether it is up, since when, and what went over it."""

    peer: str
    direction: Literal["in", "out"]
    since: float
    up: bool = False
    rtt: float | None = None
    congestion: str = ""
    frames: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    reconnects: Counter[str] = field(default_factory=Counter)


class Board:
    """The state of one endpoint. Take `lock` to read or change it; its condition shares it."""

    def __init__(
        self,
        me: str,
        roster: Roster,
        run: RunIdentity,
        incarnation: int,
        settings: Settings,
        clock: Callable[[], float],
        on_event: Callable[[Event], None] | None = None,
        history: History | None = None,
        lock: threading.RLock | None = None,
    ) -> None:
        if not roster.has(me):
            raise PeerError(
                f"This peer ({me[:7]}) is no member of version {roster.version} of the roster: it was removed, or has not "
                "joined yet. Ask the founder for an invitation."
            )
        self.me, self.roster, self.run, self.incarnation = me, roster, run, incarnation
        self.settings, self.clock, self.history = settings, clock, history
        self.lock = lock or threading.RLock()
        self.crowded: set[Turn] = set()  # links that wait for something to be taken
        # Drawn anew by every process: two with one incarnation are copies of one peer, or one that lost its folder.
        self.life = secrets.randbits(62)
        self.version = 0
        self.news = 0
        self.want = 0
        self.refusals: Counter[str] = Counter()
        self.offered: Roster | None = None
        self.halted = ""  # why this run cannot go on, once that is known
        self.farewell = "stopped"  # the word with which it takes its leave
        self.rewire: Callable[[], None] = lambda: None  # the carrier opens and closes links after a change of roster
        self.keep: Callable[[Roster], object] = lambda roster: None  # where an adopted roster is written first
        self._sleepers: list[tuple[Callable[[], None], Callable[[], bool]]] = []
        self._on_event = on_event
        self._told: set[tuple[str, str]] = set()
        self._names: dict[str, str] = {}  # also of those who are members no more
        self.outboxes: dict[str, Outbox] = {}
        self.inboxes: dict[str, Inbox] = {}
        self.edges: dict[tuple[str, str], Edge] = {}
        self._wire()

    def sleep(self, seconds: float, ripe: Callable[[], bool], guest: InTurns | None = None) -> None:
        """Wait, with the lock held, until it is `ripe`, links or rosters change, or the time is over.

        A guest of the thread that carries the links carries them meanwhile.
        """
        if guest is None:
            condition = threading.Condition(self.lock)
            with self._asleep(condition.notify, ripe):
                condition.wait(seconds)
            return
        with self._asleep(guest.notify, ripe):
            try:
                self.lock.release()  # once: nobody waits who holds it twice
                guest.wait(seconds)
            finally:
                with SHIELD:
                    self.lock.acquire()
        if self._sleepers:  # others must not wait until the guest comes again
            guest.resign()

    @contextmanager
    def _asleep(self, wake: Callable[[], None], ripe: Callable[[], bool]) -> Iterator[None]:
        sleeper = (wake, ripe)
        self._sleepers.append(sleeper)
        try:
            yield
        finally:
            self._sleepers.remove(sleeper)

    def touch(self) -> None:
        """Something changed that anybody who waits must see; call it with the lock."""
        self.version += 1
        for wake, _ in self._sleepers:
            wake()

    def arrived(self) -> None:
        """Something came, or something that was sent is settled: who waits for more than this is left asleep."""
        self.version += 1
        for wake, ripe in self._sleepers:
            if ripe():
                wake()

    def make_room(self) -> None:
        """Something was taken, or is wanted no more: links that wait for room look again. Call it with the lock."""
        for turn in self.crowded:
            turn.wake()

    def record(self, what: str, **facts: object) -> None:
        """A line of the history, if one is kept."""
        if self.history is not None:
            self.history.note(what, **facts)

    def tell(self, kind: str, peer: str, text: str) -> None:
        """One line for people: in the log, and to whoever listens."""
        _log.log(logging.WARNING if kind in ("alarm", "refused") else logging.INFO, text)
        if self._on_event is not None:
            self._on_event(Event(kind, peer, text))

    def name(self, peer: str) -> str:
        """How people call this peer."""
        return self._names.get(peer) or self.roster.name(peer)

    def halt(self, why: str, word: str = "stopped") -> None:
        """Whoever waits for this endpoint, now or later, gets this as an error; neighbours hear the word."""
        with self.lock:
            self.halted, self.farewell = self.halted or why, word
            self.touch()
            self.make_room()

    # -- links going up and down

    def went_up(self, edge: Edge) -> None:
        """A link works."""
        with self.lock:
            edge.up, edge.since = True, self.clock()
            self.touch()
        way = "sending to" if edge.direction == "out" else "hearing from"
        self.tell("up", edge.peer, f"{way} {self.name(edge.peer)}")

    def went_down(self, edge: Edge, why: str) -> None:
        """A link stopped working, or could not be opened again."""
        with self.lock:
            edge.reconnects[why] += 1
            was_up, edge.up = edge.up, False
            waited = self.clock() - edge.since
            if was_up:
                edge.since = self.clock()
                self.touch()
        if was_up:
            way = "to" if edge.direction == "out" else "from"
            self.tell("down", edge.peer, f"link {way} {self.name(edge.peer)} is down after {waited:.1f} s: {why}")

    def refuse(self, peer: str, why: str, detail: str = "") -> None:
        """Count a refusal; the first of each kind and peer is told."""
        with self.lock:
            self.refusals[why] += 1
            first = (peer, why) not in self._told
            self._told.add((peer, why))
        if first:
            kind = "alarm" if why in ALARMS else "refused"
            self.tell(kind, peer, explained(self.name(peer) if peer else "a stranger", why, detail))

    def links(self) -> list[LinkState]:
        """Every link, as it is now."""
        now = self.clock()
        with self.lock:
            return [
                LinkState(
                    edge.peer,
                    self.name(edge.peer),
                    edge.direction,
                    edge.up,
                    now - edge.since,
                    edge.rtt,
                    self._age(edge, now),
                    dict(edge.frames),
                    dict(edge.bytes),
                    dict(edge.reconnects),
                    self.outboxes[edge.peer].tally if edge.direction == "out" else Tally(),
                    edge.congestion,
                )
                for _, edge in sorted(self.edges.items())
            ]

    # -- rosters

    @property
    def newest(self) -> Roster:
        """The newest roster known, in use or offered."""
        return self.offered or self.roster

    def brought(self, data: bytes) -> None:
        """A roster that a neighbour brought; one that cannot be believed ends the connection."""
        try:
            self.consider(Roster.from_bytes(data, self.roster.founder))
        except PeerError as error:
            why = "roster_fork" if isinstance(error, RosterForkError) else "roster"
            raise FrameError(why, str(error)) from None

    def consider(self, roster: Roster) -> None:
        """If it is newer: used at once if it is of this epoch, else offered. Whom it removes is cut off either way."""
        roster.verify(self.roster.founder)
        with self.lock:
            if not roster.succeeds(self.newest):
                return
            same_epoch = roster.epoch == self.roster.epoch
            if same_epoch:
                self._use(roster)
            else:
                self.offered = roster
                self._halt_if_removed(roster)
        if same_epoch:
            self._tell_in_use(roster)
        else:
            text = f"roster version {roster.version} arrived, of epoch {roster.epoch}; this run stays in {self.roster.epoch}"
            self.tell("roster", "", text)
        self.rewire()

    def adopt(self, roster: Roster) -> None:
        """Go over to a newer roster, also of a new epoch."""
        roster.verify(self.roster.founder)
        with self.lock:
            if not roster.succeeds(self.roster):
                raise PeerError(f"Version {roster.version} of the roster is not newer than version {self.roster.version}.")
            self._use(roster)
        self._tell_in_use(roster)
        self.rewire()

    def _use(self, roster: Roster) -> None:
        self.keep(roster)
        new_epoch = roster.epoch != self.roster.epoch
        self.roster = roster
        if self.offered is not None and self.offered.version <= roster.version:
            self.offered = None
        for outbox in self.outboxes.values():
            outbox.forget_epochs(roster.epoch)
        if new_epoch:
            for inbox in self.inboxes.values():
                inbox.start_epoch()
        self._wire()
        self._halt_if_removed(roster)
        self.touch()
        self.make_room()
        self.record("adopt", version=roster.version, epoch=roster.epoch)

    def _tell_in_use(self, roster: Roster) -> None:
        self.tell(
            "roster", "", f"using roster version {roster.version}, epoch {roster.epoch}, {len(roster.members)} members"
        )

    def barred(self, peer: str) -> bool:
        """Whether the newest roster we know of has no place for this peer any more."""
        return not self.newest.has(peer)

    def closed(self, direction: str, peer: str) -> bool:
        """Whether the newest roster has no such link, or no such peer, any more."""
        return (direction, peer) not in self.edges or self.barred(peer)

    def _halt_if_removed(self, roster: Roster) -> None:
        if not roster.has(self.me):
            self.halt(
                f"The founder removed this peer from the federation: version {roster.version} of the roster, signed, has no "
                "place for it. What it learnt is kept. To take part again, ask the founder for an invitation."
            )

    def _wire(self) -> None:
        now, here = self.clock(), self.roster.has(self.me)
        targets = self.roster.targets(self.me) if here else []
        sources = self.roster.sources(self.me) if here else []
        self._names |= {member.id: member.name for member in self.roster.members}
        for peer in targets:
            if ("out", peer) not in self.edges:
                self.edges["out", peer] = Edge(peer, "out", now)
                self.outboxes[peer] = self._outbox(peer)
        for peer in sources:
            if ("in", peer) not in self.edges:
                self.edges["in", peer] = Edge(peer, "in", now)
                self.inboxes[peer] = Inbox(peer)
                self.inboxes[peer].floor = (self.want, 0)
        for way, peer in list(self.edges):
            if peer not in (targets if way == "out" else sources):
                del self.edges[way, peer]
                if way == "out":
                    self.outboxes.pop(peer).forget_all("no_link")
                else:
                    del self.inboxes[peer]

    def _outbox(self, peer: str) -> Outbox:
        def note(what: str, entry: Entry) -> None:
            turn, channel = (entry.parcel.turn, entry.parcel.channel) if entry.parcel is not None else (0, -1)
            facts = {"to": peer, "number": entry.number, "seq": entry.seq, "round": entry.round, "turn": turn}
            reason = {"why": entry.receipt.reason} if what == "refuse" else {}
            self.record(what, channel=channel, keep=entry.keep, incarnation=self.incarnation, **facts, **reason)

        noted = {} if self.history is None else {"note": note}
        return Outbox(peer, self.settings.outbox, self.settings.retain, window=self.settings.window, **noted)

    def _age(self, edge: Edge, now: float) -> float:
        oldest = self.outboxes[edge.peer].oldest() if edge.direction == "out" else None
        return 0.0 if oldest is None else now - oldest
