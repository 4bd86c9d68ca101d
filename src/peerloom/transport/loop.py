"""One selector for many connections, stepped by whoever waits for what they bring, or else by a thread of its own.

A peer's engine sends, waits for its neighbours and computes, round after round. While it waits it may as well drive the
connections itself (`claim`, `drive`), and what it sends it may write at once (`push`): then nobody has to be woken, and
what has come is still in the cache when it is used. The loop's own thread stands aside meanwhile, and comes back when
nobody has driven for a quarter of a second, so that heartbeats go on while the engine computes.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from ..errors import PeerError
from .connection import Connection
from .links import LinkTable

__all__ = ["Loop"]

_log = logging.getLogger("peerloom.transport")
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_AWAY = 0.25  # seconds after which who drove, and did not come again, is no longer counted on
_LONGEST = 3600.0  # seconds of one look at the selector

Ended = Callable[[Connection, BaseException | None], None]


class Loop:
    """Drives connections until they end, and tells `ended` of each that did."""

    def __init__(self, table: LinkTable, ended: Ended) -> None:
        self._table, self._ended = table, ended
        self._selector = selectors.DefaultSelector()
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._rope.setblocking(False)
        self._selector.register(self._bell, _READ, None)
        self._rung = self._stopping = self._closed = False
        self._connections: set[Connection] = set()
        self._woken = deque[
            Connection
        ]()  # those that have something to write, and those that are new
        # Who steps holds the lock. A connection is queued before `_driver` is read, and whoever stops driving clears that
        # before it looks at the queue for the last time: so one of the two sees it.
        self._driving = threading.Lock()
        self._driver = 0  # the thread that holds it
        self._claimed = self._over = (
            False  # whether somebody drives while it waits; whether it need not wait any longer
        )
        self._stints = 0  # how often somebody did
        self._needed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="links", daemon=True)

    def __len__(self) -> int:
        return len(self._connections)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End every connection, and the thread."""
        self._stopping = self._over = True
        self.ring()
        self._needed.set()
        if self._thread.ident is None:
            self._close()
        elif threading.current_thread() is not self._thread:
            self._thread.join()

    def wake(self, connection: Connection) -> None:
        """It is new, or has something to say. Any thread may call this; `push` comes next."""
        self._woken.append(connection)
        if self._driver not in (0, threading.get_ident()):
            self._ring()

    def push(self) -> None:
        """Let those that were woken write now: by the calling thread, or by the one that drives."""
        if not self._woken or self._driver == threading.get_ident():
            return
        if not self._driving.acquire(blocking=False):
            self._ring()
            return
        try:
            self._driver = threading.get_ident()
            if self._closed:
                self._end_woken()
            elif not self._stopping:
                self._serve_woken()
        finally:
            self._release()

    # -- those who wait

    def claim(self) -> bool:
        """Whether the calling thread is the one to `drive`; it must hold the table's lock, and then do so."""
        if self._claimed or self._stopping or not self._thread.is_alive():
            return False
        self._claimed, self._over = True, False
        return True

    def drive(self, seconds: float) -> None:
        """Step for so long, or until `notify`."""
        end = time.monotonic() + seconds
        try:
            if not self._driving.acquire(blocking=False):
                self._ring()
                self._driving.acquire()
            self._driver = threading.get_ident()
            while not self._over and (left := end - time.monotonic()) > 0:
                self._step(left)
        finally:
            self._stints += 1
            self._claimed = False
            if self._driver == threading.get_ident():
                self._release()

    def notify(self) -> None:
        """Who drives need not wait any longer."""
        self._over = True
        if self._driver != threading.get_ident():
            self._ring()

    def resign(self) -> None:
        """Let the loop's own thread go on at once: nobody is counted on."""
        self._needed.set()

    def ring(self) -> None:
        """Wake whoever drives, whatever was said before; a signal's handler may call this."""
        with contextlib.suppress(OSError):  # full: it will wake anyway; closed: nobody is there
            self._rope.send(b"!")

    def _ring(self) -> None:
        if not self._rung:
            self._rung = True
            self.ring()

    def _release(self) -> None:
        self._driver = 0
        self._driving.release()
        if self._woken:  # by somebody who thought that this thread would see it
            self._needed.set()

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                stints = self._stints
                self._driving.acquire()
                self._driver = threading.get_ident()
                try:
                    self._step(_LONGEST)
                finally:
                    self._release()
                if self._claimed or self._stints != stints:
                    self._stand_aside()
        finally:
            with self._driving:
                self._close()

    def _stand_aside(self) -> None:
        """While others drive: until they stay away, or are away when something is to be done."""
        seen = -1
        while not self._stopping and (self._claimed or self._stints != seen):
            seen = self._stints
            if self._needed.wait(_AWAY):
                self._needed.clear()
                if not self._claimed:
                    return

    def _close(self) -> None:
        self._stopping = self._closed = True
        for connection in list(self._connections):
            self._end(connection, ConnectionError("stopped"))
        self._end_woken()
        for each in (self._selector, self._bell, self._rope):
            each.close()

    def _end_woken(self) -> None:
        while self._woken:
            self._end(self._woken.popleft(), ConnectionError("stopped"))

    # -- one step

    def _step(self, seconds: float) -> None:
        """Wait until something can go on, at most so long, and let all go on that can."""
        self._serve_woken()
        unread = [connection for connection in self._connections if connection.unread]
        now = time.monotonic()
        due = min(
            (connection.conversation.deadline() for connection in self._connections),
            default=now + seconds,
        )
        for key, events in self._selector.select(
            0.0 if unread or self._woken else max(0.0, min(seconds, due - now))
        ):
            connection: Connection | None = key.data
            if connection is None:
                self._hear_bell()
            elif connection not in unread:
                self._serve(connection, bool(events & _READ), bool(events & _WRITE))
        for connection in unread:
            self._serve(connection, True, connection.blocked)
        self._serve_woken()
        now = time.monotonic()
        if now >= due:
            for connection in [
                each for each in self._connections if each.conversation.deadline() <= now
            ]:
                self._tick(connection, now)

    def _hear_bell(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(64)
        self._rung = False  # before looking: who rings from here on rings again
        if self._table.stop_requested:
            with self._table.lock:
                self._table.waiters.wake_all()

    def _serve_woken(self) -> None:
        while self._woken:
            connection = self._woken.popleft()
            if connection in self._connections:
                self._serve(connection, False, False)
            elif not connection.ended:
                self._connections.add(connection)
                connection.watched = _READ
                self._selector.register(connection.fileno(), _READ, connection)
                self._serve(connection, True, True)

    def _serve(self, connection: Connection, reads: bool, writes: bool) -> None:
        if connection.ended:
            return
        talk = connection.conversation
        try:
            if reads:
                connection.read()
            if writes or not connection.blocked:
                connection.write()
        except Exception as error:  # noqa: BLE001  (it ends this connection, never who drives the others)
            if not isinstance(error, (OSError, PeerError)):
                _log.exception("a connection was ended by an error of this program")
            with contextlib.suppress(OSError, PeerError):
                connection.write()  # why it ends
            self._end(connection, error)
            return
        if talk.finished:
            self._end(connection, None)
        else:
            self._watch(connection)
        self._tell(connection)

    def _watch(self, connection: Connection) -> None:
        events = _READ | (_WRITE if connection.blocked else 0)
        if events != connection.watched:
            connection.watched = events
            self._selector.modify(connection.fileno(), events, connection)

    def _tick(self, connection: Connection, now: float) -> None:
        try:
            connection.conversation.tick(now)
        except TimeoutError as error:
            self._end(connection, error)
        else:
            self._serve(connection, False, False)

    def _tell(self, connection: Connection) -> None:
        """Wake those who wait for what came, once it is answered: they would compete for the interpreter."""
        if connection.conversation.news:
            connection.conversation.news = False
            with self._table.lock:
                self._table.waiters.arrived()

    def _end(self, connection: Connection, error: BaseException | None) -> None:
        if connection.ended:
            return
        connection.ended = True
        if connection in self._connections:
            self._connections.remove(connection)
            self._selector.unregister(connection.fileno())
        connection.close()
        self._tell(connection)
        self._ended(connection, error)
