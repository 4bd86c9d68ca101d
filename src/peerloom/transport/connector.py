"""Dialling: a thread for each missing peer, with growing pauses between attempts."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from secrets import SystemRandom

from ..errors import PeerError
from .connection import Connection, tune
from .conversation import Conversation
from .frames import FrameError
from .greeting import RefusedByPeerError
from .links import LinkTable
from .reasons import ALARMS
from .roster import parse_address
from .tls import Credentials, peer_of, reason_of
from .tls_stream import TlsStream
from .types import RefusedError

__all__ = ["Connector"]

_jitter = SystemRandom()
_log = logging.getLogger("peerloom.transport")


class Connector:
    """Connects with all wanted peers, and hands each connection to `add`."""

    def __init__(
        self, table: LinkTable, credentials: Credentials, add: Callable[[Connection], None]
    ) -> None:
        self._table, self._credentials, self._add = table, credentials, add
        self._change = threading.Condition(table.lock)
        self._wanted: list[str] = []
        self._threads: dict[str, threading.Thread] = {}
        self._open: set[Connection] = set()  # being greeted
        # By peer: when it was last reached, how many parcels had passed by then, the next pause.
        self._reached: dict[str, tuple[float, int, float]] = {}
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
                while self._wanted:
                    peer = self._wanted.pop()
                    if peer not in self._threads and self._missing(peer):
                        name = f"to-{self._table.name(peer)}"
                        thread = threading.Thread(
                            target=self._run, args=(peer,), name=name, daemon=True
                        )
                        self._threads[peer] = thread
                        thread.start()
                self._change.wait()

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
        while self._goes_on(peer, wait):
            try:
                passed = self._table.passed(peer)
                self._dial(peer)
                self._reached[peer] = (time.monotonic(), passed, pause)
                wait, pause = pause, min(2 * pause, longest)
            except RefusedByPeerError as refusal:
                wait = first if refusal.why == "crossed" else longest * _jitter.uniform(0.5, 1.0)
                if refusal.why != "crossed":
                    self._table.refuse(peer, f"by_peer_{refusal.why}")
                    self._table.not_reached(peer, refusal.why)
            except (OSError, PeerError) as error:
                self._fail(peer, error)
                wait, pause = pause * _jitter.uniform(0.5, 1.0), min(2 * pause, longest)
            except Exception:  # noqa: BLE001  (logged)
                # No word of a peer may end this thread: the peer would not be dialled again.
                _log.exception("Dialling %s failed by a fault of the program.", peer[:7])
                self._table.not_reached(peer, "other")
                wait = longest * _jitter.uniform(0.5, 1.0)

    def _goes_on(self, peer: str, seconds: float) -> bool:
        """Pause, then say whether the peer is still missing; if not, forget this thread."""
        with self._table.lock:
            end = time.monotonic() + seconds
            while self._missing(peer) and (left := end - time.monotonic()) > 0:
                self._change.wait(left)
            missing = self._missing(peer)
            if not missing:
                del self._threads[peer]
            return missing

    def _dial(self, peer: str) -> None:
        table, settings = self._table, self._table.settings
        roster = table.roster
        with contextlib.ExitStack() as undo:
            raw = _connected(roster.member(peer).addresses, settings.dead)
            undo.callback(raw.close)
            congestion = tune(raw, settings.dead, settings.congestion)
            stream = TlsStream(raw, self._credentials.client(roster), server_side=False)
            stream.handshake(time.monotonic() + settings.dead)
            peer_of(stream, roster, peer)
            with table.lock:
                if not self._missing(peer):
                    return
                talk = Conversation(table, peer, dialled=True, now=time.monotonic())
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


def _connected(addresses: tuple[str, ...], patience: float) -> socket.socket:
    """A socket connected with the first address that answers."""
    failure: OSError = ConnectionRefusedError("the roster has no address for this peer")
    for address in addresses:
        try:
            return socket.create_connection(parse_address(address), timeout=patience)
        except OSError as error:
            failure = error
    raise failure
