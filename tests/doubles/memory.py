"""A network in memory with its own clock, for the endpoints and conversations that TLS has.

Bytes are cut into pieces anywhere and delayed, connections break with all that is in transit, both
sides dial at once, endpoints crash and start again. All of it follows from one seed, so a failure
that was seen once can be seen again. Time passes only while somebody waits.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from peerloom.errors import PeerError
from peerloom.transport import Endpoint, Event, History, Roster, RunIdentity, Settings
from peerloom.transport.conversation import Conversation
from peerloom.transport.frames import FrameError
from peerloom.transport.greeting import RefusedByPeerError
from peerloom.transport.links import LinkTable
from peerloom.transport.lives import Life, Lives
from peerloom.transport.mapped import Scratch
from peerloom.transport.schemas import GREETING, OLDEST, VERSION
from peerloom.transport.tls import reason_of
from peerloom.transport.types import RefusedError

from .scheduler import CrashedError, Scheduler

__all__ = ["CrashedError", "Faults", "MemoryNetwork"]


@dataclass(frozen=True)
class Faults:
    """How bad the network is.

    `delay` is drawn for every piece; pieces of one connection never overtake each other.
    """

    breaks: float = 0.0
    """How likely a piece is the last of its connection, and lost with all that is under way."""
    delay: tuple[float, float] = (0.001, 0.01)
    pieces: tuple[int, ...] = (7, 100, 5000, 1 << 30)
    """Bytes that travel together, one of these."""


class MemoryNetwork:
    """All peers of a roster in one process: `endpoint(peer)` starts one, `crash(peer)` kills it.

    Calls that wait (`take`, `settle`, `wait_for_arrivals`) make the network move. To run whole
    engines against each other, give their main functions to `run`: they become threads of which
    exactly one works at a time, in an order drawn from the seed.
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
        scratch: Path | None = None,
    ) -> None:
        self._scratch = scratch  # where parcels lie that are not to be held in memory
        self._roster, self._run, self.faults = roster, run, faults or Faults()
        self._settings, self._history, self._on_event = settings or Settings(), history, on_event
        self.random = random.Random(seed)
        self._lock = threading.RLock()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._lives: dict[str, int] = {}
        self._kept: dict[str, Lives] = {}  # what lies in the peers' state folders
        self.newest: dict[str, int] = {}  # the newest version that a peer's next process speaks
        self.drivers: dict[str, MemoryDriver] = {}
        self.now = 0.0
        self._scheduler = Scheduler(self._lock, self.random, self._move, lambda: self.now)

    # -- endpoints

    def endpoint(self, peer: str, roster: Roster | None = None) -> Endpoint:
        """A new process of a peer, with the next incarnation."""
        with self._lock:
            self.crash(peer)
            self._lives[peer] = self._lives.get(peer, 0) + 1
            history = None if self._history is None else self._history(peer)
            chosen, life, clock = roster or self._roster, self._lives[peer], lambda: self.now
            newest = self.newest.get(peer, VERSION)
            settings = replace(self._settings, versions=(OLDEST, newest))
            table = LinkTable(
                peer, chosen, self._run, life, settings,
                clock, self._on_event, history, self._lock,
            )  # fmt: skip
            table.life = Life(life, self.random.getrandbits(62))
            table.lives = self._kept.setdefault(peer, Lives())
            if self._scratch is not None:
                folder = self._scratch / peer[:8]
                folder.mkdir(exist_ok=True)
                table.allocate = Scratch(folder / "inbox", self._settings.mapped)
            return Endpoint.over(table, MemoryDriver(self, table))

    def crash(self, peer: str) -> None:
        """End a peer as kill -9 would: its memory is gone, and so are its connections."""
        with self._lock:
            driver = self.drivers.pop(peer, None)
            if driver is not None:
                driver.running = False
                for line in list(driver.lines):
                    line.break_("closed")

    def pass_time(self, seconds: float) -> None:
        """Let the network move for a while."""
        with self._lock:
            end = self.now + seconds
            while self.now < end or (self._queue and self._queue[0][0] <= end):
                self._move(end)

    def run(
        self,
        programs: dict[str, Callable[[Endpoint], object]],
        crashes: list[tuple[float, str, float]] | None = None,
    ) -> dict[str, object]:
        """Run a function per peer to its end; what each returned.

        `crashes` are (time, peer, seconds until it starts again): the function is then called anew
        with the endpoint of the next process. Inside it `CrashedError` ends whatever was going on.
        """
        for when, peer, seconds in crashes or []:
            self.at(when, lambda peer=peer, seconds=seconds: self._kill(peer, seconds))  # type: ignore[misc]
        return self._scheduler.run(programs, self.endpoint)

    def upgrade(self, when: float, peer: str, newest: int) -> None:
        """Let the processes of a peer that begin after this moment speak up to this version."""
        if when <= self.now:
            self.newest[peer] = newest
        else:
            self.at(when, lambda: self.newest.update({peer: newest}))

    def _kill(self, peer: str, seconds: float) -> None:
        if peer in self.drivers:
            self.crash(peer)
            self._scheduler.crash(peer, self.now + seconds)

    # -- time

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a moment of the network's clock."""
        heapq.heappush(self._queue, (when, next(self._count), action))

    def later(self, action: Callable[[], None], bounds: tuple[float, float] = (0.0, 0.0)) -> None:
        """Do something after a time drawn between these bounds."""
        self.at(self.now + self.random.uniform(*bounds), action)

    def _move(self, limit: float) -> None:
        """The next event, or the passing of time up to a limit."""
        if self._queue and self._queue[0][0] <= limit:
            when, _, action = heapq.heappop(self._queue)
            self.now = max(self.now, when)
            action()
        else:
            self.now = max(self.now, limit)

    def wait(self, table: LinkTable, seconds: float) -> None:
        """A peer waits: others work, bytes travel."""
        if self._scheduler.running:
            self._scheduler.park(table, self.now + seconds)
        else:
            self._move(self.now + max(seconds, 0.0))


