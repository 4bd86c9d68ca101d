"""The state of all links of one endpoint: boxes, counters, the roster, under one lock."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ExcludedError, PeerError
from .cards import Cards
from .edge import Edge, Waiters
from .frames import FrameError
from .greeting import PAUSES, Greetings
from .history import History
from .identity import short_id
from .inbox import Inbox
from .lives import Life, Lives
from .outbox import Entry, Outbox
from .reasons import ALARMS, EXCLUSIONS, REASONS, bounded, explained
from .roster import Roster, RosterForkError
from .types import Body, Event, LinkState, RunIdentity, Settings, Tally

if TYPE_CHECKING:
    from .conversation import Conversation

__all__ = ["LinkTable"]

_MOST_FAULTS = 64  # of which the traceback is logged

_log = logging.getLogger("peerloom.transport")


class LinkTable:
    """The state of one endpoint. Hold `lock` to read or change an attribute.

    Methods take the lock where they need it.
    """

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
            raise ExcludedError(
                f"This peer ({short_id(me)}) is no member of version {roster.version} of the "
                "roster: it was removed, or has not joined yet. Ask the founder for an invitation."
            )
        self.me, self.roster, self.run, self.incarnation = me, roster, run, incarnation
        self.settings, self.clock, self.history = settings, clock, history
        self.lock = lock or threading.RLock()
        # The nonce is drawn by every process: two with one incarnation are copies of one peer, or
        # one of them has lost its folder.
        self.life = Life(incarnation, secrets.randbits(62))
        self.lives = Lives()
        self.cards = Cards(run.run_id, clock)
        self.longest = max(channel.longest for channel in run.channels.values())
        self.greetings, self.waiters = Greetings(self), Waiters()
        self.news = 0  # parcels and skips that have arrived
        self.want = 0  # the round at which this peer goes on
        self.refusals: Counter[str] = Counter()
        self.newest = roster  # the newest one known: in use, or offered by a neighbour
        self.halted: PeerError | None = None  # why this run cannot go on, once that is known
        self._excluded: dict[str, str] = {}  # neighbours that refuse this process for good, and why
        self.stop_requested = False
        self.farewell = "stopped"  # the reason that BYE gives
        # Set by the driver: open and close connections after a change of roster, end one, and
        # write over one.
        self.rewire: Callable[[], None] = lambda: None
        self.cut: Callable[[Conversation], None] = lambda conversation: None
        self.wake: Callable[[str], None] = lambda peer: None
        # Set by the endpoint: memory for a body that comes.
        self.allocate: Callable[[int], Body] = lambda size: np.empty(size, np.uint8)
        # Set by the endpoint: write down what is in use. After the use, since a full disk must not
        # keep a removed member in.
        self.keep: Callable[[], None] = lambda: None
        self._on_event = on_event
        self._faults: set[tuple[str, str]] = set()
        self._told: set[tuple[str, str]] = set()
        self._names: dict[str, str] = {}  # also of former members
        self.outboxes: dict[str, Outbox] = {}
        self.inboxes: dict[str, Inbox] = {}
        self.edges: dict[tuple[str, str], Edge] = {}
        self._wire()

    def make_room(self) -> None:
        """Wake links whose sender had no room left and has some now. Hold the lock."""
        for conversation in self.greetings.all():
            if conversation.receiver is not None and conversation.receiver.blocks_sender():
                self.wake(conversation.peer)

    def crowded(self) -> bool:
        """Whether late parcels of a peer that are not covered leave it no room. Hold the lock."""
        return any(
            inbox.uncovered and inbox.uncovered + len(inbox) >= self.settings.unsaved
            for inbox in self.inboxes.values()
        )

    def record(self, what: str, **facts: object) -> None:
        """Add a line to the history, if one is kept."""
        if self.history is not None:
            self.history.note(what, **facts)

    def tell(self, kind: str, peer: str, text: str, way: str = "") -> None:
        """Report one line: to the observer of events, or to the log if there is none."""
        if self._on_event is not None:
            try:
                self._on_event(Event(kind, peer, text, way))
            except Exception:  # noqa: BLE001  (logged: no observer ends a link)
                self._on_event = None
                _log.exception("An observer of links failed, and is told nothing from now on.")
        else:
            _log.log(logging.WARNING if kind in ("alarm", "refused") else logging.INFO, text)

    def name(self, peer: str) -> str:
        """The name of a peer."""
        return self._names.get(peer) or self.roster.name(peer)

    def halt(self, error: PeerError, word: str = "stopped") -> None:
        """Let every wait, now or later, raise this error; neighbours are told `word`."""
        with self.lock:
            self.halted, self.farewell = self.halted or error, word
            self.waiters.wake_all()
            self.make_room()

    # -- links going up and down

    def went_up(self, peer: str, way: str = "direct") -> None:
        """Note that the links with a peer work, and which way they go."""
        with self.lock:
            edges = self._edges(peer)
            self._excluded.pop(peer, None)
            for edge in edges:
                edge.up, edge.was_up, edge.since = True, True, self.clock()
                edge.way = way
            self.waiters.wake_all()
        through = "" if way == "direct" else f" through {way.replace(':', ' ', 1)}"
        for edge in edges:
            does = "sending to" if edge.direction == "out" else "hearing from"
            self.tell("up", peer, f"{does} {self.name(peer)}{through}", way)

    def _went_down(self, peer: str, edges: Iterable[Edge], why: str) -> None:
        lines = list[str]()
        with self.lock:
            for edge in edges:
                edge.reconnects[why] += 1
                if edge.up:
                    way = "to" if edge.direction == "out" else "from"
                    spent = self.clock() - edge.since
                    lines.append(f"link {way} {self.name(peer)} is down after {spent:.1f} s: {why}")
                    edge.up, edge.since = False, self.clock()
            if lines:
                self.waiters.wake_all()
        for line in lines:
            self.tell("down", peer, line)

    def ended(self, conversation: Conversation, why: str) -> None:
        """Note that a conversation is over; the driver calls this once for each."""
        peer = conversation.peer
        with self.lock:
            current = self.greetings.over(conversation, conversation.attempt)
            if current:
                conversation.over()
            linked = self.linked(peer)
            if why in PAUSES:
                self.greetings.hold(peer, *PAUSES[why])
            if not linked:
                self.greetings.forget(peer)
            if not current and conversation.was_up:
                for edge in self._edges(peer):
                    edge.reconnects["replaced"] += 1
        if current:
            self._went_down(peer, conversation.edges, why if linked else "removed")

    def passed(self, peer: str) -> int:
        """How many parcels were exchanged with a peer, in both directions."""
        with self.lock:
            return sum(edge.frames["acked"] + edge.frames["applied"] for edge in self._edges(peer))

    def not_reached(self, peer: str, why: str) -> None:
        """Count an attempt to dial a peer that failed."""
        with self.lock:
            if self.greetings.current(peer) is None:
                for edge in self._edges(peer):
                    edge.reconnects[why] += 1

    def _edges(self, peer: str) -> list[Edge]:
        return [self.edges[way, peer] for way in ("out", "in") if (way, peer) in self.edges]

    def refuse(self, peer: str, why: str, detail: str = "") -> None:
        """Count a refusal; the first of each kind and peer is reported."""
        word = why.removeprefix("by_peer_")
        why = why.removesuffix(word) + bounded(word)
        with self.lock:
            self.refusals[why] += 1
            first = (peer, why) not in self._told
            self._told.add((peer, why))
            if why != word and word in EXCLUSIONS:
                self._excluded[peer] = word
                self._halt_if_excluded()
        if first:
            kind = "alarm" if word in ALARMS else "refused"
            self.tell(kind, peer, explained(self.name(peer) if peer else "a stranger", why, detail))

    def alarm(self, peer: str, what: str, text: str) -> None:
        """Raise an alarm about a peer: the first of each kind, or a member could fill the log."""
        with self.lock:
            first = (peer, what) not in self._told
            self._told.add((peer, what))
        if first:
            self.tell("alarm", peer, text)

    def fault(self, peer: str, error: BaseException) -> None:
        """Count an error of this program; the first of each kind and peer is logged whole."""
        what = (peer, type(error).__name__)
        with self.lock:
            first = what not in self._faults and len(self._faults) < _MOST_FAULTS
            if first:
                self._faults.add(what)
        if first:
            _log.error("A connection was ended by a fault of this program.", exc_info=error)
        self.refuse(peer, "internal", type(error).__name__)

    def links(self) -> list[LinkState]:
        """Every link, as it is now."""
        now = self.clock()
        with self.lock:
            return [self._state(edge, now) for _, edge in sorted(self.edges.items())]

    def _state(self, edge: Edge, now: float) -> LinkState:
        tally, age = Tally(), 0.0
        if edge.direction == "out":
            outbox = self.outboxes[edge.peer]
            tally, oldest = outbox.tally, outbox.oldest()
            age = 0.0 if oldest is None else now - oldest
        return edge.state(self.name(edge.peer), now, age, tally)

    # -- rosters

    @property
    def offered(self) -> Roster | None:
        """A newer roster that is not in use yet."""
        return None if self.newest is self.roster else self.newest

    def brought(self, data: bytes) -> int:
        """Consider a neighbour's roster and return its version; `FrameError` if it is invalid."""
        try:
            roster = Roster.from_bytes(data, self.roster.founder)
            self.consider(roster)
            return roster.version
        except PeerError as error:
            why = "roster_fork" if isinstance(error, RosterForkError) else "roster"
            raise FrameError(why, str(error)) from None

    def consider(self, roster: Roster) -> None:
        """Use a newer roster at once if it is of this epoch, else offer it.

        Peers that it removes are cut off either way.
        """
        roster.verify(self.roster.founder)
        with self.lock:
            if not roster.succeeds(self.newest):
                return
            same_epoch = roster.epoch == self.roster.epoch
            if same_epoch:
                self._use(roster)
            else:
                self.newest = roster
                self._halt_if_removed(roster)
        if same_epoch:
            self._tell_in_use(roster)
        else:
            what = f"roster version {roster.version} arrived, of epoch {roster.epoch}"
            self.tell("roster", "", f"{what}; this run stays in {self.roster.epoch}")
        self.rewire()
        self.keep()

    def adopt(self, roster: Roster) -> None:
        """Use a newer roster, also of a new epoch."""
        roster.verify(self.roster.founder)
        with self.lock:
            if not roster.succeeds(self.roster):
                raise PeerError(
                    f"Version {roster.version} of the roster is not newer than version "
                    f"{self.roster.version}."
                )
            self._use(roster)
        self._tell_in_use(roster)
        self.rewire()
        self.keep()

    def _use(self, roster: Roster) -> None:
        new_epoch = roster.epoch != self.roster.epoch
        self.roster = roster
        if self.newest.version <= roster.version:
            self.newest = roster
        for outbox in self.outboxes.values():
            outbox.forget_epochs(roster.epoch)
        if new_epoch:
            for inbox in self.inboxes.values():
                inbox.start_epoch()
            for edge in self.edges.values():
                edge.part = None
        self._wire()
        self._halt_if_removed(roster)
        self.waiters.wake_all()
        self.make_room()
        self.record("adopt", version=roster.version, epoch=roster.epoch)

    def _tell_in_use(self, roster: Roster) -> None:
        what = f"using roster version {roster.version}, epoch {roster.epoch}"
        self.tell("roster", "", f"{what}, {len(roster.members)} members")

    def barred(self, peer: str) -> bool:
        """Whether the newest roster known has no such peer."""
        return not self.newest.has(peer)

    def linked(self, peer: str) -> bool:
        """Whether there is a link with this peer, in either direction."""
        return not (self.closed("in", peer) and self.closed("out", peer))

    def peers(self) -> list[str]:
        """All peers with which there is a link."""
        return [peer for peer in {peer: None for _, peer in self.edges} if not self.barred(peer)]

    def closed(self, direction: str, peer: str) -> bool:
        """Whether the newest roster has no such link or peer."""
        return (direction, peer) not in self.edges or self.barred(peer)

    def connected(self, peer: str) -> bool:
        """Whether a link with this peer is up."""
        return any(edge.up for edge in self._edges(peer))

    def lost(self, peer: str) -> bool:
        """Whether its link was up and is down, or has been down for longer than `wait`."""
        edges, long_ago = self._edges(peer), self.clock() - self.settings.wait
        return not self.connected(peer) and any(
            edge.was_up or edge.since <= long_ago for edge in edges
        )

    def _halt_if_removed(self, roster: Roster) -> None:
        if not roster.has(self.me):
            text = (
                f"The founder removed this peer from the federation: version {roster.version} of "
                "the roster, signed, has no place for it. What it learnt is kept. To take part "
                "again, ask the founder for an invitation."
            )
            self.halt(ExcludedError(text))

    def _halt_if_excluded(self) -> None:
        """Stop if every neighbour refuses this process for good.

        One alone does not suffice: a member that lies could stop its neighbours.
        """
        peers = self.peers()
        if peers and all(peer in self._excluded for peer in peers):
            words = sorted(set(self._excluded.values()))
            why = "; ".join(f"{word} ({REASONS[word]})" for word in words)
            text = f"Every neighbour refuses this peer: {why}. Starting it again does not help."
            self.halt(ExcludedError(text))

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
                self.inboxes[peer] = Inbox(peer, self.settings.keeps_late)
                self.inboxes[peer].floor = (self.want, 0)
        for way, peer in list(self.edges):
            if peer not in targets and peer not in sources and self.greetings.current(peer) is None:
                self.greetings.forget(peer)  # a peer that is removed and comes back is new
            if peer not in (targets if way == "out" else sources):
                del self.edges[way, peer]
                if way == "out":
                    self.outboxes.pop(peer).forget_all("no_link")
                else:
                    del self.inboxes[peer]

    def _outbox(self, peer: str) -> Outbox:
        def note(what: str, entry: Entry) -> None:
            parcel = entry.parcel
            order = {"number": entry.number, "seq": entry.seq, "round": entry.round}
            self.record(
                what,
                channel=-1 if parcel is None else parcel.channel,
                mode=entry.mode,
                incarnation=self.incarnation,
                to=peer,
                **order,
                mix_index=0 if parcel is None else parcel.mix_index,
                **({"why": entry.receipt.reason} if what == "refuse" else {}),
            )

        noted = {} if self.history is None else {"note": note}
        settings = self.settings
        return Outbox(peer, settings.outbox, settings.retain, window=settings.window, **noted)
