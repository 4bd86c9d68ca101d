"""Opening connections to a relay: control, streams, and the first roster."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable

from ..blocking_stream import BlockingStream
from ..certificate import certificate_id
from ..identity import Identity
from ..members import Relay
from ..outbound import Outbound, WayError
from ..tls import HandshakeError, pinned_context
from ..tls_stream import Carrier, TlsSocket, TlsStream
from .messages import GO, STREAM_MAGIC

__all__ = ["client_context", "connect_tls", "open_stream"]

Opening = Callable[[Carrier], None]


def client_context(identity: Identity | None, relay: Relay, protocol: str) -> ssl.SSLContext:
    """The context for dialling a relay: our key, and no other key than the relay's.

    A guest shows no key.
    """
    context = pinned_context(ssl.PROTOCOL_TLS_CLIENT, identity, [relay.certificate])
    context.set_alpn_protocols([protocol])
    return context


def connect_tls(
    outbound: Outbound,
    relay: Relay,
    context: ssl.SSLContext,
    late: float,
    opening: Opening = lambda carrier: None,
    hostname: str = "peer",
) -> TlsStream:
    """A TLS connection with a relay whose key is proved. Refuses another key or protocol."""
    sock = outbound.connect(relay.addresses, late)
    try:
        opening(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = TlsStream(sock, context, server_side=False, hostname=hostname)
        stream.handshake(late)
        if certificate_id(stream.certificate or b"") != relay.id:
            raise HandshakeError("wrong_peer")
        if stream.protocol is None:
            raise HandshakeError("wrong_protocol")
    except BaseException:
        sock.close()
        raise
    return stream


def open_stream(
    outbound: Outbound,
    relay: Relay,
    context: ssl.SSLContext | None,
    token: bytes,
    late: float,
    opening: Opening = lambda carrier: None,
    hostname: str = "peer",
) -> Carrier:
    """Half a stream, once the other half is there: bare, or with a context inside TLS."""
    carrier: Carrier
    if context is None:
        carrier = outbound.connect(relay.addresses, late)
    else:
        carrier = TlsSocket(connect_tls(outbound, relay, context, late, opening, hostname))
    try:
        opening(carrier)
        _begin(carrier, STREAM_MAGIC + token, late)
    except BaseException:
        carrier.close()
        raise
    return carrier


def _begin(carrier: Carrier, data: bytes, late: float) -> None:
    """Say what this connection is, and wait for the byte that lets it go on."""
    if isinstance(carrier, TlsSocket):
        talk, byte = BlockingStream(carrier.stream, late), memoryview(bytearray(len(GO)))
        talk.sendall(data)
        talk.recv_into(byte)
        found = bytes(byte)
    else:
        carrier.settimeout(max(0.001, late - time.monotonic()))
        carrier.sendall(data)
        found = carrier.recv(len(GO))
    if found != GO:
        raise WayError("closed", "the relay closed the stream")
