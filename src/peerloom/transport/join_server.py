"""Joining over the network: the founder listens for a while, the newcomer connects once.

The newcomer knows the founder's id from the token and accepts no other key.
"""

from __future__ import annotations

import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass

from ..errors import PeerError
from .blocking_stream import BlockingStream
from .certificate import certificate_id
from .framesocket import FrameSocket
from .identity import Identity
from .invitations import Invitation
from .known_addresses import same_form
from .outbound import Outbound
from .relay.dialling import client_context, open_stream
from .relay.messages import GUEST, STREAM_ALPN
from .roster import Roster
from .schemas import Kind
from .tls import HandshakeError, reason_of
from .tls_stream import Carrier, TlsStream
from .unfinished import network_of, oldest_of_most

__all__ = ["JoinServer", "join_online"]

_ALPN = "peerloom-join/1"
_VERSION = 6  # of the frames: joining has stayed as it was in that version
_TIMEOUT = 10.0  # seconds of one visit
_VISITORS = 8  # at once
_SWEEP = 0.25  # seconds between two looks for visits that take too long


@dataclass(eq=False)
class _Visit:
    """One visitor from its connection to the end of its request."""

    stream: TlsStream
    network: str
    since: float
    heard: bool = False  # its whole request is here: the rest is up to the founder
    thread: threading.Thread | None = None


class JoinServer:
    """Hears join requests of up to 8 visitors at once: on a port, through a relay, or both.

    A visitor has 10 s from its connection to the end of its request. Another one who comes while
    all places are taken gets that of the oldest unfinished visitor from the network that has most:
    who is silent, or drips, keeps nobody out, and many from one network only displace each other.

    It is apart from the socket of the links on purpose: nowhere else is a stranger without a
    certificate of the roster heard, and here only while the founder waits for a newcomer.
    """

    def __init__(self, identity: Identity, listen: tuple[str, int] | None) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.num_tickets = 0
        self._context.load_cert_chain(identity.certificate_file, identity.key_file)
        self._context.set_alpn_protocols([_ALPN])
        self._socket = None if listen is None else _listening(listen)
        self.port: int = 0 if self._socket is None else self._socket.getsockname()[1]
        self._arrived = queue.SimpleQueue[tuple[Carrier, str]]()
        self._ready, self._wake = socket.socketpair()  # a visitor has come, or has joined
        self._ready.setblocking(False)
        self._lock = threading.Lock()  # one request is judged at a time
        self._visits: list[_Visit] = []  # those that are not over
        self._joined: Roster | None = None

    def serve(
        self, accept: Callable[[bytes], Roster], seconds: float, refused: Callable[[str], None]
    ) -> Roster | None:
        """Wait until `accept` takes a join request; the new roster, or None after `seconds`.

        `refused` is called with the reason for each visitor who is turned away.
        """
        end, self._joined = time.monotonic() + seconds, None

        def visit(visit: _Visit) -> None:
            try:
                roster = self._hear(visit, accept)
            except (OSError, PeerError) as error:
                if self._joined is None:
                    refused(reason_of(error) if isinstance(error, OSError) else str(error))
            else:
                self._joined = roster
                self._wake_up()
            finally:
                visit.stream.close()

        watched = [self._ready, *([] if self._socket is None else [self._socket])]
        while self._joined is None and (left := end - time.monotonic()) > 0:
            self._sweep()
            select.select(watched, [], [], min(left, _SWEEP))
            with suppress(BlockingIOError):
                self._ready.recv(64)
            while (come := self._next()) is not None:
                come.thread = threading.Thread(target=visit, args=(come,), daemon=True)
                come.thread.start()
        for each in self._visits:
            if not each.heard:
                each.stream.cut()
        for each in self._visits:
            if each.thread is not None:
                each.thread.join()
        return self._joined

    def admit(self, carrier: Carrier) -> None:
        """Hear a visitor who came through a relay; any thread may call this."""
        self._arrived.put((carrier, "relay"))
        self._wake_up()

    def _wake_up(self) -> None:
        with suppress(OSError):  # the wait may be over already
            self._wake.send(b"!")

    def _next(self) -> _Visit | None:
        """Let the next visitor in, in place of another one if there is no room."""
        carrier: Carrier
        try:
            carrier, where = self._arrived.get_nowait()
        except queue.Empty:
            if self._socket is None:
                return None
            try:
                carrier, (where, *_) = self._socket.accept()
            except OSError:  # nobody is there, or has gone already
                return None
        if len(self._visits) >= _VISITORS:
            waiting = [visit for visit in self._visits if not visit.heard] or self._visits
            out = oldest_of_most({visit: visit.network for visit in waiting})
            out.stream.cut()
            self._visits.remove(out)
        stream = TlsStream(carrier, self._context, server_side=True)
        visit = _Visit(stream, network_of(same_form(where)), time.monotonic())
        self._visits.append(visit)
        return visit

    def _sweep(self) -> None:
        """Forget visits that are over, and end those that take too long as a whole."""
        self._visits = [
            visit for visit in self._visits if visit.thread is None or visit.thread.is_alive()
        ]
        for visit in self._visits:
            if not visit.heard and time.monotonic() - visit.since > _TIMEOUT:
                visit.stream.cut()

    def _hear(self, visit: _Visit, accept: Callable[[bytes], Roster]) -> Roster:
        late = visit.since + _TIMEOUT
        visit.stream.handshake(late)
        # The founder may take its time between the request and the answer.
        frames = FrameSocket(BlockingStream(visit.stream, late + _TIMEOUT), _VERSION)
        request = frames.read(Kind.JOIN)
        visit.heard = True
        try:
            with self._lock:
                roster = accept(bytes(request.body))
        except PeerError:
            frames.send(Kind.REFUSE, {"seq": 0, "why": "join_request", "room": 0})
            raise
        frames.send(Kind.ROSTER, {}, roster.to_bytes())
        return roster

    def close(self) -> None:
        """Stop listening."""
        for each in (self._socket, self._ready, self._wake):
            if each is not None:
                each.close()
        while not self._arrived.empty():
            self._arrived.get()[0].close()


