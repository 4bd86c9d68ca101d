"""A member's new key: asked for with the old one and the new one, granted by a roster."""

from __future__ import annotations

import json
from dataclasses import replace

from ..errors import PeerError
from .certificate import certificate_id, check_certificate
from .documents import MALFORMED, canonical, parse_json, pem, text
from .founders import Signature
from .identity import Identity
from .members import Member
from .roster import Roster

__all__ = ["grant_rekey", "member_to_rekey", "rekey_request"]

_LARGEST = 65536


def rekey_request(old: Identity, new: Identity, roster: Roster) -> bytes:
    """The request of the member with the old key, as the bytes of a file.

    Both keys sign: the old one says who asks, the new one that its holder has it.
    """
    content = {
        "federation": roster.founder,
        "was": old.id,
        "certificate": new.certificate.decode(),
        "roster": roster.hash,
    }
    signatures = [Signature.of(key, "rekey", canonical(content)) for key in (old, new)]
    document = {"rekey": content, "signatures": [each.document() for each in signatures]}
    return json.dumps(document, indent=1).encode() + b"\n"


def grant_rekey(founder: Identity, roster: Roster, data: bytes, now: float | None = None) -> Roster:
    """The next version, in which the member who sent this request has its new key.

    Refuses what is no such request, one of another federation or of a key that is no member's, and
    one that was made under a roster that this one does not follow.
    """
    try:
        if len(data) > _LARGEST:
            raise ValueError(f"{len(data)} bytes are too many")
        document = parse_json(data)
        content = document["rekey"]
        if set(document) != {"rekey", "signatures"} or set(content) != {
            "federation", "was", "certificate", "roster",
        }:  # fmt: skip
            raise ValueError("unknown fields")
        was, certificate = text(content["was"]), pem(content["certificate"], 2000)
        check_certificate(certificate)
        signatures = Signature.read_all(document["signatures"])
        signed = canonical(content)
    except (*MALFORMED, PeerError) as error:
        raise PeerError(
            f"This is no request for a new key ({error}). The member makes one with: peerloom peer "
            "rekey FILE"
        ) from None
    if content["federation"] != roster.founder:
        raise PeerError("The request for a new key is of another federation.")
    if content["roster"] not in (*roster.log, roster.hash):
        raise PeerError(
            "The request for a new key was made under a roster that this one does not follow, or "
            "too long ago. Let the member make another."
        )
    if {each.id for each in signatures if each.holds("rekey", signed)} != {
        was, certificate_id(certificate.encode()),
    }:  # fmt: skip
        raise PeerError("The request for a new key is not signed by the old key and the new one.")
    return _with_key(founder, roster, was, certificate, now)


def member_to_rekey(roster: Roster, id: str) -> Member:
    """The member with this key. Refuses a stranger, and a founder, whose key signs rosters."""
    member = roster.member(id)
    if member.id in roster.founders:
        raise PeerError(
            f"{member.name} is a founder, and its key signs rosters. First let another key be the "
            "founder's: peerloom peer roster propose FILE"
        )
    return member


def _with_key(
    founder: Identity, roster: Roster, was: str, certificate: str, now: float | None
) -> Roster:
    """The next version, in a new epoch: name, row and links of the member stay."""
    member = member_to_rekey(roster, was)
    renewed = replace(member, certificate=certificate, was=member.id)
    ids = {member.id: renewed.id}
    return roster.amended(
        founder,
        now=now,
        new_epoch=True,
        members=tuple(renewed if other is member else other for other in roster.members),
        links=tuple(
            replace(
                link,
                source=ids.get(link.source, link.source),
                target=ids.get(link.target, link.target),
            )
            for link in roster.links
        ),
    )
