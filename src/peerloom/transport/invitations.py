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
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import PeerError
from .certificate import certificate_verifies, check_certificate
from .documents import MALFORMED, canonical, parse_json, pem, sealed, text, texts, unsealed, whole
from .files import changing, refuse_loose_permissions, write_whole
from .identity import Identity, short_id
from .json_files import COUNT, TEXT, Each, check_form, read_json
from .members import Member, Relay, check_name, parse_address
from .roster import Roster

__all__ = ["Invitation", "InvitationBook", "join_request"]

_SCHEME = "peerloom-invitation."
LARGEST_REQUEST = 65536
_ENTRY = {"secret": TEXT, "expires": COUNT, "used_by": TEXT}
_USE = {"version": COUNT, "made": TEXT}  # of the roster that its use made, and that roster's hash
_LONGEST_TOKEN = 4000


@dataclass(frozen=True)
class Invitation:
    """What a token says. Its holder can join once, so hand it over by a channel you trust.

    `founder` is the id of the founder who invites. The newcomer finds it at `address`, or through
    `relay` if it cannot be dialled.
    """

    founder: str
    address: str
    secret: bytes
    expires: int
    relay: Relay | None = None

    @property
    def key(self) -> str:
        """The invitation's public name, a hash of the secret."""
        return hashlib.sha256(b"peerloom invitation" + self.secret).hexdigest()[:16]

    @property
    def visit(self) -> bytes:
        """What a newcomer shows to a relay: it proves the secret, and is good for nothing else."""
        return hmac.digest(self.secret, b"peerloom visit through a relay", "sha256")

    def token(self) -> str:
        """The invitation as one line of text."""
        content: list[Any] = [self.founder, self.address, self.secret.hex(), self.expires]
        if self.relay is not None:
            relay = self.relay
            content.append([relay.name, relay.certificate, list(relay.addresses)])
        return _SCHEME + base64.urlsafe_b64encode(canonical(content)).decode().rstrip("=")

    @classmethod
    def read(cls, token: str) -> Invitation:
        """Read a token. Refuses text that is none."""
        line = token.strip()
        try:
            if not line.startswith(_SCHEME) or len(line) > _LONGEST_TOKEN:
                raise ValueError("it does not begin as one")
            coded = line.removeprefix(_SCHEME)
            content = parse_json(base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))
            founder, address, secret, expires, *more = content
            if not re.fullmatch("[A-Z2-7]{52}", founder) or len(more) > 1:
                raise ValueError("a field has another form")
            relay = _read_relay(more[0]) if more else None
            code = bytes.fromhex(text(secret, 64))
            invitation = cls(founder, text(address, 300), code, whole(expires), relay)
            if address:
                parse_address(address)
        except (*MALFORMED, PeerError) as error:
            raise PeerError(
                f"This is no invitation: {error}. Copy the whole line that the founder sent."
            ) from None
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
    signed = canonical(content)
    mac = hmac.new(invitation.secret, signed, "sha256").hexdigest()
    signature = sealed(identity.sign("join", signed))
    document = {"request": content, "mac": mac, "signature": signature}
    return json.dumps(document, indent=1).encode() + b"\n"


