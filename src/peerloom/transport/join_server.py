"""Joining over the network: the founder listens for a while, the newcomer connects once.

The newcomer knows the founder's id from the token and accepts no other key.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable

from ..errors import PeerError
from .frames import Kind
from .framesocket import FrameSocket
from .identity import Identity, certificate_id
from .invitations import Invitation
from .roster import Roster, parse_address
from .tls import HandshakeError, reason_of
from .tls_stream import cut

__all__ = ["JoinServer", "join_online"]

_ALPN = "peerloom-join/1"
_TIMEOUT = 10.0  # seconds of one visit


class JoinServer:
    """A listening socket for join requests, which serves one visitor after the other.

    It is apart from the socket of the links on purpose: nowhere else is a stranger without a
    certificate of the roster heard, and here only while the founder waits for a newcomer.
    """

    def __init__(self, identity: Identity, listen: tuple[str, int]) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.num_tickets = 0
        self._context.load_cert_chain(identity.certificate_file, identity.key_file)
        self._context.set_alpn_protocols([_ALPN])
        try:
            family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
            self._socket = socket.create_server(listen, family=family)
        except OSError as error:
            raise PeerError(
                f"Cannot listen on {listen[0]}:{listen[1]} ({error}). "
                "Choose another address or port."
            ) from None
        self.port: int = self._socket.getsockname()[1]

    def serve(
        self, accept: Callable[[bytes], Roster], seconds: float, refused: Callable[[str], None]
    ) -> Roster | None:
        """Wait until `accept` takes a join request; the new roster, or None after `seconds`.

        `refused` is called with the reason for each visitor who is turned away.
        """
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                raw, _ = self._socket.accept()
            except TimeoutError:
                return None
            try:
                return self._visit(raw, accept)
            except (OSError, PeerError) as error:
                refused(reason_of(error) if isinstance(error, OSError) else str(error))
        return None

    def _visit(self, raw: socket.socket, accept: Callable[[bytes], Roster]) -> Roster:
        with (
            raw,
            self._context.wrap_socket(raw, server_side=True, do_handshake_on_connect=False) as sock,
        ):
            # A visitor that sends byte by byte never times out: the visit as a whole is limited.
            end = threading.Timer(_TIMEOUT, cut, (sock,))
            end.daemon = True
            end.start()
            try:
                sock.do_handshake()
                return self._hear(FrameSocket(sock), accept)
            finally:
                end.cancel()

    def _hear(self, frames: FrameSocket, accept: Callable[[bytes], Roster]) -> Roster:
        request = frames.read(Kind.JOIN)
        try:
            roster = accept(bytes(request.body))
        except PeerError:
            frames.send(Kind.REFUSE, {"seq": 0, "why": "join_request", "room": 0})
            raise
        frames.send(Kind.ROSTER, {}, roster.to_bytes())
        return roster

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


def join_online(invitation: Invitation, request: bytes) -> Roster:
    """Bring a join request to the founder and return the roster that comes back, verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the key is compared below, before anything is sent
    context.set_alpn_protocols([_ALPN])
    try:
        with (
            socket.create_connection(parse_address(invitation.address), timeout=_TIMEOUT) as raw,
            context.wrap_socket(raw, server_hostname="founder") as sock,
        ):
            certificate = sock.getpeercert(binary_form=True)
            if not certificate or certificate_id(certificate) != invitation.founder:
                raise HandshakeError("wrong_peer")
            frames = FrameSocket(sock)
            frames.send(Kind.JOIN, {}, request)
            answer = frames.read(Kind.ROSTER, Kind.REFUSE)
            if answer.kind is Kind.REFUSE:
                raise PeerError(
                    "The founder refused the join request: "
                    "the invitation is used up, expired or not of this founder."
                )
    except OSError as error:
        raise PeerError(
            f"The founder's join server at {invitation.address} was not reached "
            f"({reason_of(error)}). "
            "Is 'peerloom peer invite --listen' still waiting there? "
            "By files: peerloom peer join TOKEN --request FILE"
        ) from None
    return Roster.from_bytes(bytes(answer.body), invitation.founder)
