"""A member that speaks the protocol by hand: the right key, any words a scenario wants."""

from __future__ import annotations

import itertools
import socket
import ssl
from types import TracebackType
from typing import Any, Self

import numpy as np

from peerloom.transport import Identity, Roster
from peerloom.transport.framesocket import FrameSocket
from peerloom.transport.parser import Frame
from peerloom.transport.schemas import VERSION, Kind
from peerloom.transport.tls import ALPN, client_context

from .ends import FLOATS, RUN, identity

__all__ = ["FIRST", "GOOD", "SIDE", "Speaker", "open_context", "stranger"]

GOOD = np.ones(FLOATS, np.float32).tobytes()
FIRST = {  # the header of a first parcel
    "channel": 0, "round": 1, "mix_index": 0, "mode": "latest", "ask": True, "length": 4 * FLOATS,
    "epoch": 0, "incarnation": 5, "seq": 1,
}  # fmt: skip


_attempts = itertools.count(1)  # of all connections: a process never counts back
# What a greeting says of its side.
SIDE = {
    "process_nonce": 5, "attempt": 1, "last": [0, 0], "want": 0, "room": 16, "parents": [],
    "part": [0, 0, 0],
}  # fmt: skip


class Speaker:
    """A member on a port of this machine, or on a connection that is there already.

    Nothing is said before `greet`.
    """

    def __init__(self, who: int | Identity, roster: Roster, place: int | socket.socket) -> None:
        self._roster, self._seq = roster, 0
        raw = (
            socket.create_connection(("127.0.0.1", place), timeout=5)
            if isinstance(place, int)
            else place
        )
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            mine = who if isinstance(who, Identity) else identity(who)
            self.sock = client_context(mine, roster).wrap_socket(raw, server_hostname="peer")
        except BaseException:
            raw.close()
            raise
        self.frames = FrameSocket(self.sock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sock.close()

    def greet(self, **changes: Any) -> str:
        """Say HELLO, with some fields changed; 'accepted' or why not."""
        roster = self._roster
        hello = {
            "versions": [VERSION, VERSION],
            "run": RUN.run_id,
            "agreement": RUN.agreement,
            "incarnation": 5,
            **SIDE,
            "attempt": next(_attempts),
        }
        self.frames.send(
            Kind.HELLO,
            {**hello, "roster": roster.hash, "roster_version": roster.version, **changes},
        )
        answer = self.answer(Kind.HELLO_OK, Kind.REFUSE)
        return "accepted" if answer.kind is Kind.HELLO_OK else str(answer.header["why"])

    def answer(self, *kinds: Kind) -> Frame:
        """The next frame of one of these kinds; what comes unasked is passed over."""
        unasked = (Kind.PING, Kind.ROSTER, Kind.CARDS)
        while (frame := self.frames.read(*kinds, *unasked)).kind not in kinds:
            pass
        return frame

    def data(self, body: bytes = GOOD, **changes: Any) -> str:
        """Send a parcel, some fields changed; 'applied', 'duplicate', 'stale' or why refused."""
        self._seq += 1
        header = {**FIRST, "round": self._seq, "seq": self._seq, "length": len(body), **changes}
        self.frames.send(Kind.DATA, header, body)
        answer = self.answer(Kind.ACK, Kind.REFUSE)
        return str(answer.header["result"] if answer.kind is Kind.ACK else answer.header["why"])


def stranger(port: int, context: ssl.SSLContext) -> bytes:
    """Dial with any TLS context and return what the other side sent; nothing if refused."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as raw:
        try:
            with context.wrap_socket(raw, server_hostname="peer") as sock:
                return sock.recv(100)
        except OSError:
            return b""


def open_context(alpn: str = ALPN) -> ssl.SSLContext:
    """A client that would talk to anybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([alpn])
    return context
