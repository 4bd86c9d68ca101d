"""TLS over a non-blocking socket: one system call for many records.

OpenSSL would read and write the socket itself record by record, two system calls for each it
reads. Here it works in memory, and the socket is read and written in large pieces.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from typing import cast

from .frames import FrameError

__all__ = ["TlsStream", "cut"]

_CHUNK = 1 << 17  # bytes that are read from the socket at a time
_ENCRYPT = 1 << 18  # bytes that are encrypted at a time
# A record that is not whole yet, and a few of TLS's own: more than that without a byte of content
# is a flood (of key updates, of tickets), which costs more to read than to send.
_MOST_EMPTY = 16384 + 4096


class TlsStream:
    """One end of a TLS connection over a socket, which it makes non-blocking and owns."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, server_side: bool) -> None:
        self._sock = sock
        sock.setblocking(False)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_side,
            server_hostname=None if server_side else "peer",
        )
        self._unsent = memoryview(b"")  # encrypted, but the socket did not take it yet
        self._more = False  # whether the socket may hold more than was read
        self._empty = 0  # bytes read since the last content

    def fileno(self) -> int:
        """The file descriptor of the socket."""
        return self._sock.fileno()

    def handshake(self, late: float) -> None:
        """Prove both keys; `TimeoutError` after `late`."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._exchange(late)
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self.flush()  # the alert that tells the other side why
                raise
            else:
                break
        while not self.flush():
            self._wait(select.POLLOUT, late)

    def _exchange(self, late: float) -> None:
        """Send what TLS has to say, and read until something came."""
        while not self.flush():
            self._wait(select.POLLOUT, late)
        self._wait(select.POLLIN, late)
        self._fill()

    def _wait(self, event: int, late: float) -> None:
        poll = select.poll()
        poll.register(self._sock, event)
        if not poll.poll(1000 * max(0.0, late - time.monotonic())):
            raise TimeoutError("the handshake took too long")

    @property
    def protocol(self) -> str | None:
        """The protocol on which both sides agreed."""
        return self._tls.selected_alpn_protocol()

    @property
    def certificate(self) -> bytes | None:
        """The certificate that the other side has proved."""
        return self._tls.getpeercert(binary_form=True)

    # -- reading

    @property
    def pending(self) -> bool:
        """Whether something may be read that a selector does not know of."""
        return self._more or bool(self._incoming.pending or self._tls.pending())

    def read_into(self, into: memoryview) -> int:
        """Read what has come, decrypted, up to a record; 0 if there is nothing now.

        Reads from the socket once at most, so that no sender can hold a thread here.
        """
        count = self._decrypt(into)
        if not count and self._fill():
            count = self._decrypt(into)
        return count

    def _decrypt(self, into: memoryview) -> int:
        before = self._incoming.pending
        if not before and not self._tls.pending():
            return 0
        try:
            count = cast("int", self._tls.read(len(into), into))
            if not count:
                raise ConnectionError("the other side closed the connection")
        except ssl.SSLWantReadError:
            count = 0  # half a record, or records without content
        self._empty += before - self._incoming.pending - count
        if self._empty > _MOST_EMPTY:
            raise FrameError("too_fast", "records without content")
        if count:
            self._empty = 0
        return count

    def _fill(self) -> bool:
        """Read from the socket; whether something was there."""
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            self._more = False
            return False
        if not data:
            raise ConnectionError("the other side closed the connection")
        self._more = len(data) == _CHUNK
        self._incoming.write(data)
        return True

    # -- writing

    @property
    def blocked(self) -> bool:
        """Whether something encrypted waits for the socket."""
        return bool(self._unsent)

    def encrypt(self, data: memoryview) -> int:
        """Encrypt the beginning of what is to be sent; how many bytes. `flush` sends them."""
        return self._tls.write(data[:_ENCRYPT])

    def flush(self) -> bool:
        """Send what is encrypted; whether the socket took all of it."""
        if not self._unsent:
            if not self._outgoing.pending:
                return True
            self._unsent = memoryview(self._outgoing.read())
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except BlockingIOError:
            return False
        return not self._unsent

    # -- the end

    def cut(self) -> None:
        """End the connection, from any thread."""
        cut(self._sock)

    def close(self) -> None:
        """Close the socket, once no thread uses it."""
        self._sock.close()


def cut(sock: socket.socket) -> None:
    """Shut a socket down, also under a thread that uses it."""
    with contextlib.suppress(OSError):
        # The plain socket's own method: SSLSocket.shutdown would drop the encryption of a reader.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
