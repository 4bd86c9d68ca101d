"""A peer's end of all its links: send parcels, receive them, see the links."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ..errors import ConfigError, PeerError
from .cards import Cards
from .collection import Answer, Collection
from .driver import Driver, TlsDriver
from .files import StateFolder
from .history import History
from .identity import Identity
from .links import LinkTable
from .lives import Lives
from .mapped import Scratch
from .outbound import Outbound
from .outbox import Outbox
from .roster import Roster
from .rosterbook import RosterBook
from .rosterkeeper import RosterKeeper
from .tls import Credentials
from .types import (
    Event,
    Gap,
    LinkState,
    Mode,
    Parcel,
    Receipt,
    RunIdentity,
    Settings,
    StopRequested,
    Wanted,
)  # fmt: skip

__all__ = ["Endpoint"]


class Endpoint:
    """A peer's end of all its links, over TLS: a `Transport`, which documents every method.

    The state directory belongs to one peer and one run; it holds the lock, the incarnation and the
    newest roster of the run's epoch. `listen` may name port 0 for any free one (see `port`), or
    be None for a peer that nobody can dial. With `history`, every event is kept for the checker.
    `keep` writes down the newest roster elsewhere, before the state directory does. `outbound` says
    how this site dials out.
    """

    _keeper: RosterKeeper | None = None

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        run: RunIdentity,
        state_dir: Path,
        listen: tuple[str, int] | None = ("127.0.0.1", 0),
        settings: Settings | None = None,
        on_event: Callable[[Event], None] | None = None,
        history: History | None = None,
        keep: Callable[[Roster], object] | None = None,
        outbound: Outbound | None = None,
    ) -> None:
        self._folder = StateFolder(Path(state_dir))
        driver: TlsDriver | None = None
        try:
            book = RosterBook(self._folder.folder / "roster.json", roster.founder)
            if book.current is None or roster.epoch <= book.current.epoch:
                book.offer(roster)
            assert book.current is not None
            incarnation = self._folder.next_incarnation()
            table = LinkTable(
                identity.id, book.current, run, incarnation, settings or Settings(),
                time.monotonic, on_event, history,
            )  # fmt: skip
            table.cards = Cards(run.run_id, time.monotonic, identity.sign)
            table.lives = Lives(self._folder.folder / "lives.json", run.run_id, incarnation)
            table.lives.begin(table.life, table.peers())
            table.allocate = Scratch(self._folder.folder / "inbox", table.settings.mapped)
            credentials = Credentials(identity, table.settings.versions)
            driver = TlsDriver(table, credentials, listen, outbound)
            self._build(table, driver, self._folder.close)
            self._keeper = keeper = RosterKeeper(table, book, keep)
            table.keep = keeper.try_to_save
            table.consider(roster)  # it may be of a later epoch than the run's
        except BaseException:
            if driver is not None:  # it holds sockets from the beginning
                driver.stop()
            self._folder.close()
            raise

    @classmethod
    def over(cls, table: LinkTable, driver: Driver) -> Self:
        """An endpoint over another driver than TLS, such as the memory of a test."""
        endpoint = cls.__new__(cls)
        endpoint._build(table, driver, lambda: None)
        return endpoint

    def _build(self, table: LinkTable, driver: Driver, release: Callable[[], None]) -> None:
        self._table, self._driver, self._release = table, driver, release
        self._batch: list[str] | None = None  # peers with parcels of `together` not yet sent
        version, epoch = table.roster.version, table.roster.epoch
        table.record("start", incarnation=table.incarnation, version=version, epoch=epoch)

    # -- start and end

    def start(self) -> None:
        """Open the links; returns at once."""
        self._driver.start()

    def close(self) -> None:
        """Say goodbye and end every thread; call `settle` before, or unacked parcels are lost."""
        self._driver.stop()
        self._release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def me(self) -> str:
        """The id of this peer."""
        return self._table.me

    @property
    def roster(self) -> Roster:
        """The roster in use."""
        return self._table.roster

    @property
    def incarnation(self) -> int:
        """How often this peer was started on its state directory."""
        return self._table.incarnation

    @property
    def wait(self) -> float:
        """A peer whose link is down for this many seconds is no longer waited for."""
        return self._table.settings.wait

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._driver.port

    # -- sending

    def send(
        self, peer: str, parcel: Parcel, mode: Mode = "ordered", repeat: bool = False
    ) -> Receipt:
        """Queue a parcel for a neighbour; returns at once."""
        table, parcel = self._table, parcel.frozen()
        channel = table.run.channels.get(parcel.channel)
        if channel is None or len(parcel.body) > channel.longest:
            most = f"up to {channel.longest} bytes ({channel.form})" if channel else "nothing"
            raise ConfigError(
                f"Channel {parcel.channel} carries {most}, not {len(parcel.body)} bytes. Channels "
                "are agreed on in RunIdentity."
            )
        with table.lock:
            self.raise_if_stopped()
            if table.closed("out", peer):
                return Receipt(peer, "refused", "no_link")
            now, epoch = table.clock(), table.roster.epoch
            receipt = self._outbox(peer).put(parcel, mode, epoch, now, repeat)
            if self._batch is not None:
                self._batch.append(peer)
                return receipt
            table.wake(peer)
        self._driver.flush()
        return receipt

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send the parcels of a block when it ends, or when something is waited for.

        Links that were woken one by one would only wait for the interpreter, which the sending
        thread still holds.
        """
        with self._table.lock:
            self._batch = []
        try:
            yield
        finally:
            self._send_batch(last=True)

    def _send_batch(self, last: bool = False) -> None:
        """Wake the links of all parcels of `together` so far."""
        if self._batch is None:
            return
        with self._table.lock:
            peers = self._batch or []
            self._batch = None if last or self._batch is None else []
            for peer in peers:
                self._table.wake(peer)
        self._driver.flush()

    def skip(self, round: int, peer: str | None = None) -> None:
        """Tell a neighbour, or all, that nothing more is sent for rounds up to this one."""
        table = self._table
        with table.lock:
            peers = list(table.outboxes) if peer is None else [peer]
            for other in peers:
                self._outbox(other).skip(round, table.roster.epoch, table.clock())
                table.wake(other)
        self._driver.flush()

    def withdraw(self, peer: str, before_round: int) -> int:
        """Drop unsent parcels of older rounds (counted superseded); how many there were."""
        with self._table.lock:
            return self._outbox(peer).withdraw(before_round)

    def settle(
        self,
        receipts: list[Receipt] | None,
        deadline_seconds: float,
        known: int | None = None,
    ) -> bool:
        """Wait until none of these, or with None nothing, is pending; False at the deadline.

        With `known`, the version of the roster that the caller knows, also False when there is a
        newer one, or when what came late is in the way (`crowded`).
        """
        table = self._table

        def over() -> bool:
            return self._interrupted(known) or not self._pending(receipts)

        end = table.clock() + deadline_seconds
        with table.lock:
            self._request_answers(receipts)
        self._send_batch()
        self._driver.flush()
        with table.lock:
            while not over():
                self.raise_if_stopped()
                if table.clock() >= end:
                    return False
                self._driver.wait(end - table.clock(), over)
            return not self._pending(receipts)

    def _pending(self, receipts: list[Receipt] | None) -> bool:
        if receipts is None:
            return any(outbox.tally.pending for outbox in self._table.outboxes.values())
        return any(receipt.outcome == "pending" for receipt in receipts)

    def _request_answers(self, receipts: list[Receipt] | None) -> None:
        """Let links ask at once for the answers that are waited for."""
        awaited = {each.peer for each in receipts or () if each.outcome == "pending"}
        for peer, outbox in self._table.outboxes.items():
            if outbox.tally.pending and (receipts is None or peer in awaited):
                outbox.request_answers()
                if outbox.answers_requested:
                    self._table.wake(peer)

    def _outbox(self, peer: str) -> Outbox:
        if peer not in self._table.outboxes:
            raise PeerError(
                f"There is no link from here to {self._table.name(peer)} in version "
                f"{self.roster.version} of the roster."
            )
        return self._table.outboxes[peer]

    # -- receiving

    def take(self, peer: str, round: int, mix_index: int, deadline_seconds: float) -> Answer:
        """The parcel of this place, once; None if it is late or the link is down too long."""
        wanted = Wanted(peer, round, mix_index)
        return self.receive_all([wanted], deadline_seconds)[wanted]

    def receive_all(
        self,
        wanted: list[Wanted],
        deadline_seconds: float,
        known: int | None = None,
        paced: bool = False,
        enough: int | None = None,
    ) -> dict[Wanted, Answer]:
        """`take` for many at once: returns as soon as each is there, skipped or given up.

        With `known`, the version of the roster that the caller knows, it also returns when there
        is a newer one, or when what came late is in the way (`crowded`), with the answers so far.
        With `paced`, a peer that is behind and catches up
        is given up at once. Once `enough` parcels are there, all others are given up.
        """
        self._send_batch()
        table = self._table
        collection = Collection(table, wanted, deadline_seconds, paced, enough)
        while True:
            with table.lock:
                self.raise_if_stopped()
                lines = collection.look()
                table.make_room()
                news = self._interrupted(known)
                if collection.open and not lines and not news:
                    ready = collection.ready(partial(self._interrupted, known))
                    self._driver.wait(collection.patience(), ready)
            for peer, text in lines:
                table.tell("late", peer, text)
            if not collection.open or news:
                self._driver.flush()  # to peers that waited for room
                return collection.answers

    def expect(
        self,
        round: int,
        missed: Mapping[str, Iterable[tuple[int, int]]] | None = None,
        gaps: Mapping[str, Iterable[Gap]] | None = None,
    ) -> None:
        """Go on at this round; parcels that came for earlier rounds are dropped."""
        with self._table.lock:
            self._table.want = round
            for peer, inbox in self._table.inboxes.items():
                given_up = (missed or {}).get(peer, ()), (gaps or {}).get(peer, ())
                stale = inbox.expect((round, 0), *given_up)
                self._table.edges["in", peer].frames["stale"] += stale
            self._table.make_room()  # a peer may wait for room that older parcels took
        self._driver.flush()

    def expect_late(self, peer: str, gap: Gap) -> None:
        """Go on after a gap with this peer; what came or comes for the gap is late."""
        with self._table.lock:
            if peer in self._table.inboxes:
                stale = self._table.inboxes[peer].expect(gap.end, (), [gap])
                self._table.edges["in", peer].frames["stale"] += stale
                self._table.make_room()
        self._driver.flush()

    def crowded(self) -> bool:
        """Whether what came late and is not covered leaves a peer no room for what is awaited."""
        with self._table.lock:
            return self._table.crowded()

    def _interrupted(self, known: int | None) -> bool:
        """Whether the caller that knows this version of the roster has something to do first."""
        return known is not None and (self._table.newest.version != known or self._table.crowded())

    def late(self, peer: str) -> list[Parcel]:
        """What came after it was given up, in order, each once."""
        with self._table.lock:
            inbox = self._table.inboxes.get(peer)
            return [] if inbox is None else inbox.late()

    def cover(self, peer: str, count: int) -> None:
        """Give the room of so many late parcels back: they are not needed again."""
        with self._table.lock:
            if peer in self._table.inboxes:
                self._table.inboxes[peer].cover(count)
                self._table.make_room()
        self._driver.flush()

    def newest(self, peer: str, channel: int) -> Parcel | None:
        """The newest parcel that came on a channel; it stays there."""
        with self._table.lock:
            inbox = self._table.inboxes.get(peer)
            return None if inbox is None else inbox.newest(channel)

    def wait_for_arrivals(self, seen: int, deadline_seconds: float) -> int:
        """Wait until more than `seen` parcels and skips have arrived in all; the count now."""
        self._send_batch()
        table = self._table
        end = table.clock() + deadline_seconds
        with table.lock:
            while table.news <= seen and table.clock() < end:
                self.raise_if_stopped()
                self._driver.wait(end - table.clock(), lambda: table.news > seen)
            return table.news

    # -- state of the links

    def links(self) -> list[LinkState]:
        """Every directed link of this peer."""
        return self._table.links()

    def connected(self, peer: str) -> bool:
        """Whether a link with this peer is up."""
        with self._table.lock:
            return self._table.connected(peer)

    def lost(self, peer: str) -> bool:
        """Whether its link was up and is down, or has been down for longer than `wait`."""
        with self._table.lock:
            return self._table.lost(peer)

    def refusals(self) -> dict[str, int]:
        """Connections and frames refused here, by reason."""
        with self._table.lock:
            return dict(self._table.refusals)

    # -- cards

    def share(self, facts: Mapping[str, Any]) -> None:
        """Sign a card with these facts of this peer, and pass it on."""
        table = self._table
        whose = {"member": self.me, "incarnation": self.incarnation, "run": table.run.run_id}
        with table.lock:
            links = [[link.peer[:7], link.way] for link in table.links() if link.up]
            several = {"links": links, "roster": table.roster.version}
            table.cards.share({**facts, **whose, **several})
            for talk in table.greetings.all():
                table.wake(talk.peer)
        self._driver.flush()

    def cards(self) -> list[tuple[Mapping[str, Any], float]]:
        """What the newest card of every member says, and its age in seconds."""
        with self._table.lock:
            found = self._table.cards.all(self._table.newest)
        return [(card.facts, age) for card, age in found]

    # -- rosters

    def offered(self) -> Roster | None:
        """A newer roster that neighbours brought and that waits for `adopt`."""
        return self._table.offered

    def adopt(self, roster: Roster) -> None:
        """Use a newer roster."""
        self._table.adopt(roster)

    def consider(self, roster: Roster) -> None:
        """Consider a roster that came by another way than the links."""
        self._table.consider(roster)

    def unasked(self) -> list[str]:
        """Names of neighbours that have not said which roster they have, or not brought it yet."""
        table = self._table
        with table.lock:
            asked = {
                talk.peer
                for talk in table.greetings.all()
                if talk.state == "up" and talk.roster_there <= table.newest.version
            }
            return [table.name(peer) for peer in table.peers() if peer not in asked]

    @property
    def roster_unsaved(self) -> bool:
        """Whether the roster in use, or one that was offered, is not on disk."""
        return self._keeper is not None and self._keeper.unsaved

    def save_roster(self) -> None:
        """Write down the newest roster if it is not on disk; OSError if that fails."""
        if self._keeper is not None:
            self._keeper.save()

    def refuse(self, why: str, detail: str, peer: str = "") -> None:
        """Count and report that something was refused: of a peer, or of this peer's own folder."""
        self._table.refuse(peer or self.me, why, detail)

    def closed(self, direction: Literal["in", "out"], peer: str) -> bool:
        """Whether the newest roster has no such link."""
        with self._table.lock:
            return self._table.closed(direction, peer)

    def halt(self, error: PeerError, word: str = "stopped") -> None:
        """Let every wait raise this error."""
        self._table.halt(error, word)
        self._driver.flush()

    def request_stop(self) -> None:
        """Let every wait, now or later, raise `StopRequested`; see `Transport`."""
        self._table.stop_requested = True
        self._driver.interrupt()

    def raise_if_stopped(self) -> None:
        """Raise what ends this run, if something does: a stop, or a halt."""
        if self._table.stop_requested:
            raise StopRequested
        if self._table.halted is not None:
            raise self._table.halted
