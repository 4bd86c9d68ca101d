"""One TLS stream that carries a conversation: reads and writes."""

from __future__ import annotations

import contextlib
import select
import socket
import time

from .conversation import Conversation
from .tls_stream import TlsStream

__all__ = ["Connection", "tune"]

_READS = 16  # in a row, so that other connections and answers need not wait long
_WRITTEN = 1 << 20  # bytes in a row, for the same reason


class Connection:
    """Moves bytes between a TLS stream and a conversation.

    A stream must never be used by two threads at once: only the thread that drives this
    connection may call its methods. `cut` alone may be called by any thread.
    """

    def __init__(self, stream: TlsStream, conversation: Conversation, congestion: str) -> None:
        self._stream, self.conversation, self.congestion = stream, conversation, congestion
        self._under_way = 0  # bytes of the conversation that are encrypted and not yet sent
        self.unwritten = False  # whether there is more to write than was written in a row
        self.unread = False  # whether the stream may hold more in memory, unknown to a selector
        self.watched = 0  # the events for which the selector watches it
        self.ended = False  # whether the loop has ended it

    def fileno(self) -> int:
        """The file descriptor of the socket."""
        return self._stream.fileno()

    @property
    def blocked(self) -> bool:
        """Whether a write waits for the socket."""
        return self._stream.blocked

    def read(self) -> None:
        """Read what has come; raises the error that ends the connection."""
        talk, stream = self.conversation, self._stream
        for _ in range(_READS):
            with talk.reading:
                count = stream.read_into(talk.buffer())
                if not count:
                    break
                talk.received(count, time.monotonic())
        self.unread = stream.pending

    def write(self) -> None:
        """Write what the conversation has to say, as much as the socket takes, up to a limit."""
        talk, stream, count = self.conversation, self._stream, 0
        self.unwritten = False
        while stream.flush():
            if self._under_way:
                talk.sent(self._under_way)
                count += self._under_way
                self._under_way = 0
            if count >= _WRITTEN:
                self.unwritten = True
                return
            piece = talk.outgoing(time.monotonic())
            if not piece:
                return
            self._under_way = stream.encrypt(piece)

    def greet(self, late: float) -> None:
        """Drive the connection until the conversation is up; `TimeoutError` after `late`."""
        talk = self.conversation
        while True:
            self.write()
            try:
                self.read()
            except Exception:
                with contextlib.suppress(OSError):
                    self.write()  # why the other side is refused
                raise
            if talk.was_up:
                self.write()
                return
            left = 0.0 if self.unread else max(0.0, late - time.monotonic())
            poll = select.poll()
            poll.register(self.fileno(), select.POLLIN | (select.POLLOUT if self.blocked else 0))
            if not poll.poll(1000 * left) and time.monotonic() >= late:
                raise TimeoutError("the greeting took too long")

    def cut(self) -> None:
        """End the connection, from any thread."""
        self._stream.cut()

    def close(self) -> None:
        """Close the socket, once no thread drives it."""
        self._stream.close()


def tune(sock: socket.socket, dead: float, congestion: str) -> str:
    """Set the options of a TCP connection; return the congestion control in use."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(dead * 1000))
    if not hasattr(socket, "TCP_CONGESTION"):
        return "unknown"
    if congestion == "auto":
        with contextlib.suppress(OSError):  # a kernel without BBR keeps its own choice
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
