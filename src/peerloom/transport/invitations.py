"""How a newcomer gets onto the roster, online or by files.

The founder hands out a token. It names the founder by id and carries a secret that is valid once
and for a limited time. The newcomer answers with a join request, which proves the secret (HMAC)
and the newcomer's key (signature). The founder's reply is a roster.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import PeerError
from .files import refuse_loose_permissions, write_whole
from .identity import Identity, certificate_verifies, short_id
from .roster import Member, Roster, parse_address

__all__ = ["Invitation", "InvitationBook", "join_request"]

_SCHEME = "peerloom-invitation."
LARGEST_REQUEST = 65536


@dataclass(frozen=True)
class Invitation:
    """What a token says. Its holder can join once, so hand it over by a channel you trust."""

    founder: str
    address: str
    secret: bytes
    expires: int

    @property
    def key(self) -> str:
        """The invitation's public name, a hash of the secret."""
        return hashlib.sha256(b"peerloom invitation" + self.secret).hexdigest()[:16]

    def token(self) -> str:
        """The invitation as one line of text."""
        content = [self.founder, self.address, self.secret.hex(), self.expires]
        return _SCHEME + base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    @classmethod
    def read(cls, token: str) -> Invitation:
        """Read a token. Refuses text that is none."""
        text = token.strip()
        try:
            if not text.startswith(_SCHEME) or len(text) > 2000:
                raise ValueError("it does not begin as one")
            coded = text.removeprefix(_SCHEME)
            content = json.loads(base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))
            founder, address, secret, expires = content
            texts = isinstance(founder, str) and len(founder) == 52 and isinstance(address, str)
            if not texts or type(expires) is not int:
                raise ValueError("a field has another form")
            invitation = cls(founder, address, bytes.fromhex(secret), expires)
        except (ValueError, TypeError, RecursionError) as error:
            raise PeerError(
                f"This is no invitation: {error}. Copy the whole line that the founder sent."
            ) from None
        if address:
            parse_address(address)
        return invitation

    def check_time(self, now: float) -> None:
        """Refuse an invitation that has expired."""
        if now >= self.expires:
            raise PeerError(
                "The invitation has expired. Ask the founder for a new one: peerloom peer invite"
            )


def join_request(
    identity: Identity, invitation: Invitation, name: str, addresses: tuple[str, ...]
) -> bytes:
    """The newcomer's answer to an invitation, as the bytes of a file. Refuses an expired one."""
    invitation.check_time(time.time())
    content = {
        "founder": invitation.founder,
        "invitation": invitation.key,
        "name": name,
        "certificate": identity.certificate.decode(),
        "addresses": list(addresses),
    }
    signed = _canonical(content)
    mac = hmac.new(invitation.secret, signed, "sha256").hexdigest()
    signature = base64.b64encode(identity.sign("join", signed)).decode()
    document = {"request": content, "mac": mac, "signature": signature}
    return json.dumps(document, indent=1).encode() + b"\n"


class InvitationBook:
    """The founder's invitations, open and used, in a file that only the founder may read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.exists():
            refuse_loose_permissions(path)

    def invite(
        self, founder: Identity, address: str, hours: float, now: float | None = None
    ) -> Invitation:
        """A new invitation, on disk before it is returned."""
        expires = int((time.time() if now is None else now) + 3600 * hours)
        invitation = Invitation(founder.id, address, secrets.token_bytes(16), expires)
        book = self._read()
        secret = invitation.secret.hex()
        book[invitation.key] = {"secret": secret, "expires": expires, "used_by": ""}
        self._write(book)
        return invitation

    def accept(
        self, founder: Identity, roster: Roster, data: bytes, now: float | None = None
    ) -> Roster:
        """The roster with the newcomer who sent this join request.

        A member who asks again with the same invitation gets the roster as it is. Refuses what is
        no join request, a wrong secret or signature, and an invitation that was used or expired.
        """
        content, member = self._verified(founder, data)
        book = self._read()
        entry = book[content["invitation"]]
        if entry["used_by"] == member.id and roster.has(member.id):
            return roster
        if entry["used_by"]:  # also by itself: a member that was removed needs a new invitation
            raise PeerError(
                f"This invitation was used by {short_id(entry['used_by'])} already. "
                "Make another one."
            )
        issued = Invitation(founder.id, "", b"", entry["expires"])
        issued.check_time(time.time() if now is None else now)
        extended = roster.with_member(founder, member)
        entry["used_by"] = member.id
        self._write(book)
        return extended

    def _verified(self, founder: Identity, data: bytes) -> tuple[dict[str, Any], Member]:
        if len(data) > LARGEST_REQUEST:
            raise PeerError(f"A join request of {len(data)} bytes is too large.")
        try:
            document = json.loads(data)
            content, mac = document["request"], bytes.fromhex(document["mac"])
            signature = base64.b64decode(document["signature"], validate=True)
            fields = {"founder", "invitation", "name", "certificate", "addresses"}
            if set(document) != {"request", "mac", "signature"} or set(content) != fields:
                raise ValueError("unknown fields")
            texts = [content[name] for name in ("founder", "invitation", "name", "certificate")]
            if not _all_ascii([*texts, *content["addresses"]]):
                raise ValueError("a field is no text of ASCII characters")
            member = Member(content["name"], content["certificate"], tuple(content["addresses"]))
            entry = self._read().get(content["invitation"], {"secret": ""})
            secret = bytes.fromhex(entry["secret"])
            signed = _canonical(content)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PeerError(
                f"This is no join request ({error}). "
                "The newcomer makes one with: peerloom peer join TOKEN"
            ) from None
        if not secret or not hmac.compare_digest(hmac.digest(secret, signed, "sha256"), mac):
            raise PeerError("The join request does not answer any invitation of this founder.")
        if content["founder"] != founder.id:
            raise PeerError("The join request is for another founder.")
        if not certificate_verifies(member.certificate.encode(), "join", signed, signature):
            raise PeerError(
                "Whoever wrote this join request does not hold the key of its certificate."
            )
        return content, member

    def _read(self) -> dict[str, dict[str, Any]]:
        return json.loads(self._path.read_bytes()) if self._path.exists() else {}

    def _write(self, book: dict[str, dict[str, Any]]) -> None:
        write_whole(self._path, json.dumps(book, indent=1).encode(), mode=0o600)


def _all_ascii(values: list[Any]) -> bool:
    return all(isinstance(value, str) and value.isascii() for value in values)


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