class InvitationBook:
    """The founder's invitations, open and used, in a file that only the founder may read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.exists():
            refuse_loose_permissions(path)

    def invite(
        self,
        founder: Identity,
        address: str,
        hours: float,
        now: float | None = None,
        relay: Relay | None = None,
    ) -> Invitation:
        """A new invitation, on disk before it is returned."""
        expires = int((time.time() if now is None else now) + 3600 * hours)
        invitation = Invitation(founder.id, address, secrets.token_bytes(16), expires, relay)
        unused = {"used_by": "", "version": 0, "made": ""}
        entry = {"secret": invitation.secret.hex(), "expires": expires, **unused}
        with self._changed() as book:
            book[invitation.key] = entry
        return invitation

    def accept(
        self, founder: Identity, roster: Roster, data: bytes, now: float | None = None
    ) -> Roster:
        """The roster with the newcomer who sent this join request.

        A member who asks again with the same invitation gets the roster as it is. A newcomer may
        ask again if the roster with it came to nothing: another was signed in its place, or this
        program was ended before it was written. Refuses what is no join request, a wrong secret or
        signature, and an invitation that was used or expired.
        """
        content, member = self._verified(founder, data)
        with self._changed() as book:
            entry = book[content["invitation"]]
            if entry["used_by"] == member.id and roster.has(member.id):
                return roster
            again = entry["used_by"] == member.id and not _came_to_be(entry, roster)
            # Also by itself: a member that was removed needs a new one.
            if entry["used_by"] and not again:
                raise PeerError(
                    f"This invitation was used by {short_id(entry['used_by'])} already. "
                    "Make another one."
                )
            now = time.time() if now is None else now
            Invitation(founder.id, "", b"", entry["expires"]).check_time(now)
            roster.check_time(now, "A newcomer")
            extended = roster.with_member(founder, member, now=now)
            entry |= {"used_by": member.id, "version": extended.version, "made": extended.hash}
        return extended

    def _verified(self, founder: Identity, data: bytes) -> tuple[dict[str, Any], Member]:
        if len(data) > LARGEST_REQUEST:
            raise PeerError(f"A join request of {len(data)} bytes is too large.")
        try:
            document = parse_json(data)
            content, mac = document["request"], bytes.fromhex(document["mac"])
            signature = unsealed(document["signature"])
            fields = {"founder", "invitation", "name", "certificate", "addresses"}
            if set(document) != {"request", "mac", "signature"} or set(content) != fields:
                raise ValueError("unknown fields")
            addresses = texts(content["addresses"])
            member = Member(text(content["name"]), pem(content["certificate"], 2000), addresses)
            entry = self._read().get(text(content["invitation"]), {"secret": ""})
            secret = bytes.fromhex(entry["secret"])
            signed = canonical(content)
            check_certificate(member.certificate)
        except (*MALFORMED, PeerError) as error:
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

    def open(self) -> list[str]:
        """The public names of the invitations that nobody has used yet."""
        return [key for key, entry in self._read().items() if not entry["used_by"]]

    def void(self) -> None:
        """End every invitation: a book that was put back does not know whom it let in since."""
        with self._changed() as book:
            for entry in book.values():
                entry["expires"] = 0

    def _read(self) -> dict[str, dict[str, Any]]:
        if not self._path.exists():
            return {}
        book: dict[str, dict[str, Any]] = read_json(self._path, Each(_ENTRY), _filled)
        return book

    @contextmanager
    def _changed(self) -> Iterator[dict[str, dict[str, Any]]]:
        """The book, for one command at a time: no mark of use is lost to another."""
        with changing(self._path.parent):
            book = self._read()
            before = json.dumps(book)
            yield book
            if json.dumps(book) != before:
                write_whole(self._path, json.dumps(book, indent=1).encode(), mode=0o600)


def _filled(book: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """A book of any version; earlier ones did not say what a use made."""
    filled = {key: {"version": 0, "made": "", **entry} for key, entry in book.items()}
    check_form(filled, Each(_ENTRY | _USE))
    return filled


def _came_to_be(entry: dict[str, Any], roster: Roster) -> bool:
    """Whether the roster that an invitation's use made is this one, or one that it follows.

    So it counts, too, where the log does not reach back so far.
    """
    known, back = (*roster.log, roster.hash), roster.version - int(entry["version"])
    made: str = entry["made"]
    return back >= len(known) or (back >= 0 and known[-1 - back] == made)


def _read_relay(found: Any) -> Relay:
    name, certificate, addresses = found
    relay = Relay(text(name), pem(certificate, 2000), texts(addresses))
    check_name(relay.name)
    check_certificate(relay.certificate)
    for address in relay.addresses:
        parse_address(address)
    return relay
