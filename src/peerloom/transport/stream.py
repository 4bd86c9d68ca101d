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

import xxhash

from .failpoints import hit
from .frames import PREFIX_LENGTH, FrameError, Head, Kind, check_body, encode, read_header, read_prefix

__all__ = ["Stream", "Waiting", "tune"]

_CHUNK = 65536  # one deadline for each: a slow transfer that advances never times out
_DRAIN_EVERY = 1.0  # seconds between two looks at what the receiver said meanwhile


class Waiting(NamedTuple):
    """A frame whose header was read and whose body, if any, still waits in the connection."""

    head: Head
    header: dict[str, Any]
    packed: bytearray

    @property
    def kind(self) -> Kind:
        """What it is."""
        return self.head.kind


class Stream:
    """Send a frame, read a frame. An SSLSocket must never be used by two threads at once, so nor must this."""

    def __init__(self, sock: ssl.SSLSocket, patience: float) -> None:
        self._sock = sock
        self.set_patience(patience)

    def set_patience(self, seconds: float) -> None:
        """How long one step, a write of 64 KB or a read of anything, may take."""
        self._sock.settimeout(seconds)

    def send(self, kind: Kind, header: Mapping[str, Any], body: bytes | memoryview = b"") -> None:
        """Write a whole frame."""
        start = encode(kind, header, body)
        if len(body) <= _CHUNK:
            self._sock.sendall(b"".join((start, body)))  # one record, one system call
            return
        self._sock.sendall(start)
        half, drained = len(body) // 2, time.monotonic()
        for at in range(0, len(body), _CHUNK):
            if at <= half < at + _CHUNK:
                hit("mid_body")
            self._sock.sendall(body[at : at + _CHUNK])
            if time.monotonic() - drained > _DRAIN_EVERY:
                drained = time.monotonic()
                self._drain_progress()

    def read(self) -> Waiting:
        """Prefix and header of the next frame, checked. Call `body` next if it has one."""
        prefix = bytearray(PREFIX_LENGTH)
        self._fill(memoryview(prefix))
        head = read_prefix(prefix)
        packed = bytearray(head.header_length)
        self._fill(memoryview(packed))
        header = read_header(head.kind, packed)
        if not head.body_length:
            check_body(head, packed, b"")
        return Waiting(head, header, packed)

    def body(self, frame: Waiting, into: memoryview, tell_every: float = math.inf) -> None:
        """The body of a frame into memory of exactly its length; says now and then that it advances, if asked to."""
        digest = xxhash.xxh3_64(frame.packed)
        done, told = 0, time.monotonic()
        while done < len(into):
            upto = min(len(into), done + 4 * _CHUNK)  # summed while it is still in the cache
            self._fill(into[done:upto])
            digest.update(into[done:upto])
            done = upto
            if time.monotonic() - told > tell_every:
                told = time.monotonic()
                self.send(Kind.PROGRESS, {"received": done})
        if digest.intdigest() != frame.head.checksum:
            raise FrameError("checksum")

    def discard(self, frame: Waiting) -> None:
        """Read past a body that is not wanted."""
        scratch, left = memoryview(bytearray(_CHUNK)), frame.head.body_length
        while left:
            self._fill(scratch[: min(left, _CHUNK)])
            left -= min(left, _CHUNK)

    def reply(self, *kinds: Kind) -> Waiting:
        """The answer to what was sent; PROGRESS only says that the other side is alive."""
        while True:
            frame = self.read()
            if frame.kind in kinds:
                return frame
            if frame.kind is not Kind.PROGRESS:
                raise FrameError("out_of_turn", frame.kind.name)

    def close(self) -> None:
        """End the connection; may be called by any thread."""
        with contextlib.suppress(OSError):
            # The plain socket's own method: SSLSocket.shutdown would drop the encryption under a thread that still reads.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def _fill(self, into: memoryview) -> None:
        done = 0
        while done < len(into):
            count = self._sock.recv_into(into[done:])
            if not count:
                raise ConnectionError("the other side closed the connection")
            done += count

    def _drain_progress(self) -> None:
        """Read what the receiver said meanwhile, so that its words never fill the connection."""
        while self._sock.pending() or select.select([self._sock], [], [], 0)[0]:
            if self.read().kind is not Kind.PROGRESS:
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
