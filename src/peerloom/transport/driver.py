"""What moves bytes between conversations: the `Driver` protocol, and the driver over TLS."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

from .connection import Connection
from .connector import Connector
from .conversation import Conversation
from .frames import FrameError
from .greeting import RefusedByPeerError
from .links import LinkTable
from .listener import Listener
from .loop import Loop
from .outbound import Outbound
from .reasons import ALARMS
from .tls import Credentials, reason_of
from .tls_stream import Carrier
from .types import RefusedError
from .ways import Ways

__all__ = ["Driver", "TlsDriver"]

_GOODBYE = 0.5  # seconds in which all links together may finish what they are writing


class Driver(Protocol):
    """What an endpoint needs of whatever moves bytes between conversations."""

    @property
    def port(self) -> int:
        """The port it listens on; 0 if none."""

    def start(self) -> None:
        """Open connections; returns at once."""

    def stop(self) -> None:
        """End all connections and threads."""

    def flush(self) -> None:
        """Write what woken links have to say, if the calling thread is to do so.

        Call it without the table's lock.
        """

    def wait(self, seconds: float, ready: Callable[[], bool]) -> None:
        """Wait, with the table's lock held, until the table changes or the time is over.

        Arrivals that leave `ready` false need not end the wait.
        """

    def interrupt(self) -> None:
        """End every wait: a stop was requested. A signal handler may call this."""


class TlsDriver:
    """Sockets and threads: a listener, a connector, and one loop or several.

    With `listen` None there is no port: this side dials, or is called through a relay.

    Where no parcel is longer than `Settings.large`, one loop carries all links and waiting threads
    drive it. Otherwise several loops encrypt in parallel, each in its own thread.
    """

    def __init__(
        self,
        table: LinkTable,
        credentials: Credentials,
        listen: tuple[str, int] | None,
        outbound: Outbound | None = None,
    ) -> None:
        self._table = table
        self._ways = Ways(table, credentials, outbound or Outbound(), self._admit, self._present)
        self._connector = Connector(table, self._ways, self._add)
        self._listener = Listener(table, credentials, self._add, self._connector.want, listen)
        small = table.longest <= table.settings.large
        many = 1 if small else max(1, min(len(table.peers()), os.cpu_count() or 1))
        self._loops = [Loop(table, self._ended) for _ in range(many)]
        self._waiters_drive = small  # whether a waiting thread drives the loop
        self._places: dict[Conversation, tuple[Loop, Connection]] = {}
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
        for loop in self._loops:
            loop.hand_over()
            loop.flush()
        end = time.monotonic() + _GOODBYE
        with table.lock:
            while (self._places or table.greetings.all()) and (left := end - time.monotonic()) > 0:
                self._gone.wait(left)
        self._ways.stop()
        self._listener.stop()
        self._connector.stop()
        for loop in self._loops:
            loop.stop()

    def flush(self) -> None:
        """Write what woken links have to say."""
        for loop in self._loops:
            loop.flush()

    def wait(self, seconds: float, ready: Callable[[], bool]) -> None:
        """Wait, with the lock held, until `ready`, a change of links or roster, or the end."""
        table, loop, seconds = self._table, self._loops[0], max(seconds, 0.0)
        if not (self._waiters_drive and loop.reserve()):
            condition = threading.Condition(table.lock)
            with table.waiters.waiting(condition.notify, ready):
                condition.wait(seconds)
            return
        with table.waiters.waiting(loop.notify, ready):
            try:
                table.lock.release()  # once is enough: no thread that waits holds it twice
                loop.drive(seconds)
            finally:
                table.lock.acquire()
        if table.waiters:  # other threads must not wait until this one comes again
            loop.hand_over()

    def interrupt(self) -> None:
        """End every wait."""
        for loop in self._loops:
            loop.interrupt()

    # -- connections

    def _admit(self, carrier: Carrier, caller: str, way: str) -> None:
        self._listener.admit(carrier, caller, way)

    def _present(self, peer: str) -> None:
        self._connector.hurry(peer)

    def _add(self, connection: Connection) -> None:
        """Give a connection whose conversation is up to the loop with the fewest."""
        with self._table.lock:
            loop = min(self._loops, key=len)
            self._places[connection.conversation] = (loop, connection)
            edge = self._table.edges.get(("out", connection.conversation.peer))
            if edge is not None:
                edge.congestion = connection.congestion
            if self._stopping:
                connection.conversation.leave("stopped")
            loop.schedule(connection)
        loop.hand_over()
        loop.flush()

    def _wake(self, peer: str) -> None:
        conversation = self._table.greetings.current(peer)
        found = None if conversation is None else self._places.get(conversation)
        if found is not None:
            found[0].schedule(found[1])

    def _cut(self, conversation: Conversation) -> None:
        found = self._places.get(conversation)
        if found is not None:
            found[1].cut()

    def _ended(self, connection: Connection, error: BaseException | None) -> None:
        """Count and report a connection that a loop has ended, and dial again."""
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
        elif isinstance(error, OSError):
            why = reason_of(error)
        elif error is not None:
            why = "internal"
            table.fault(talk.peer, error)
        if self._stopping and why == "closed":
            why = "stopped"
        table.ended(talk, why)
        with table.lock:
            self._places.pop(talk, None)
            self._gone.notify_all()
        if not self._stopping:
            self._connector.want(talk.peer)

    def _rewire(self) -> None:
        """Follow a new roster: end what it no longer has, pass it on, dial missing peers."""
        table = self._table
        with table.lock:
            if not self._started or self._stopping:
                return
            for conversation in table.greetings.all():
                linked = table.linked(conversation.peer)
                if not linked or not conversation.fits():
                    conversation.leave("rewired" if linked else "removed")
                    late = threading.Timer(_GOODBYE, self._cut, (conversation,))
                    late.daemon = True
                    late.start()
                self._wake(conversation.peer)
            for peer in table.peers():
                self._connector.want(peer)
        self._ways.follow()
        self.flush()
