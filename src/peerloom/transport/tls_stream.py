"""TLS over a non-blocking socket: one system call for many records.

OpenSSL would read and write the socket itself record by record, two system calls for each it
reads. Here it works in memory, and the socket is read and written in large pieces. What it reads
and writes may be another TLS stream, dressed as a socket (`TlsSocket`): a link inside the TLS of a
relay.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Iterator
from typing import cast

from .frames import FrameError

__all__ = ["Carrier", "TlsSocket", "TlsStream", "cut"]

_CHUNK = 1 << 17  # bytes that are read from the socket at a time
_ENCRYPT = 1 << 18  # bytes that are encrypted at a time
# A record that is not whole yet, and a few of TLS's own: more than that without a byte of content
# is a flood (of key updates, of tickets), which costs more to read than to send.
_MOST_EMPTY = 16384 + 4096


class TlsStream:
    """One end of a TLS connection over a socket, which it makes non-blocking and owns."""

    def __init__(
        self, sock: Carrier, context: ssl.SSLContext, server_side: bool, hostname: str = "peer"
    ) -> None:
        self._sock = sock
        self._outer = sock.stream if isinstance(sock, TlsSocket) else None
        if isinstance(sock, socket.socket):
            sock.setblocking(False)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_side,
            server_hostname=None if server_side else hostname,
        )
        self._unsent = memoryview(b"")  # encrypted, but the socket did not take it yet
        self._more = False  # whether the socket may hold more than was read
        self._empty = 0  # bytes read since the last content

    def fileno(self) -> int:
        """The file descriptor of the socket."""
        return self._sock.fileno()

    @property
    def socket(self) -> socket.socket:
        """The socket at the bottom."""
        return self._sock if self._outer is None else self._outer.socket  # type: ignore[return-value]

    def handshake(self, late: float) -> None:
        """Prove both keys; `TimeoutError` after `late`."""
        for event in self.handshake_steps():
            poll = select.poll()
            poll.register(self.fileno(), event)
            if not poll.poll(1000 * max(0.0, late - time.monotonic())):
                raise TimeoutError("the handshake took too long")

    def handshake_steps(self) -> Iterator[int]:
        """Prove both keys; yields each event of the socket that has to come before the next step.

        POLLIN or POLLOUT: whoever drives it waits for that as it likes.
        """
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                yield from self._flushed()
                while not self._fill():
                    yield select.POLLIN
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self.flush()  # the alert that tells the other side why
                raise
        yield from self._flushed()

    def _flushed(self) -> Iterator[int]:
        while not self.flush():
            yield select.POLLOUT

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
        more = self._more or bool(self._incoming.pending or self._tls.pending())
        return more or (self._outer is not None and self._outer.pending)

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
        return bool(self._unsent) or (self._outer is not None and self._outer.blocked)

    @property
    def waiting(self) -> int:
        """How many encrypted bytes wait for the socket."""
        return len(self._unsent) + self._outgoing.pending

    def encrypt(self, data: memoryview) -> int:
        """Encrypt the beginning of what is to be sent; how many bytes. `flush` sends them."""
        return self._tls.write(data[:_ENCRYPT])

    def flush(self) -> bool:
        """Send what is encrypted; whether the socket took all of it."""
        if not self._unsent:
            if not self._outgoing.pending:
                return self._outer is None or self._outer.flush()
            self._unsent = memoryview(self._outgoing.read())
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except BlockingIOError:
            return False
        return not self.blocked

    # -- the end

    def cut(self) -> None:
        """End the connection, from any thread."""
        cut(self._sock)

    def close(self) -> None:
        """Close the socket, once no thread uses it."""
        self._sock.close()


class TlsSocket:
    """A TLS stream with the calls of a non-blocking socket, so that another one runs inside it."""

    def __init__(self, stream: TlsStream) -> None:
        self.stream = stream
        self._buffer = memoryview(bytearray(_CHUNK))

    def fileno(self) -> int:
        """The file descriptor of the socket below."""
        return self.stream.fileno()

    def recv(self, count: int) -> bytes:
        """What has come, decrypted; `BlockingIOError` if there is nothing now."""
        done, most = 0, min(count, len(self._buffer))
        while done < most:
            try:
                read = self.stream.read_into(self._buffer[done:most])
            except ConnectionError:
                if done:
                    break  # it is raised again by the next call
                raise
            if not read:
                break
            done += read
        if not done:
            raise BlockingIOError
        return bytes(self._buffer[:done])

    def send(self, data: memoryview) -> int:
        """Encrypt the beginning of `data`, once all before is sent; else `BlockingIOError`."""
        if not self.stream.flush():
            raise BlockingIOError
        count = self.stream.encrypt(data)
        self.stream.flush()
        return count

    def close(self) -> None:
        """Close the socket below."""
        self.stream.close()


Carrier = socket.socket | TlsSocket
"""What a TLS stream runs over."""


def cut(sock: Carrier) -> None:
    """Shut a socket down, also under a thread that uses it."""
    if isinstance(sock, TlsSocket):
        sock.stream.cut()
        return
    with contextlib.suppress(OSError):
        # The plain socket's own method: SSLSocket.shutdown would drop the encryption of a reader.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
