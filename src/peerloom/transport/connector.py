"""Dialling: a thread for each missing peer, with growing pauses between attempts."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from secrets import SystemRandom

from ..errors import PeerError
from .buckets import Bucket
from .connection import Connection
from .conversation import Conversation
from .frames import FrameError
from .greeting import RefusedByPeerError
from .links import LinkTable
from .reasons import ALARMS
from .tls import greeting_of, reason_of
from .types import RefusedError
from .ways import Reached, Ways

__all__ = ["Connector"]

_jitter = SystemRandom()
_HURRIES = 1.0, 4.0  # dials out of turn to one peer: a second, at once


class Connector:
    """Connects with all wanted peers, and hands each connection to `add`."""

    def __init__(self, table: LinkTable, ways: Ways, add: Callable[[Connection], None]) -> None:
        self._table, self._ways, self._add = table, ways, add
        self._change = threading.Condition(table.lock)
        self._wanted: list[str] = []
        self._threads: dict[str, threading.Thread] = {}
        self._open: set[Connection] = set()  # being greeted
        # By peer: when it was last reached, how many parcels had passed by then, the next pause.
        self._reached: dict[str, tuple[float, int, float]] = {}
        self._hurried: set[str] = set()  # peers that are to be dialled now
        self._hurries: dict[str, Bucket] = {}  # how often a relay may ask for that
        self._direct_tried: dict[str, float] = {}  # of peers whose links go through a relay
        self._stopping = False
        self._thread = threading.Thread(target=self._start_all, name="connector", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def want(self, peer: str) -> None:
        """Ask for a connection with a peer; returns at once."""
        with self._table.lock:
            self._wanted.append(peer)
            self._change.notify_all()

    def hurry(self, peer: str) -> None:
        """Dial a missing peer now: it has just come to a relay."""
        with self._table.lock:
            if peer not in self._threads:
                return
            budget = self._hurries.setdefault(peer, Bucket(*_HURRIES))
            if budget.spare(1, time.monotonic()):
                self._hurried.add(peer)
                self._change.notify_all()

    def stop(self) -> None:
        """Stop dialling, and end the threads."""
        with self._table.lock:
            self._stopping = True
            self._change.notify_all()
            threads = list(self._threads.values())
            for connection in self._open:
                connection.cut()
        if self._thread.ident is not None:
            self._thread.join()
        for thread in threads:
            thread.join(self._table.settings.dead)

    def _start_all(self) -> None:
        """Start dialling threads here, not in the thread that notices a lost connection."""
        with self._table.lock:
            while not self._stopping:
                pause = self._table.settings.direct_again / 10
                while self._wanted:
                    peer = self._wanted.pop()
                    if peer not in self._threads and self._missing(peer):
                        name = f"to-{self._table.name(peer)}"
                        if not self._begin(peer, name, self._run, peer):
                            self._wanted.append(peer)
                            pause = self._table.settings.backoff[1]
                            break
                for peer in self._due_for_direct():
                    self._begin(f"direct {peer}", "direct", self._try_direct, peer)
                self._change.wait(pause)

    def _begin(self, key: str, name: str, work: Callable[[str], None], peer: str) -> bool:
        """Start a thread; whether the system had one free."""
        thread = threading.Thread(target=work, args=(peer,), name=name, daemon=True)
        self._threads[key] = thread
        try:
            thread.start()
        except RuntimeError:
            del self._threads[key]
            return False
        return True

    def _missing(self, peer: str) -> bool:
        table = self._table
        return not self._stopping and table.linked(peer) and table.greetings.current(peer) is None

    def _run(self, peer: str) -> None:
        first, longest = self._table.settings.backoff
        # If both dial, the connection of the higher id does not stay: it gives a head start.
        pause, wait = first, first if self._table.me > peer else 0.0
        when, passed, last = self._reached.get(peer, (0.0, -1, first))
        if passed == self._table.passed(peer) and time.monotonic() < when + longest:
            # The peer greets and hangs up: pause ever longer until a parcel has passed.
            wait, pause = last * _jitter.uniform(0.5, 1.0), min(2 * last, longest)
        while self._goes_on(peer, max(wait, self._table.greetings.held(peer))):
            try:
                passed = self._table.passed(peer)
                self._dial(peer)
                self._reached[peer] = (time.monotonic(), passed, pause)
                wait, pause = pause, min(2 * pause, longest)
            except RefusedByPeerError as refusal:
                wait = first if refusal.why == "crossed" else longest * _jitter.uniform(0.5, 1.0)
                if refusal.why == "second_process":  # the one before may be gone in a moment
                    wait, pause = pause * _jitter.uniform(0.5, 1.0), min(2 * pause, longest)
                if refusal.why != "crossed":
                    self._table.refuse(peer, f"by_peer_{refusal.why}")
                    self._table.not_reached(peer, refusal.why)
            except (OSError, PeerError) as error:
                self._fail(peer, error)
                wait, pause = pause * _jitter.uniform(0.5, 1.0), min(2 * pause, longest)
            except Exception as error:  # noqa: BLE001  (counted and logged)
                # No word of a peer may end this thread: the peer would not be dialled again.
                self._table.fault(peer, error)
                self._table.not_reached(peer, "internal")
                wait = longest * _jitter.uniform(0.5, 1.0)

    def _goes_on(self, peer: str, seconds: float) -> bool:
        """Pause, then say whether the peer is still missing; if not, forget this thread."""
        with self._table.lock:
            missing = self._still_missing(peer, seconds)
            if not missing:
                del self._threads[peer]
            return missing

    def _still_missing(self, peer: str, seconds: float) -> bool:
        """Whether the peer is missing after a pause, which ends early if that changes."""
        end = time.monotonic() + seconds
        while self._missing(peer) and (left := end - time.monotonic()) > 0:
            if peer in self._hurried:
                break
            self._change.wait(left)
        self._hurried.discard(peer)
        return self._missing(peer)

    def _dial(self, peer: str) -> None:
        if self._ways.is_called_directly(peer):
            with self._table.lock:  # the head start of the direct way is the other side's
                self._hurried.discard(peer)
                if not self._still_missing(peer, self._table.settings.relay_after):
                    return
        late = time.monotonic() + self._table.settings.dead
        self._greet(peer, self._ways.reach(peer, late), self._missing)

    def _greet(self, peer: str, reached: Reached, wanted: Callable[[str], bool]) -> None:
        """Greet a peer that was reached, unless that is not wanted any more."""
        table, settings = self._table, self._table.settings
        stream, way, congestion = reached
        with contextlib.ExitStack() as undo:
            undo.callback(stream.close)
            with table.lock:
                if not wanted(peer):
                    return
                form = greeting_of(stream)
                talk = Conversation(table, peer, True, time.monotonic(), form)
                talk.way = way
                connection = Connection(stream, talk, congestion)
                self._open.add(connection)
            try:
                connection.greet(time.monotonic() + settings.dead)
            except BaseException as error:
                table.ended(connection.conversation, reason_of(error))
                raise
            finally:
                with table.lock:
                    self._open.discard(connection)
            undo.pop_all()
        self._add(connection)

    # -- from a relay to the direct way

    def _relayed(self, peer: str) -> bool:
        talk = self._table.greetings.current(peer)
        return not self._stopping and talk is not None and talk.way != "direct"

    def _due_for_direct(self) -> list[str]:
        """The peers whose links go through a relay and have done so for long."""
        table, now, due = self._table, time.monotonic(), []
        for peer in table.peers():
            if not self._relayed(peer) or not table.roster.member(peer).addresses:
                self._direct_tried.pop(peer, None)
            elif now >= self._direct_tried.setdefault(peer, now) + table.settings.direct_again:
                self._direct_tried[peer] = now
                due.append(peer)
        return due

    def _try_direct(self, peer: str) -> None:
        """Replace a link through a relay by a direct one, if there is a way now."""
        try:
            late = time.monotonic() + self._table.settings.dead
            self._greet(peer, self._ways.direct(peer, late), self._relayed)
        except (OSError, PeerError):
            pass  # the link through the relay stays
        finally:
            with self._table.lock:
                self._threads.pop(f"direct {peer}", None)

    def _fail(self, peer: str, error: OSError | PeerError) -> None:
        table = self._table
        if isinstance(error, RefusedError):
            if error.why == "crossed":
                return
            why = error.why
            table.refuse(peer, why)
        elif isinstance(error, FrameError):
            why = error.reason
            table.refuse(peer, why, str(error) if why in ALARMS else "")
        elif isinstance(error, OSError):
            why = reason_of(error)
            if why == "not_admitted":
                table.refuse(peer, f"by_peer_{why}")
        else:
            why = "removed"  # from the roster, just now
        table.not_reached(peer, "stopped" if self._stopping else why)