class MemoryDriver:
    """The driver of one endpoint: dials, and moves bytes over the lines it has."""

    port = 0

    def __init__(self, network: MemoryNetwork, table: LinkTable) -> None:
        self.network, self.table, self.running = network, table, False
        self.lines: list[_Line] = []
        self._dialling: set[str] = set()
        table.rewire, table.cut, table.wake = self._rewire, self._cut, self._wake

    def start(self) -> None:
        """Dial everybody."""
        with self.table.lock:
            self.running = True
            self.network.drivers[self.table.me] = self
            self._rewire()

    def stop(self) -> None:
        """Vanish."""
        if self.network.drivers.get(self.table.me) is self:
            self.network.crash(self.table.me)

    def flush(self) -> None:
        """Nothing to do: a connection that is woken goes on at once."""

    def wait(self, seconds: float, ready: Callable[[], bool]) -> None:
        """Wait."""
        self.network.wait(self.table, seconds)

    def interrupt(self) -> None:
        """End every wait."""
        self.table.waiters.wake_all()

    def dial(self, peer: str, first: bool = False) -> None:
        """Try to reach a peer, again and again, until there is a connection."""
        if peer not in self._dialling:
            self._dialling.add(peer)
            longest = self.table.settings.backoff[0]
            self.network.later(lambda: self._try(peer), (0.0, longest if not first else 0.001))

    def _try(self, peer: str) -> None:
        self._dialling.discard(peer)
        greetings = self.table.greetings
        if not self.running or not self.table.linked(peer) or greetings.current(peer) is not None:
            return
        other = self.network.drivers.get(peer)
        if other is None or any(
            line.greets(self) and line.peer_of(self) == peer for line in self.lines
        ):
            self.dial(peer)
        else:
            _Line(self, other)

    def ended(self, conversation: Conversation, error: BaseException | None) -> None:
        """A connection is over at this end."""
        why = "goodbye" if error is None else reason_of(error)
        if isinstance(error, (RefusedByPeerError, RefusedError)):
            why = error.why
        if isinstance(error, FrameError):
            why = error.reason
        quiet = why == "crossed" or (
            isinstance(error, OSError) and not isinstance(error, RefusedByPeerError)
        )
        if not quiet and error is not None:
            by = "by_peer_" if isinstance(error, RefusedByPeerError) else ""
            self.table.refuse(conversation.peer, by + why)
        self.table.ended(conversation, why)
        self.dial(conversation.peer)

    def _wake(self, peer: str) -> None:
        conversation = self.table.greetings.current(peer)
        for line in self.lines:
            if conversation in line.talks:
                self.network.later(lambda line=line: line.pump(self))  # type: ignore[misc]

    def _cut(self, conversation: Conversation) -> None:
        for line in self.lines:
            if conversation in line.talks:
                self.network.later(lambda line=line: line.break_("closed"))  # type: ignore[misc]

    def _rewire(self) -> None:
        with self.table.lock:
            if not self.running:
                return
            for conversation in self.table.greetings.all():
                if not self.table.linked(conversation.peer) or not conversation.fits():
                    conversation.leave(
                        "removed" if not self.table.linked(conversation.peer) else "rewired"
                    )
                self._wake(conversation.peer)
            for peer in self.table.peers():
                if self.table.greetings.current(peer) is None:
                    self.dial(peer, first=True)


