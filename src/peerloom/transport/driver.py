"""What moves bytes between conversations: the protocol that an endpoint needs of it, and the one that uses TLS."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

from .connection import Connection
from .connector import Connector
from .conversation import Conversation, RefusedByPeerError
from .frames import FrameError
from .links import LinkTable
from .listener import Listener
from .loop import Loop
from .reasons import ALARMS
from .tls import Credentials, reason_of
from .types import RefusedError

__all__ = ["Driver", "TlsDriver"]

_GOODBYE = 0.5  # seconds in which all links together may finish what they are at


class Driver(Protocol):
    """What moves bytes between conversations, and passes time."""

    @property
    def port(self) -> int:
        """Where it listens; 0 if nowhere."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End, and leave nothing behind."""

    def push(self) -> None:
        """Let what was woken go, now, if the calling thread is to see to it; call it without the table's lock."""

    def rest(self, seconds: float, ripe: Callable[[], bool]) -> None:
        """Wait, with the table's lock held, until the table changes or the time is over; arrivals that leave `ripe` false
        may be slept through.
        """

    def interrupt(self) -> None:
        """End every wait: a stop was requested. A signal's handler may call this."""


class TlsDriver:
    """Sockets and threads: a listener, a connector, and one loop or several."""

    def __init__(self, table: LinkTable, credentials: Credentials, listen: tuple[str, int]) -> None:
        self._table = table
        self._connector = Connector(table, credentials, self._add)
        self._listener = Listener(table, credentials, self._add, self._connector.want, listen)
        small = table.longest <= table.settings.large
        many = 1 if small else max(1, min(len(table.peers()), os.cpu_count() or 1))
        self._loops = [Loop(table, self._ended) for _ in range(many)]
        self._lends = small  # whether those who wait drive the loop meanwhile
        self._at: dict[Conversation, tuple[Loop, Connection]] = {}
        self._gone = threading.Condition(table.lock)
        self._started = self._stopping = False
        self.port = self._listener.port
        table.rewire, table.cut, table.wake = self._rewire, self._cut, self._wake

    def start(self) -> None:
        """Listen and dial."""
        if not self._started:
            self._started = True
            for loop in self._loops:
                loop.start()
            self._connector.start()
            self._listener.start()
            self._rewire()

    def stop(self) -> None:
        """Say goodbye to all and end every thread."""
        table = self._table
        with table.lock:
            stopping, self._stopping = self._stopping, True
            table.greetings.open = False
            for conversation in table.greetings.all():
                conversation.leave(table.farewell)
                self._wake(conversation.peer)
        if stopping:
            return
        self._push(resign=True)
        end = time.monotonic() + _GOODBYE
        with table.lock:
            while (self._at or table.greetings.all()) and (left := end - time.monotonic()) > 0:
                self._gone.wait(left)
        self._listener.stop()
        self._connector.stop()
        for loop in self._loops:
            loop.stop()

    def push(self) -> None:
        """Let what was woken go."""
        self._push(resign=False)

    def rest(self, seconds: float, ripe: Callable[[], bool]) -> None:
        """Wait, with the lock held, until it is ripe, links or rosters change, or the time is over."""
        table, loop, seconds = self._table, self._loops[0], max(seconds, 0.0)
        if not (self._lends and loop.claim()):
            condition = threading.Condition(table.lock)
            with table.waiters.waiting(condition.notify, ripe):
                condition.wait(seconds)
            return
        with table.waiters.waiting(loop.notify, ripe):
            try:
                table.lock.release()  # once: nobody waits who holds it twice
                loop.drive(seconds)
            finally:
                table.lock.acquire()
        if table.waiters:  # others must not wait until this thread comes again
            loop.resign()

    def interrupt(self) -> None:
        """End every wait."""
        for loop in self._loops:
            loop.ring()

    # -- connections

    def _push(self, resign: bool) -> None:
        for loop in self._loops:
            if resign:
                loop.resign()
            loop.push()

    def _add(self, connection: Connection) -> None:
        """A connection whose conversation is up; from now on a loop drives it."""
        with self._table.lock:
            loop = min(self._loops, key=len)
            self._at[connection.conversation] = (loop, connection)
            edge = self._table.edges.get(("out", connection.conversation.peer))
            if edge is not None:
                edge.congestion = connection.congestion
            if self._stopping:
                connection.conversation.leave("stopped")
            loop.wake(connection)
        loop.resign()
        loop.push()

    def _wake(self, peer: str) -> None:
        conversation = self._table.greetings.current(peer)
        found = None if conversation is None else self._at.get(conversation)
        if found is not None:
            found[0].wake(found[1])

    def _cut(self, conversation: Conversation) -> None:
        found = self._at.get(conversation)
        if found is not None:
            found[1].cut()

    def _ended(self, connection: Connection, error: BaseException | None) -> None:
        """A loop has let go of a connection: count it, tell of it, dial again."""
        table, talk = self._table, connection.conversation
        why = "goodbye"
        if isinstance(error, RefusedByPeerError):
            why = error.why
            table.refuse(talk.peer, f"by_peer_{why}")
        elif isinstance(error, FrameError):
            why = error.reason
            table.refuse(talk.peer, why, str(error) if why in ALARMS else "")
        elif isinstance(error, RefusedError):
            why = error.why
        elif isinstance(error, Exception):
            why = reason_of(error)
        if self._stopping and why == "closed":
            why = "stopped"
        table.ended(talk, why)
        with table.lock:
            self._at.pop(talk, None)
            self._gone.notify_all()
        if not self._stopping:
            self._connector.want(talk.peer)

    def _rewire(self) -> None:
        """The roster has changed: end conversations whose links are no more, pass the roster on, dial whom we lack."""
        table = self._table
        with table.lock:
            if not self._started or self._stopping:
                return
            for conversation in table.greetings.all():
                if not table.linked(conversation.peer) or not conversation.fits():
                    conversation.leave(
                        "removed" if not table.linked(conversation.peer) else "rewired"
                    )
                    late = threading.Timer(_GOODBYE, self._cut, (conversation,))
                    late.daemon = True
                    late.start()
                self._wake(conversation.peer)
            for peer in table.peers():
                self._connector.want(peer)
        self.push()
