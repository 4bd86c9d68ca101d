"""Whole frames over a blocking TLS socket, for an exchange of one request and one answer."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from .blocking_stream import BlockingStream
from .frames import FrameError, Head, encode
from .parser import Frame, Parser
from .schemas import VERSION, Kind

__all__ = ["FrameSocket"]


class FrameSocket:
    """Sends and reads whole frames; the socket's own limit says how long that may take."""

    def __init__(self, sock: ssl.SSLSocket | BlockingStream, version: int = VERSION) -> None:
        self._sock, self._version, self._parser = sock, version, Parser(_admit, version)

    def send(self, kind: Kind, header: Mapping[str, Any], body: bytes | memoryview = b"") -> None:
        """Write a whole frame."""
        self._sock.sendall(encode(kind, header, body, self._version))

    def read(self, *kinds: Kind) -> Frame:
        """The next frame, which must be of one of these kinds."""
        while (frame := self._parser.next()) is None:
            count = self._sock.recv_into(self._parser.buffer())
            if not count:
                raise ConnectionError("the other side closed the connection")
            self._parser.advance(count)
        if kinds and frame.kind not in kinds:
            raise FrameError("out_of_turn", frame.kind.name)
        return frame


def _admit(head: Head, header: dict[str, Any]) -> memoryview:
    return memoryview(bytearray(head.body_length))  # limited by the largest body of the kind
