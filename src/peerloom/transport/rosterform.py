"""What every roster must fulfil, whoever signed it."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from ..errors import PeerError
from .certificate import certificate_subject, check_certificate
from .founders import MOST_CHANGES, MOST_FOUNDERS
from .identity import short_id
from .members import Member, Relay, check_name, parse_address

if TYPE_CHECKING:
    from .roster import Roster

__all__ = ["LONGEST_LOG", "MOST_RELAYS", "check_form", "check_listed"]

MOST_RELAYS = 3
LONGEST_LOG = 1024  # hashes of versions before
_MOST_ADDRESSES = 16
_ID = re.compile("[A-Z2-7]{52}")


def check_form(roster: Roster) -> None:
    """Refuse a roster that makes no sense, and say which part."""
    _check_members(roster)
    _check_links(roster)
    _check_founders(roster)
    if roster.version < 1 or len(roster.log) > min(roster.version - 1, LONGEST_LOG):
        raise PeerError(
            f"Version {roster.version} of the roster names {len(roster.log)} versions before it."
        )
    if roster.version > 1 and not roster.log:
        raise PeerError(f"Version {roster.version} of the roster names no version before it.")


def _check_members(roster: Roster) -> None:
    names = [member.name for member in roster.members]
    if len({m.id for m in roster.members}) < len(names) or len(set(names)) < len(names):
        raise PeerError(
            f"Every member of a roster needs a name and a key of its own; found {names}."
        )
    subjects = {certificate_subject(member.certificate) for member in roster.members}
    if len(subjects) < len(names):
        raise PeerError("Two members of the roster have certificates with one Subject.")
    former = [member.was for member in roster.members if member.was]
    for id in former:
        if not _ID.fullmatch(id) or roster.has(id) or former.count(id) > 1:
            raise PeerError(
                f"A member of the roster was {short_id(id)} before, which is no id, or that of "
                "another member."
            )


def check_listed(members: tuple[Member, ...], relays: tuple[Relay, ...]) -> None:
    """Refuse a member or a relay without a proper name, certificate or address, and name it."""
    for member in members:
        _check_named(member, "Member")
    for relay in relays:
        _check_named(relay, "Relay")
        if not relay.addresses:
            raise PeerError(f"Relay '{relay.name}' of the roster has no address.")
    kept = len({relay.name for relay in relays}), len({relay.id for relay in relays})
    if len(relays) > MOST_RELAYS or kept != (len(relays), len(relays)):
        raise PeerError(
            f"A roster has at most {MOST_RELAYS} relays, each with a name and a key of its own; "
            f"found {[relay.name for relay in relays]}."
        )


def _check_named(who: Member | Relay, what: str) -> None:
    check_name(who.name)
    try:
        check_certificate(who.certificate)
    except PeerError as error:
        why = str(error).removesuffix(".")
        raise PeerError(f"{what} '{who.name}' of the roster is refused: {why}.") from None
    if len(who.addresses) > _MOST_ADDRESSES:
        raise PeerError(f"{what} '{who.name}' has more than {_MOST_ADDRESSES} addresses.")
    for address in who.addresses:
        parse_address(address)


def _check_links(roster: Roster) -> None:
    for link in roster.links:
        if not (roster.has(link.source) and roster.has(link.target)) or link.source == link.target:
            raise PeerError(
                f"The roster has a link from {short_id(link.source)} to "
                f"{short_id(link.target)}: both must be members."
            )
        if not (0 <= link.a < math.inf and 0 <= link.b < math.inf):
            raise PeerError(
                "The weights of a link must be finite and not negative, "
                f"found a={link.a}, b={link.b}."
            )


def _check_founders(roster: Roster) -> None:
    versions = [0]
    for head in (*roster.changes, roster.head):
        founders = head.founders
        proper = all(isinstance(id, str) and _ID.fullmatch(id) for id in (head.founder, *founders))
        if not proper or len(set(founders)) < len(founders) or len(founders) > MOST_FOUNDERS:
            raise PeerError(
                f"A roster names up to {MOST_FOUNDERS} founders by ids, each once; found "
                f"{[str(id)[:52] for id in founders]}."
            )
        if not 1 <= head.threshold <= len(founders):
            raise PeerError(
                f"{head.threshold} of {len(founders)} founders cannot sign a roster. At least one "
                "must, and at most all."
            )
        if head.founder != roster.founder or head.version <= versions[-1]:
            raise PeerError("The roster's changes of founders are not those of its federation.")
        versions.append(head.version)
    if len(roster.changes) > MOST_CHANGES:
        raise PeerError(
            f"Founders may change {MOST_CHANGES} times. Found a new federation for the next run."
        )
    if roster.format == 1 and (roster.founders, roster.threshold) != ((roster.founder,), 1):
        raise PeerError("A roster of format 1 has one founder.")
