"""One TLS socket that carries a conversation: reads and writes."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time

from .conversation import Conversation

__all__ = ["Connection", "cut", "tune"]

_RECORD = 16384  # bytes that TLS writes at a time
_READS = 16  # in a row, so that other connections and answers need not wait long


class Connection:
    """Moves bytes between a non-blocking socket and a conversation.

    An SSLSocket must never be used by two threads at once: only the thread that drives this
    connection may call its methods. `cut` alone may be called by any thread.
    """

    def __init__(self, sock: ssl.SSLSocket, conversation: Conversation, congestion: str) -> None:
        self._sock, self.conversation, self.congestion = sock, conversation, congestion
        sock.setblocking(False)
        self._corks = hasattr(socket, "TCP_CORK")
        self.blocked = False  # whether a write waits for the socket
        self.unread = False  # whether TLS may hold more in memory, unknown to a selector
        self.watched = 0  # the events for which the selector watches it
        self.ended = False  # whether the loop has ended it

    def fileno(self) -> int:
        """The file descriptor of the socket."""
        return self._sock.fileno()

    def read(self) -> None:
        """Read what has come; raises the error that ends the connection."""
        talk = self.conversation
        self.unread = False
        for _ in range(_READS):
            try:
                count = self._sock.recv_into(talk.buffer())
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not count:
                raise ConnectionError("the other side closed the connection")
            talk.received(count, time.monotonic())
            # A record that is not full is probably the last one for now, and a read that finds
            # nothing costs as much as one that does. The selector reports more records: the buffer
            # takes whole ones, so none is left half-read in memory.
            if count < _RECORD:
                return
        self.unread = True

    def write(self) -> None:
        """Write what the conversation has to say, as much as the socket takes."""
        talk, corked = self.conversation, False
        self.blocked = False
        try:
            while piece := talk.outgoing(time.monotonic()):
                if self._corks and not corked and (len(piece) >= _RECORD or talk.streaming):
                    # Each record would wake the other side: let them leave together.
                    self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
                    corked = True
                talk.sent(self._sock.send(piece))
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            self.blocked = True
        finally:
            if corked:
                with contextlib.suppress(OSError):
                    self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)

    def greet(self, late: float) -> None:
        """Drive the connection until the conversation is up; `TimeoutError` after `late`."""
        talk = self.conversation
        while True:
            self.write()
            try:
                self.read()
            except Exception:
                self.write()  # why the other side is refused
                raise
            if talk.was_up:
                self.write()
                return
            poll = select.poll()
            poll.register(self._sock, select.POLLIN | (select.POLLOUT if self.blocked else 0))
            if not poll.poll(1000 * max(0.0, late - time.monotonic())):
                raise TimeoutError("the greeting took too long")

    def cut(self) -> None:
        """End the connection, from any thread."""
        cut(self._sock)

    def close(self) -> None:
        """Close the socket, once no thread drives it."""
        self._sock.close()


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


def cut(sock: socket.socket) -> None:
    """Shut a socket down, also under a thread that uses it."""
    with contextlib.suppress(OSError):
        # The plain socket's own method: SSLSocket.shutdown would drop the encryption of a reader.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
