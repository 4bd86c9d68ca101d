"""One selector for many connections, driven by a waiting thread or by its own.

A peer's engine sends, waits for its neighbours and computes, round after round. While it waits, it
drives the connections itself (`reserve`, `drive`), and it writes what it sends at once (`flush`):
no other thread has to be woken, and what arrives is still in the cache when it is used. Meanwhile
the background thread of the loop pauses. It takes over when no other thread has driven the loop
for a quarter of a second, so that heartbeats go on while the engine computes.
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

from .connection import Connection
from .links import LinkTable

__all__ = ["Loop"]

_log = logging.getLogger("peerloom.transport")
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_PAUSE = 0.25  # seconds without another driver after which the background thread takes over
_LONGEST = 3600.0  # seconds of one call of the selector

Ended = Callable[[Connection, BaseException | None], None]


class Loop:
    """Drives connections until they end, and calls `ended` for each that did."""

    def __init__(self, table: LinkTable, ended: Ended) -> None:
        self._table, self._ended = table, ended
        self._selector = selectors.DefaultSelector()
        self._wakeup_reader, self._wakeup_writer = socket.socketpair()
        self._wakeup_reader.setblocking(False)
        self._wakeup_writer.setblocking(False)
        self._selector.register(self._wakeup_reader, _READ, None)
        self._wakeup_sent = self._stopping = self._closed = False
        self._connections: set[Connection] = set()
        self._scheduled = deque[Connection]()  # new ones, and those that have something to write
        # The thread that drives the loop holds `_lock`. A connection is scheduled before `_owner`
        # is read, and a thread that stops driving clears `_owner` before it looks at the queue for
        # the last time: so one of the two threads sees the connection.
        self._lock = threading.Lock()
        self._owner = 0  # the id of the thread that drives
        self._reserved = False  # whether a waiting thread drives, or is about to
        self._notified = False  # whether that thread need not wait any longer
        self._waits = 0  # how often a waiting thread has driven
        self._thread_needed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="links", daemon=True)

    def __len__(self) -> int:
        return len(self._connections)

    def start(self) -> None:
        """Start the background thread."""
        self._thread.start()

    def stop(self) -> None:
        """End every connection, and the background thread."""
        self._stopping = self._notified = True
        self.interrupt()
        self._thread_needed.set()
        if self._thread.ident is None:
            self._close()
        elif threading.current_thread() is not self._thread:
            self._thread.join()

    def schedule(self, connection: Connection) -> None:
        """Queue a connection that is new or has something to write; call `flush` next.

        Any thread may call this.
        """
        self._scheduled.append(connection)
        if self._owner not in (0, threading.get_ident()):
            self._wake_owner()

    def flush(self) -> None:
        """Let scheduled connections write now: in this thread, or in the one that drives."""
        if not self._scheduled or self._owner == threading.get_ident():
            return
        if not self._lock.acquire(blocking=False):
            self._wake_owner()
            return
        try:
            self._owner = threading.get_ident()
            if self._closed:
                self._end_scheduled()
            elif not self._stopping:
                self._serve_scheduled()
        finally:
            self._release()

    # -- for threads that wait

    def reserve(self) -> bool:
        """Whether the calling thread is to drive the loop while it waits.

        The thread must hold the table's lock, and must call `drive` if the answer is True.
        """
        if self._reserved or self._stopping or not self._thread.is_alive():
            return False
        self._reserved, self._notified = True, False
        return True

    def drive(self, seconds: float) -> None:
        """Drive the loop for this long, or until `notify`."""
        end = time.monotonic() + seconds
        try:
            if not self._lock.acquire(blocking=False):
                self._wake_owner()
                self._lock.acquire()
            self._owner = threading.get_ident()
            while not self._notified and (left := end - time.monotonic()) > 0:
                self._step(left)
        finally:
            self._waits += 1
            self._reserved = False
            if self._owner == threading.get_ident():
                self._release()

    def notify(self) -> None:
        """End the wait of the thread in `drive`."""
        self._notified = True
        if self._owner != threading.get_ident():
            self._wake_owner()

    def hand_over(self) -> None:
        """Let the background thread take over at once, without waiting for another driver."""
        self._thread_needed.set()

    def interrupt(self) -> None:
        """Wake the thread that drives, in any case; a signal handler may call this."""
        # A full pipe wakes it anyway; behind a closed one there is no thread.
        with contextlib.suppress(OSError):
            self._wakeup_writer.send(b"!")

    def _wake_owner(self) -> None:
        if not self._wakeup_sent:
            self._wakeup_sent = True
            self.interrupt()

    def _release(self) -> None:
        self._owner = 0
        self._lock.release()
        # Scheduled by a thread that counted on this one to see it, or not wholly written.
        if self._scheduled or any(each.unwritten for each in self._connections):
            self._thread_needed.set()

    # -- the background thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                waits = self._waits
                self._lock.acquire()
                self._owner = threading.get_ident()
                try:
                    self._step(_LONGEST)
                finally:
                    self._release()
                if self._reserved or self._waits != waits:
                    self._pause()
        finally:
            with self._lock:
                self._close()

    def _pause(self) -> None:
        """Leave the loop to waiting threads, until they stay away or this thread is needed."""
        seen = -1
        while not self._stopping and (self._reserved or self._waits != seen):
            seen = self._waits
            if self._thread_needed.wait(_PAUSE):
                self._thread_needed.clear()
                if not self._reserved:
                    return

    def _close(self) -> None:
        self._stopping = self._closed = True
        for connection in list(self._connections):
            self._end(connection, ConnectionError("stopped"))
        self._end_scheduled()
        for each in (self._selector, self._wakeup_reader, self._wakeup_writer):
            each.close()

    def _end_scheduled(self) -> None:
        while self._scheduled:
            self._end(self._scheduled.popleft(), ConnectionError("stopped"))

    # -- one step

    def _step(self, seconds: float) -> None:
        """Wait at most this long for any connection, and serve all that can go on."""
        self._serve_scheduled()
        unread = [each for each in self._connections if each.unread or each.unwritten]
        now = time.monotonic()
        due = min(
            (connection.conversation.deadline() for connection in self._connections),
            default=now + seconds,
        )
        at_once = unread or self._scheduled
        for key, events in self._selector.select(
            0.0 if at_once else max(0.0, min(seconds, due - now))
        ):
            connection: Connection | None = key.data
            if connection is None:
                self._take_wakeup()
            elif connection not in unread:
                self._serve(connection, bool(events & _READ), bool(events & _WRITE))
        for connection in unread:
            self._serve(connection, connection.unread, True)
        self._serve_scheduled()
        now = time.monotonic()
        if now >= due:
            late = [each for each in self._connections if each.conversation.deadline() <= now]
            for connection in late:
                self._tick(connection, now)

    def _take_wakeup(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakeup_reader.recv(64)
        self._wakeup_sent = False  # before looking: a thread that wakes from here on writes again
        if self._table.stop_requested:
            with self._table.lock:
                self._table.waiters.wake_all()

    def _serve_scheduled(self) -> None:
        while self._scheduled:
            connection = self._scheduled.popleft()
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
        try:
            if reads:
                connection.read()
            if writes or not connection.blocked:
                connection.write()
            if not connection.conversation.finished:
                self._watch(connection)
        except Exception as error:  # noqa: BLE001  (it ends this connection, never the loop)
            with contextlib.suppress(Exception):
                connection.write()  # why it ends
            self._end(connection, error)
            return
        if connection.conversation.finished:
            self._end(connection, None)
        self._tell(connection)

    def _watch(self, connection: Connection) -> None:
        events = _READ | (_WRITE if connection.blocked else 0)
        if events != connection.watched:
            connection.watched = events
            self._selector.modify(connection.fileno(), events, connection)

    def _tick(self, connection: Connection, now: float) -> None:
        try:
            connection.conversation.tick(now)
        except Exception as error:  # noqa: BLE001  (mostly `TimeoutError`)
            self._end(connection, error)
        else:
            self._serve(connection, False, False)

    def _tell(self, connection: Connection) -> None:
        """Wake threads that wait for what came, once it is answered.

        Woken earlier, they would compete with the answer for the interpreter.
        """
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
            with contextlib.suppress(KeyError, ValueError):  # its socket is gone
                self._selector.unregister(connection.fileno())
        connection.close()
        self._tell(connection)
        try:
            self._ended(connection, error)
        except Exception:  # noqa: BLE001  (logged; the other connections go on)
            _log.exception("The end of a connection could not be reported.")