class _Line:
    """One connection: two conversations, and the bytes that are on their way between them."""

    def __init__(self, dialler: MemoryDriver, listener: MemoryDriver) -> None:
        self._network, self._ends = dialler.network, (dialler, listener)
        now = self._network.now
        # TLS would agree on the form of the greeting: the best that both know.
        newest = min(driver.table.settings.versions[1] for driver in self._ends)
        form = GREETING if newest >= GREETING else OLDEST
        self.talks = (
            Conversation(dialler.table, listener.table.me, True, now, form),
            Conversation(listener.table, dialler.table.me, False, now, form),
        )
        self._open = [True, True]
        self._broken = self._doomed = False
        self._arrives = [now, now]  # when the last piece that was sent to each end is there
        self._armed = [math.inf, math.inf]  # when each end looks again
        for driver in self._ends:
            driver.lines.append(self)
        for driver in self._ends:
            self.pump(driver)

    def greets(self, driver: MemoryDriver) -> bool:
        """Whether this end dialled, and was not answered yet."""
        return self._ends[0] is driver and self.talks[0].state == "greeting"

    def peer_of(self, driver: MemoryDriver) -> str:
        """Who is at the other end."""
        return self.talks[self._ends.index(driver)].peer

    def break_(self, why: str) -> None:
        """The connection is gone, with all that was under way."""
        self._broken = True
        for end in (0, 1):
            self._end(end, ConnectionError(why))

    def pump(self, driver: MemoryDriver) -> None:
        """Send what this end has to say, in pieces."""
        end, network = self._ends.index(driver), self._network
        talk = self.talks[end]
        while self._open[end] and (piece := talk.outgoing(network.now)):
            count = min(len(piece), network.random.choice(network.faults.pieces))
            data = bytes(piece[:count])
            talk.sent(count)
            if not self._doomed and network.random.random() < network.faults.breaks:
                self._doomed = True  # from here on nothing arrives
                network.later(lambda: self.break_("closed"), network.faults.delay)
            if not self._doomed:
                self._send(1 - end, data)
        if self._open[end] and talk.finished:
            self._end(end, None)
        self._arm(end)

    def _send(self, to: int, data: bytes) -> None:
        network = self._network
        when = max(self._arrives[to], network.now + network.random.uniform(*network.faults.delay))
        self._arrives[to] = when
        network.at(when, lambda: self._arrive(to, data))

    def _arrive(self, end: int, data: bytes) -> None:
        """Bytes are there; none are the end of the connection."""
        if self._broken or not self._open[end]:
            return
        talk, driver = self.talks[end], self._ends[end]
        error: BaseException | None = None
        try:
            if not data:
                raise ConnectionError("closed")
            left = memoryview(data)
            while left:
                into = talk.buffer()
                here = min(len(into), len(left))
                into[:here] = left[:here]
                talk.received(here, self._network.now)
                left = left[here:]
        except (OSError, PeerError) as raised:
            error = raised
        if talk.news:
            talk.news = False
            driver.table.waiters.arrived()
        self.pump(driver)
        if error is not None:
            self._end(end, error)

    def _end(self, end: int, error: BaseException | None) -> None:
        if not self._open[end]:
            return
        self._open[end] = False
        driver = self._ends[end]
        driver.lines.remove(self)
        if not self._broken:
            self._send(1 - end, b"")
        if driver.running:
            driver.ended(self.talks[end], error)

    def _arm(self, end: int) -> None:
        """Look again when time alone changes something."""
        due = self.talks[end].deadline()
        if self._open[end] and due < self._armed[end]:
            self._armed[end] = due
            self._network.at(due, lambda: self._tick(end))

    def _tick(self, end: int) -> None:
        talk, now = self.talks[end], self._network.now
        self._armed[end] = math.inf
        if not self._open[end]:
            return
        if now < talk.deadline():
            self._arm(end)
            return
        try:
            talk.tick(now)
        except TimeoutError as error:
            self._end(end, error)
        else:
            self.pump(self._ends[end])
