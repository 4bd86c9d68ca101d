"""Frames over one TLS connection, used by one thread only. Deadlines measure progress, never the length of a transfer."""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from .failpoints import hit
from .frames import (
    PREFIX_LENGTH,
    FrameError,
    Head,
    Kind,
    begin,
    check_seal,
    digest_of,
    encode,
    read_header,
    read_prefix,
    seal,
)
from .turns import READ, WRITE, Talk, Wait, carried_alone

__all__ = ["Stream", "Waiting", "tune"]

_RECORD = 16384  # bytes that TLS hands over at a time, at most
_CHUNK = 65536  # one deadline for each: a slow transfer that advances never times out
_DRAIN_EVERY = 1.0  # seconds between two looks at what the receiver said meanwhile


class Waiting(NamedTuple):
    """A frame whose header was read and whose body, if any, still waits in the connection."""

    head: Head
    header: dict[str, Any]
    packed: bytes

    @property
    def kind(self) -> Kind:
        """What it is."""
        return self.head.kind


class Stream:
    """Send a frame, read a frame. An SSLSocket must never be used by two threads at once, so nor must this.

    What is named by a verb in -ing is a talk (see `turns`), for whoever carries it; the rest waits in the calling thread.
    """

    def __init__(self, sock: ssl.SSLSocket, patience: float) -> None:
        self._sock = sock
        self._sock.setblocking(False)
        self._corks = hasattr(socket, "TCP_CORK")
        self._ahead = memoryview(bytearray(_RECORD))  # what was read together with an earlier part, [from, upto)
        self._from = self._upto = 0
        self.set_patience(patience)

    def set_patience(self, seconds: float) -> None:
        """How long one step, a write of 64 KB or a read of anything, may take."""
        self._for_reading, self._for_writing = Wait(READ, seconds), Wait(WRITE, seconds)

    def fileno(self) -> int:
        """Of the connection."""
        return self._sock.fileno()

    def send(self, kind: Kind, header: Mapping[str, Any], body: bytes | memoryview = b"") -> None:
        """Write a whole frame."""
        carried_alone(self.sending(kind, header, body), self)

    def read(self) -> Waiting:
        """Prefix and header of the next frame, checked. Call `body` next if it has one."""
        return carried_alone(self.reading(), self)

    def body(self, frame: Waiting, into: memoryview) -> None:
        """The body of a frame into memory of exactly its length."""
        carried_alone(self.filling(frame, into), self)

    def reply(self, *kinds: Kind) -> Waiting:
        """The answer to what was sent; PROGRESS only says that the other side is alive."""
        return carried_alone(self.replying(*kinds), self)

    def sending(self, kind: Kind, header: Mapping[str, Any], body: bytes | memoryview = b"") -> Talk[None]:
        """As `send`."""
        if len(body) <= _CHUNK:
            corked = self._corks and len(body) >= _RECORD
            if corked:  # TLS writes record by record, and each would wake the other side
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            yield from self._put(encode(kind, header, body))  # one call
            if corked:
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
            return
        start, digest = begin(kind, header, len(body))
        yield from self._put(start)
        half, drained = len(body) // 2, time.monotonic()
        for at in range(0, len(body), _CHUNK):
            if at <= half < at + _CHUNK:
                hit("mid_body")
            piece = body[at : at + _CHUNK]
            digest.update(piece)
            yield from self._put(piece)
            if time.monotonic() - drained > _DRAIN_EVERY:
                drained = time.monotonic()
                yield from self._draining()
        yield from self._put(seal(digest))

    def reading(self) -> Talk[Waiting]:
        """As `read`."""
        head = read_prefix((yield from self._take(PREFIX_LENGTH)))
        packed = yield from self._take(head.header_length)
        return Waiting(head, read_header(head, packed), packed)

    def filling(self, frame: Waiting, into: memoryview, tell_every: float = math.inf) -> Talk[None]:
        """As `body`; says now and then that it advances, if asked to."""
        digest = digest_of(frame.packed, frame.head.body_length)
        done, told = 0, time.monotonic()
        while done < len(into):
            piece = into[done : done + 4 * _CHUNK]  # summed while it is still in the cache
            yield from self._fill(piece)
            digest.update(piece)
            done += len(piece)
            if time.monotonic() - told > tell_every:
                told = time.monotonic()
                yield from self.sending(Kind.PROGRESS, {"received": done})
        if frame.head.seal_length:
            check_seal(digest, (yield from self._take(frame.head.seal_length)))

    def skipping(self, frame: Waiting) -> Talk[None]:
        """Read past a body that is not wanted."""
        scratch, left = memoryview(bytearray(_CHUNK)), frame.head.body_length + frame.head.seal_length
        while left:
            yield from self._fill(scratch[: min(left, _CHUNK)])
            left -= min(left, _CHUNK)

    def replying(self, *kinds: Kind) -> Talk[Waiting]:
        """As `reply`."""
        while True:
            frame = yield from self.reading()
            if frame.kind in kinds:
                return frame
            if frame.kind is not Kind.PROGRESS:
                raise FrameError("out_of_turn", frame.kind.name)

    def sip(self) -> None:
        """Take in a little of what came unasked; raises if that is the end of the connection."""
        if self._upto == _RECORD:
            raise ConnectionError("the other side speaks out of turn")
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._upto += self._received(self._ahead[self._upto :])

    def close(self) -> None:
        """End the connection; may be called by any thread."""
        with contextlib.suppress(OSError):
            # The plain socket's own method: SSLSocket.shutdown would drop the encryption under a thread that still reads.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def _put(self, data: bytes | memoryview) -> Talk[None]:
        left = memoryview(data)
        while left:
            try:
                left = left[self._sock.send(left) :]
            except ssl.SSLWantWriteError:
                yield self._for_writing
            except ssl.SSLWantReadError:
                yield self._for_reading

    def _take(self, count: int) -> Talk[bytes]:
        """The next bytes, few; what comes with them in one record is kept for later, which saves most of the calls."""
        while self._upto - self._from < count:
            self._ahead[: self._upto - self._from] = self._ahead[self._from : self._upto]
            self._from, self._upto = 0, self._upto - self._from
            if not self._sock.pending():
                yield self._for_reading  # most likely nothing is there yet
            try:
                self._upto += self._received(self._ahead[self._upto :])
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLWantWriteError:
                yield self._for_writing
        self._from += count
        return bytes(self._ahead[self._from - count : self._from])

    def _fill(self, into: memoryview) -> Talk[None]:
        done = min(len(into), self._upto - self._from)
        into[:done] = self._ahead[self._from : self._from + done]
        self._from += done
        while done < len(into):
            left = len(into) - done
            try:
                if left >= _RECORD:
                    done += self._received(into[done:])
                else:  # together with what follows it
                    self._upto = self._received(self._ahead)
                    self._from = min(left, self._upto)
                    into[done : done + self._from] = self._ahead[: self._from]
                    done += self._from
            except ssl.SSLWantReadError:
                yield self._for_reading
            except ssl.SSLWantWriteError:
                yield self._for_writing

    def _received(self, into: memoryview) -> int:
        count = self._sock.recv_into(into)
        if not count:
            raise ConnectionError("the other side closed the connection")
        return count

    def _draining(self) -> Talk[None]:
        """Read what the receiver said meanwhile, so that its words never fill the connection."""
        while self._from < self._upto or self._sock.pending() or select.select([self._sock], [], [], 0)[0]:
            if (yield from self.reading()).kind is not Kind.PROGRESS:
                raise FrameError("out_of_turn")


def tune(sock: socket.socket, dead: float, congestion: str) -> str:
    """Settings of the TCP connection; the name of the congestion control in use."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(dead * 1000))
    if not hasattr(socket, "TCP_CONGESTION"):
        return "unknown"
    if congestion == "auto":
        with contextlib.suppress(OSError):  # a kernel without BBR keeps its own choice
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
