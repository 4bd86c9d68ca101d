"""A member at a relay without a peer behind it: it dials, and is called, by hand."""

from __future__ import annotations

import contextlib
import socket
import time
from types import TracebackType
from typing import Self

from peerloom.transport import Identity, Relay, Roster
from peerloom.transport.outbound import Outbound
from peerloom.transport.relay.client import RelayClient
from peerloom.transport.tls_stream import Carrier

__all__ = ["AtRelay", "ended"]

_PATIENCE = 5.0  # seconds for a stream


class AtRelay:
    """One member's connection with one relay. `calls` are the streams that others opened to it."""

    def __init__(self, who: Identity, roster: Roster, relay: Relay) -> None:
        self.newest, self.calls = roster, list[socket.socket]()
        self.client = RelayClient(relay, who, Outbound(), self)

    def __enter__(self) -> Self:
        self.client.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.stop()
        for carrier in self.calls:
            carrier.close()

    def dial(self, peer: str) -> socket.socket:
        """A bare stream joined with another member's. Refuses with `WayError`."""
        stream = _bare(self.client.dial(peer, time.monotonic() + _PATIENCE))
        stream.settimeout(_PATIENCE)
        return stream

    # -- what a client of a relay asks of its peer

    def roster(self) -> Roster:
        """The newest roster known."""
        return self.newest

    def shown(self, document: bytes, relay: Relay) -> None:
        """Pass over the roster that removed it."""

    def knows(self, caller: str) -> bool:
        """Whether this is a neighbour: any member is."""
        return self.newest.has(caller)

    def called(self, carrier: Carrier, caller: str, relay: Relay) -> None:
        """Keep a stream that another member opened."""
        self.calls.append(_bare(carrier))

    def present(self, peer: str) -> None:
        """Pass over who has come."""

    def tell(self, text: str) -> None:
        """Pass over what people are told."""


def _bare(carrier: Carrier) -> socket.socket:
    assert isinstance(carrier, socket.socket), "nothing is wrapped here"
    return carrier


def ended(stream: socket.socket, seconds: float) -> float:
    """Wait until the other end or the relay ends a silent stream; when that was, or infinity."""
    stream.settimeout(seconds)
    with contextlib.suppress(TimeoutError):
        with contextlib.suppress(ConnectionError):
            stream.recv(1)
        return time.time()
    return float("inf")
