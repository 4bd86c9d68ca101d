"""What an engine holds in its hand: send parcels to neighbours, take theirs, see the links. One class over any carrier."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from ..errors import ConfigError, PeerError
from .board import Board
from .carrier import Carrier, TlsCarrier
from .files import StateFolder
from .history import History
from .identity import Identity
from .link import Credentials
from .outbox import Outbox
from .roster import Roster
from .rosterbook import RosterBook
from .types import Event, Keep, LinkState, Parcel, Receipt, RunIdentity, Settings, Skipped, Wanted

__all__ = ["Endpoint"]

Answer = Parcel | Skipped | None


class Endpoint:
    """A peer's end of all its links, over TLS. It is a `Post`; see there for every method.

    The state directory holds the lock, the incarnation and the newest roster; it belongs to one peer and one run.
    `listen` may name port 0 for any free one (see `port`). With `history` every event is kept for the checker.
    """

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        run: RunIdentity,
        state_dir: Path,
        listen: tuple[str, int] = ("127.0.0.1", 0),
        settings: Settings | None = None,
        on_event: Callable[[Event], None] | None = None,
        history: History | None = None,
    ) -> None:
        self._folder = StateFolder(Path(state_dir))
        try:
            book = RosterBook(self._folder.folder / "roster.json", roster.founder)
            if book.current is None or roster.epoch <= book.current.epoch:
                book.offer(roster)
            assert book.current is not None
            incarnation = self._folder.next_incarnation()
            chosen = settings or Settings()
            board = Board(identity.id, book.current, run, incarnation, chosen, time.monotonic, on_event, history)
            board.keep = book.offer
            self._build(board, TlsCarrier(board, Credentials(identity), listen), self._folder.close)
            board.consider(roster)  # one of a later epoch than the run's
        except BaseException:
            self._folder.close()
            raise

    @classmethod
    def over(cls, board: Board, carrier: Carrier) -> Self:
        """An endpoint over another carrier than TLS, such as the memory of a test."""
        endpoint = cls.__new__(cls)
        endpoint._build(board, carrier, lambda: None)
        return endpoint

    def _build(self, board: Board, carrier: Carrier, release: Callable[[], None]) -> None:
        self._board, self._carrier, self._release = board, carrier, release
        self._unwoken: list[str] | None = None  # whom parcels wait for that are being sent together
        board.record("start", incarnation=board.incarnation, version=board.roster.version, epoch=board.roster.epoch)

    # -- life

    def start(self) -> None:
        """Open the links; returns at once."""
        self._carrier.start()

    def close(self) -> None:
        """Say goodbye and end every thread. What was not acknowledged is lost with the process; `settle` before."""
        self._carrier.stop()
        self._release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def me(self) -> str:
        """The id of this peer."""
        return self._board.me

    @property
    def roster(self) -> Roster:
        """The roster in use."""
        return self._board.roster

    @property
    def incarnation(self) -> int:
        """How often this peer was started on its state directory."""
        return self._board.incarnation

    @property
    def wait(self) -> float:
        """A peer whose link is down for this many seconds is no longer waited for."""
        return self._board.settings.wait

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._carrier.port

    # -- sending

    def send(self, peer: str, parcel: Parcel, keep: Keep = "every", repeat: bool = False) -> Receipt:
        """Queue a parcel for a neighbour; returns at once."""
        board, parcel = self._board, parcel.frozen()
        channel = board.run.channels.get(parcel.channel)
        if channel is None or len(parcel.body) > channel.longest:
            most = f"up to {channel.longest} bytes ({channel.form})" if channel else "nothing"
            raise ConfigError(
                f"Channel {parcel.channel} carries {most}, not {len(parcel.body)} bytes. Channels are agreed on in "
                "RunIdentity."
            )
        with board.lock:
            self._go_on()
            if board.closed("out", peer):
                return Receipt(peer, "refused", "no_link")
            receipt = self._outbox(peer).put(parcel, keep, board.roster.epoch, board.clock(), repeat)
            if self._unwoken is not None:
                self._unwoken.append(peer)
                return receipt
        self._carrier.wake(peer)
        self._carrier.push()
        return receipt

    @contextmanager
    def together(self) -> Iterator[None]:
        """Parcels sent within go out when it ends, or when something is waited for: links that are woken one by one would
        only wait for the interpreter, which who sends still holds.
        """
        with self._board.lock:
            self._unwoken = []
        try:
            yield
        finally:
            self._go(last=True)

    def _go(self, last: bool = False) -> None:
        """Wake the links of all that was sent together so far."""
        if self._unwoken is None:
            return
        with self._board.lock:
            peers, self._unwoken = self._unwoken or [], None if last or self._unwoken is None else []
            for peer in peers:
                self._carrier.wake(peer)
        self._carrier.push()

    def skip(self, round: int, peer: str | None = None) -> None:
        """Tell a neighbour, or all, that nothing more is sent for rounds up to this one."""
        board = self._board
        with board.lock:
            peers = list(board.outboxes) if peer is None else [peer]
            for other in peers:
                self._outbox(other).skip(round, board.roster.epoch, board.clock())
        for other in peers:
            self._carrier.wake(other)
        self._carrier.push()

    def withdraw(self, peer: str, before_round: int) -> int:
        """Drop unsent parcels of older rounds (counted superseded); how many they were."""
        with self._board.lock:
            return self._outbox(peer).withdraw(before_round)

    def settle(self, receipts: list[Receipt] | None, deadline_seconds: float) -> bool:
        """Wait until none of these, or with None nothing at all, is pending; False if the deadline came first."""
        board = self._board
        end = board.clock() + deadline_seconds
        with board.lock:
            self._press(receipts)
        self._go()
        self._carrier.push()
        with board.lock:
            while self._pending(receipts):
                self._go_on()
                if board.clock() >= end:
                    return False
                self._carrier.rest(end - board.clock(), lambda: not self._pending(receipts))
        return True

    def _pending(self, receipts: list[Receipt] | None) -> bool:
        if receipts is None:
            return any(outbox.tally.pending for outbox in self._board.outboxes.values())
        return any(receipt.outcome == "pending" for receipt in receipts)

    def _press(self, receipts: list[Receipt] | None) -> None:
        """Let links ask at once for the answers that are waited for."""
        awaited = None if receipts is None else {receipt.peer for receipt in receipts if receipt.outcome == "pending"}
        for peer, outbox in self._board.outboxes.items():
            if outbox.tally.pending and (awaited is None or peer in awaited):
                outbox.press()
                if outbox.pressed:
                    self._carrier.wake(peer)

    def _outbox(self, peer: str) -> Outbox:
        if peer not in self._board.outboxes:
            raise PeerError(
                f"There is no link from here to {self._board.name(peer)} in version {self.roster.version} of the roster."
            )
        return self._board.outboxes[peer]

    # -- receiving

    def take(self, peer: str, round: int, turn: int, deadline_seconds: float) -> Answer:
        """The parcel of this round, once; None if it is late or the link is down for too long."""
        wanted = Wanted(peer, round, turn)
        return self.take_all([wanted], deadline_seconds)[wanted]

    def take_all(self, wanted: list[Wanted], deadline_seconds: float, known: int | None = None) -> dict[Wanted, Answer]:
        """The same for many at once: returns as soon as each is there, skipped or given up.

        Who says which version of the roster it knows is also told at once of a newer one, by what there is till then.
        """
        self._go()
        board, answers = self._board, dict[Wanted, Answer]()
        open_, begin = sorted(set(wanted)), board.clock()
        end, late = begin + deadline_seconds, begin + board.settings.late
        told: dict[str, Wanted] = {}
        while True:
            with board.lock:
                self._go_on()
                now = board.clock()
                open_ = [want for want in open_ if not self._answered(want, now, answers)]
                if now >= end:
                    for want in open_:
                        self._settle(want, None)
                        answers[want] = None
                    open_ = []
                board.make_room()
                lines = self._lateness(open_ if now >= late else [], answers, told, now - begin)
                news = known is not None and board.newest.version != known
                if open_ and not lines and not news:
                    # Whom people heard of is told of at once; otherwise one look is enough, when all are there.
                    ripe = partial(self._some if told else self._every, open_.copy())
                    self._carrier.rest(min(end, self._next_look(open_, now, late)) - now, ripe)
            for peer, text in lines:
                board.tell("late", peer, text)
            if not open_ or news:
                self._carrier.push()  # links that waited for room
                return {want: answers[want] for want in wanted if want in answers}

    def expect(self, round: int, missed: Mapping[str, Iterable[tuple[int, int]]] | None = None) -> None:
        """This peer goes on at this round; what came for earlier ones, if it is started already, is dropped."""
        with self._board.lock:
            self._board.want = round
            for peer, inbox in self._board.inboxes.items():
                self._board.edges["in", peer].frames["stale"] += inbox.expect(round, (missed or {}).get(peer, ()))
            self._board.make_room()  # a link may wait for room that older parcels took

    def late(self, peer: str) -> list[Parcel]:
        """What came after it was given up, in order, each once."""
        with self._board.lock:
            inbox = self._board.inboxes.get(peer)
            return [] if inbox is None else inbox.late()

    def newest(self, peer: str, channel: int) -> Parcel | None:
        """The newest parcel that came on a channel; it stays there."""
        with self._board.lock:
            inbox = self._board.inboxes.get(peer)
            return None if inbox is None else inbox.newest(channel)

    def wait_news(self, seen: int, deadline_seconds: float) -> int:
        """Wait until more than `seen` parcels and skips have arrived in all; the count now."""
        self._go()
        board = self._board
        end = board.clock() + deadline_seconds
        with board.lock:
            while board.news <= seen and board.clock() < end:
                self._go_on()
                self._carrier.rest(end - board.clock(), lambda: board.news > seen)
            return board.news

    def _answered(self, want: Wanted, now: float, answers: dict[Wanted, Answer]) -> bool:
        inbox, edge = self._board.inboxes.get(want.peer), self._board.edges.get(("in", want.peer))
        if inbox is None or edge is None or self._board.barred(want.peer):
            answers[want] = None
            return True
        answer = inbox.look(want.round, want.turn)
        gone = not edge.up and now >= edge.since + self._board.settings.wait  # the very moment that `_next_look` names
        if answer is None and not gone and (want.round, want.turn) >= inbox.floor:
            return False
        answers[want] = answer
        self._settle(want, answer)
        return True

    def _some(self, open_: list[Wanted]) -> bool:
        """Whether one of these has its answer."""
        return not all(map(self._awaited, open_))

    def _every(self, open_: list[Wanted]) -> bool:
        """Whether each of these has its answer; those that have are not looked at again."""
        while open_ and not self._awaited(open_[-1]):
            open_.pop()
        return not open_

    def _awaited(self, want: Wanted) -> bool:
        inbox = self._board.inboxes.get(want.peer)
        return inbox is not None and inbox.awaits(want.round, want.turn)

    def _settle(self, want: Wanted, answer: Answer) -> None:
        """This place is taken, skipped or given up."""
        inbox = self._board.inboxes.get(want.peer)
        if inbox is not None:
            leave = inbox.give_up if answer is None else inbox.pass_by
            self._board.edges["in", want.peer].frames["stale"] += leave(want.round, want.turn)

    def _next_look(self, open_: list[Wanted], now: float, late: float) -> float:
        """When to look again although nothing came: links may have been down for too long, and people want to know."""
        edges = [self._board.edges["in", want.peer] for want in open_]
        times = [edge.since + self._board.settings.wait for edge in edges if not edge.up]
        return min([*times, late if late > now else float("inf"), float("inf")])

    def _lateness(
        self, slow: list[Wanted], answers: dict[Wanted, Answer], told: dict[str, Wanted], seconds: float
    ) -> list[tuple[str, str]]:
        """What people should hear now: who is late, and what became of those who were."""
        board, lines = self._board, []
        for peer, want in list(told.items()):
            if want in answers:
                what = f"was given up for round {want.round}" if answers[want] is None else "is no longer late"
                lines.append((peer, f"{board.name(peer)} {what}: {seconds:.1f} s"))
                del told[peer]
        for want in slow:
            if want.peer not in told:
                told[want.peer] = want
                edge = board.edges["in", want.peer]
                link = "its link is up" if edge.up else f"its link is down for {board.clock() - edge.since:.1f} s"
                lines.append((want.peer, f"{board.name(want.peer)} is late: {seconds:.1f} s, round {want.round}, {link}"))
        return lines

    # -- seeing

    def links(self) -> list[LinkState]:
        """Every directed link of this peer."""
        return self._board.links()

    def refusals(self) -> dict[str, int]:
        """Connections and frames refused here, by reason."""
        with self._board.lock:
            return dict(self._board.refusals)

    # -- rosters

    def offered(self) -> Roster | None:
        """A newer roster that neighbours brought and that waits for `adopt`."""
        return self._board.offered

    def adopt(self, roster: Roster) -> None:
        """Use a newer roster."""
        self._board.adopt(roster)

    def consider(self, roster: Roster) -> None:
        """A roster that came by another way than the links."""
        self._board.consider(roster)

    def refuse(self, why: str, detail: str) -> None:
        """Count and tell that something of this peer's own was refused."""
        self._board.refuse(self.me, why, detail)

    def closed(self, direction: Literal["in", "out"], peer: str) -> bool:
        """Whether the newest roster has no such link."""
        with self._board.lock:
            return self._board.closed(direction, peer)

    def halt(self, why: str, word: str = "stopped") -> None:
        """End every wait with this error."""
        self._board.halt(why, word)

    def _go_on(self) -> None:
        if self._board.halted:
            raise PeerError(self._board.halted)
