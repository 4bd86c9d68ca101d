"""TLS 1.3 contexts in which both sides show a certificate of the roster."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterable

from .certificate import certificate_id
from .identity import Identity
from .outbound import WayError
from .roster import Roster
from .schemas import GREETING, OLDEST, VERSION
from .tls_stream import TlsStream

__all__ = [
    "ALPN",
    "Credentials",
    "HandshakeError",
    "client_context",
    "greeting_of",
    "peer_of",
    "pinned_context",
    "reason_of",
    "server_context",
]

ALPN = "peerloom/2"
_FORMS = {ALPN: GREETING, "peerloom/1": OLDEST}
"""The version in whose form each protocol greets, the best first.

Its name is part of what TLS proves: nobody on the way can talk two peers down to the older one.
"""

# OpenSSL's reasons as words of `reasons`. What is not listed counts as 'handshake'.
_REASONS = {
    "CERTIFICATE_VERIFY_FAILED": "unknown_certificate",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no_certificate",
    "UNSUPPORTED_PROTOCOL": "old_tls",
    "WRONG_VERSION_NUMBER": "plain_text",
    "HTTP_REQUEST": "plain_text",
    "PACKET_LENGTH_TOO_LONG": "plain_text",
    "RECORD_LAYER_FAILURE": "plain_text",
    "BAD_RECORD_TYPE": "plain_text",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "expired_certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "not_admitted",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "not_admitted",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "not_admitted",
    "DECRYPTION_FAILED_OR_BAD_RECORD_MAC": "changed_on_the_way",
    "SSLV3_ALERT_BAD_RECORD_MAC": "changed_on_the_way",
}
_OUT_OF_DATE = (9, 10)  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED


class HandshakeError(ssl.SSLError):
    """TLS succeeded, but with another peer or protocol than expected; its text is the reason."""


class Credentials:
    """An identity with its TLS contexts, which are made anew when the roster changes."""

    def __init__(self, identity: Identity, versions: tuple[int, int] = (OLDEST, VERSION)) -> None:
        self.identity, self._versions = identity, versions
        self._lock = threading.Lock()
        self._made: tuple[str, ssl.SSLContext, ssl.SSLContext] | None = None

    def client(self, roster: Roster) -> ssl.SSLContext:
        """The context for dialling."""
        return self._contexts(roster)[1]

    def server(self, roster: Roster) -> ssl.SSLContext:
        """The context for accepting connections."""
        return self._contexts(roster)[2]

    def _contexts(self, roster: Roster) -> tuple[str, ssl.SSLContext, ssl.SSLContext]:
        with self._lock:
            if self._made is None or self._made[0] != roster.hash:
                self._made = (
                    roster.hash,
                    client_context(self.identity, roster, self._versions),
                    server_context(self.identity, roster, self._versions),
                )
            return self._made


def server_context(
    identity: Identity, roster: Roster, versions: tuple[int, int] = (OLDEST, VERSION)
) -> ssl.SSLContext:
    """A new context for the side that listens."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, identity, roster, versions)
    context.num_tickets = 0  # no resumption: every connection proves its key anew
    return context


def client_context(
    identity: Identity, roster: Roster, versions: tuple[int, int] = (OLDEST, VERSION)
) -> ssl.SSLContext:
    """A new context for the side that dials."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, identity, roster, versions)


def peer_of(stream: TlsStream, roster: Roster, expected: str | None = None) -> str:
    """The id of the other side after the handshake. Call it before anything is read.

    Refuses another protocol, a key that is no member's and, where one is expected, another member.
    """
    if stream.protocol not in _FORMS:
        raise HandshakeError("wrong_protocol")
    certificate = stream.certificate
    if not certificate:
        raise HandshakeError("no_certificate")
    peer = certificate_id(certificate)
    if not roster.has(peer):
        raise HandshakeError("not_a_member")
    if expected is not None and peer != expected:
        raise HandshakeError("wrong_peer")
    return peer


def greeting_of(stream: TlsStream) -> int:
    """The version in whose form the two sides greet; call it after `peer_of`."""
    return _FORMS[stream.protocol or ""]


def reason_of(error: BaseException) -> str:
    """The word of `reasons` for the error that ended a connection."""
    if isinstance(error, HandshakeError):
        return str(error.args[0])
    if isinstance(error, WayError):
        return error.why
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _OUT_OF_DATE:
        return "expired_certificate"
    if isinstance(error, ssl.SSLEOFError):
        return "closed"
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason or "", "handshake")
    if isinstance(error, ConnectionRefusedError):
        return "nobody_listens"
    return "closed" if isinstance(error, ConnectionError) else "network"


def _context(
    protocol: int, identity: Identity, roster: Roster, versions: tuple[int, int]
) -> ssl.SSLContext:
    context = pinned_context(protocol, identity, [member.certificate for member in roster.members])
    lowest, highest = versions  # every later version greets in the form of version 7
    context.set_alpn_protocols(
        [name for name, form in _FORMS.items() if form <= highest and form >= min(lowest, GREETING)]
    )
    return context


def pinned_context(
    protocol: int, identity: Identity | None, certificates: Iterable[str]
) -> ssl.SSLContext:
    """A context for TLS 1.3 with our key, if any, in which no other certificates are believed.

    Without certificates, as only a side that listens may have it, the other side proves no key.
    """
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # names prove nothing here; `peer_of` compares the key itself
    believed = "\n".join(certificates)
    context.verify_mode = ssl.CERT_REQUIRED if believed else ssl.CERT_NONE
    # Strict checks, which newer Pythons turn on, want a CA above every leaf; ours are pinned each.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if identity is not None:
        context.load_cert_chain(identity.certificate_file, identity.key_file)
    if believed:
        context.load_verify_locations(cadata=believed)
    return context