def _listening(listen: tuple[str, int]) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        found = socket.create_server(listen, family=family)
    except OSError as error:
        raise PeerError(
            f"Cannot listen on {listen[0]}:{listen[1]} ({error}). Choose another address or port."
        ) from None
    found.setblocking(False)
    return found


def join_online(invitation: Invitation, request: bytes, outbound: Outbound | None = None) -> Roster:
    """Bring a join request to the founder and return the roster that comes back, verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the key is compared below, before anything is sent
    context.set_alpn_protocols([_ALPN])
    try:
        late = time.monotonic() + _TIMEOUT
        carrier = _reach(invitation, outbound or Outbound(), late)
        with closing(carrier):
            stream = TlsStream(carrier, context, server_side=False, hostname="founder")
            stream.handshake(late)
            if not stream.certificate or certificate_id(stream.certificate) != invitation.founder:
                raise HandshakeError("wrong_peer")
            frames = FrameSocket(BlockingStream(stream, late), _VERSION)
            frames.send(Kind.JOIN, {}, request)
            answer = frames.read(Kind.ROSTER, Kind.REFUSE)
            if answer.kind is Kind.REFUSE:
                raise PeerError(
                    "The founder refused the join request: "
                    "the invitation is used up, expired or not of this founder."
                )
    except OSError as error:
        relay = invitation.relay
        where = f"at {invitation.address}" if relay is None else f"through relay {relay.name}"
        raise PeerError(
            f"The founder's join server {where} was not reached ({reason_of(error)}). "
            "Is 'peerloom peer invite' still waiting there? "
            "By files: peerloom peer join TOKEN --request FILE"
        ) from None
    return Roster.from_bytes(bytes(answer.body), invitation.founder)


def _reach(invitation: Invitation, outbound: Outbound, late: float) -> Carrier:
    """A connection with the founder: at its address, or through the relay of the invitation."""
    relay = invitation.relay
    if relay is None:
        return outbound.connect((invitation.address,), late)
    context = client_context(None, relay, STREAM_ALPN) if outbound.wrapped else None
    return open_stream(outbound, relay, context, invitation.visit, late, hostname=GUEST)
