"""Two streams that a relay has joined: bytes are copied both ways, and nothing is read of them.

One piece per direction is held at most, and nothing more is read before it is written, so that a
slow reader slows its own sender and nobody else.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Protocol

from ..tls_stream import TlsStream

__all__ = ["End", "Joined", "PlainEnd", "TlsEnd"]


class End(Protocol):
    """One end of a stream, which never blocks."""

    def fileno(self) -> int:
        """The file descriptor of the socket."""

    @property
    def pending(self) -> bool:
        """Whether something may be read that a selector does not know of."""

    def read_into(self, view: memoryview) -> int:
        """Read what has come; 0 if there is nothing now. `ConnectionError` at the end."""

    def write(self, data: memoryview) -> int:
        """Write the beginning of `data`; how much was taken."""

    def flush(self) -> bool:
        """Whether all that was taken is gone."""

    def close(self) -> None:
        """Close the socket."""


class PlainEnd:
    """A bare TCP connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.fileno, self.close = sock.fileno, sock.close

    pending = False

    def read_into(self, view: memoryview) -> int:
        """Read what has come; 0 if there is nothing now."""
        try:
            count = self._sock.recv_into(view)
        except BlockingIOError:
            return 0
        if not count:
            raise ConnectionError("the other side closed the connection")
        return count

    def write(self, data: memoryview) -> int:
        """Write the beginning of `data`; how much was taken."""
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0

    def flush(self) -> bool:
        """A socket holds nothing back."""
        return True


class TlsEnd:
    """The same inside TLS, for firewalls that let nothing else pass."""

    def __init__(self, stream: TlsStream) -> None:
        self._stream = stream
        self.fileno, self.flush, self.close = stream.fileno, stream.flush, stream.close
        self.read_into = stream.read_into

    @property
    def pending(self) -> bool:
        """Whether decrypted bytes are in memory."""
        return self._stream.pending

    def write(self, data: memoryview) -> int:
        """Encrypt the beginning of `data`, unless something still waits for the socket."""
        if not self._stream.flush():
            return 0
        count = self._stream.encrypt(data)
        self._stream.flush()
        return count


class Joined:
    """A pair of ends; `ended` is called once, with why, after both are closed.

    `charge` gets a side (0 or 1) and the number of bytes it sent, and says how long it must wait.
    """

    def __init__(
        self,
        ends: tuple[End, End],
        chunk: int,
        charge: Callable[[int, int], float],
        ended: Callable[[str], None],
    ) -> None:
        self._ends, self._charge, self._ended = ends, charge, ended
        self._loop = asyncio.get_running_loop()
        self._ways = (_Way(self, 0, chunk), _Way(self, 1, chunk))
        self.heard = time.monotonic()  # when a byte last came from either side
        self.open = True
        for way in self._ways:
            way.watch()

    def close(self, why: str) -> None:
        """Close both ends."""
        if not self.open:
            return
        self.open = False
        for end in self._ends:
            self._loop.remove_reader(end.fileno())
            self._loop.remove_writer(end.fileno())
            end.close()
        self._ended(why)


class _Way:
    """One direction of a pair."""

    def __init__(self, pair: Joined, side: int, chunk: int) -> None:
        self._pair, self._side = pair, side
        self._source, self._target = pair._ends[side], pair._ends[1 - side]
        self._loop = pair._loop
        self._buffer = memoryview(bytearray(chunk))
        self._held = self._buffer[:0]
        self._reading = False

    def watch(self) -> None:
        """Read when something comes."""
        if not self._pair.open:
            return
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._source.fileno(), self._read)
        if self._source.pending:
            self._loop.call_soon(self._read)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._source.fileno())

    def _read(self) -> None:
        if not self._pair.open or not self._reading:
            return
        try:
            count = self._source.read_into(self._buffer)
            if not count:
                return
            self._pair.heard = time.monotonic()
            self._held = self._buffer[:count]
            wait = self._pair._charge(self._side, count)
            gone = self._write()
        except Exception as error:  # noqa: BLE001  (whatever comes ends this pair alone)
            self._pair.close(type(error).__name__)
            return
        if not gone:
            self._pause()
            self._loop.add_writer(self._target.fileno(), self._resume, wait)
        else:
            self._go_on(wait)

    def _write(self) -> bool:
        """Write what is held; whether all of it is gone."""
        while self._held:
            count = self._target.write(self._held)
            if not count:
                return False
            self._held = self._held[count:]
        return self._target.flush()

    def _resume(self, wait: float) -> None:
        """Go on once the target takes bytes again."""
        try:
            gone = self._write()
        except Exception as error:  # noqa: BLE001  (whatever comes ends this pair alone)
            self._pair.close(type(error).__name__)
            return
        if gone:
            self._loop.remove_writer(self._target.fileno())
            self._go_on(wait)

    def _go_on(self, wait: float) -> None:
        if wait > 0:
            self._pause()
            self._loop.call_later(wait, self.watch)
        else:
            self.watch()
