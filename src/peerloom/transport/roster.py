"""The roster: members, links and weights of a federation, signed by the founder.

A peer believes no roster without that signature. `members` has what a roster lists, `rosterfile`
its form as bytes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..errors import ConfigError, PeerError, nearest
from .identity import Identity, certificate_verifies, short_id
from .members import Link, Member, check_name, parse_address
from .rosterfile import LARGEST_ROSTER, MALFORMED, canonical_bytes, file_bytes, read_fields

__all__ = [
    "LARGEST_ROSTER",
    "Link",
    "Member",
    "Roster",
    "RosterForkError",
    "check_name",
    "parse_address",
]


class RosterForkError(PeerError):
    """Two rosters of one federation that cannot both hold."""


@dataclass(frozen=True)
class Roster:
    """One version of the federation. Version numbers only grow.

    A run takes place in one epoch. Within it the founder may remove members and links and add
    members that have no links yet; a running peer takes that up. New links or weights begin a new
    epoch, for the next run.

    Member i is row i of the experiment. `run` and `spec` name the run that the members agreed on
    (empty: none yet). `file` is the SHA-256 of the experiment file's bytes; sites read no other
    file. `previous` is the hash of the version before.
    """

    founder: str
    version: int
    epoch: int
    members: tuple[Member, ...]
    links: tuple[Link, ...] = ()
    run: str = ""
    spec: str = ""
    previous: str = ""
    signature: bytes = b""
    file: str = ""
    _by_id: dict[str, Member] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, Member] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {member.id: member for member in self.members})
        object.__setattr__(self, "_by_name", {member.name: member for member in self.members})
        self._check()

    # -- looking up

    def member(self, who: str) -> Member:
        """A member by name or id."""
        found = self._by_id.get(who) or self._by_name.get(who)
        if found is None:
            known = nearest(who, [member.name for member in self.members])
            raise PeerError(
                f"'{who}' is no member of version {self.version} of the roster. {known}"
            )
        return found

    def has(self, id: str) -> bool:
        """Whether this id is a member."""
        return id in self._by_id

    def name(self, id: str) -> str:
        """The member's name; the short id if there is no such member."""
        return self.member(id).name if self.has(id) else short_id(id)

    def row(self, id: str) -> int:
        """The member's index in `members`, which is its row in the experiment."""
        return self.members.index(self.member(id))

    def targets(self, id: str) -> list[str]:
        """The ids of the members that this one sends to."""
        return sorted({link.target for link in self.links if link.source == id})

    def sources(self, id: str) -> list[str]:
        """The ids of the members that this one receives from."""
        return sorted({link.source for link in self.links if link.target == id})

    # -- making the next version

    @classmethod
    def found(cls, identity: Identity, name: str, addresses: Iterable[str] = ()) -> Roster:
        """Version 1 of a new federation: the founder alone."""
        founder = Member(name, identity.certificate.decode(), tuple(addresses))
        return cls(identity.id, 1, 0, (founder,)).signed(identity)

    def amended(self, identity: Identity, *, new_epoch: bool = False, **changes: Any) -> Roster:
        """The next version with these fields changed, signed. Refuses any key but the founder's."""
        draft = replace(
            self,
            version=self.version + 1,
            epoch=self.epoch + new_epoch,
            previous=self.hash,
            signature=b"",
            **changes,
        )
        return draft.signed(identity)

    def with_member(self, identity: Identity, member: Member) -> Roster:
        """The next version with this member added, or replaced in its row if its id is known."""
        others = [other for other in self.members if other.id != member.id]
        if len(others) < len(self.members):
            others.insert(self.row(member.id), member)
            return self.amended(identity, members=tuple(others))
        return self.amended(identity, members=(*self.members, member))

    def without_member(self, identity: Identity, who: str) -> Roster:
        """The next version without this member and its links. Refuses to remove the founder."""
        gone = self.member(who).id
        if gone == self.founder:
            raise PeerError("The founder signs the roster and cannot be removed from it.")
        return self.amended(
            identity,
            members=tuple(member for member in self.members if member.id != gone),
            links=tuple(link for link in self.links if gone not in (link.source, link.target)),
        )

    def without_links(self, identity: Identity, pairs: Iterable[tuple[str, str]]) -> Roster:
        """The next version without the links of these (source, target) pairs."""
        gone = set(pairs)
        return self.amended(
            identity,
            links=tuple(link for link in self.links if (link.source, link.target) not in gone),
        )

    def with_links(self, identity: Identity, links: Iterable[Link]) -> Roster:
        """The next version with these links instead of the old ones, in a new epoch."""
        return self.amended(identity, links=tuple(links), new_epoch=True)

    def signed(self, identity: Identity) -> Roster:
        """This roster with the founder's signature. Refuses any other key."""
        if identity.id != self.founder:
            raise PeerError(
                f"Only the founder ({short_id(self.founder)}) signs this roster; "
                f"this key is {short_id(identity.id)}."
            )
        return replace(self, signature=identity.sign("roster", self.canonical()))

    # -- trust

    def signs(self, data: bytes) -> bool:
        """Whether these are the bytes of the experiment file that the founder signed."""
        return bool(self.file) and hashlib.sha256(data).hexdigest() == self.file

    def check_file(self, data: bytes, source: object) -> None:
        """Refuse an experiment file whose bytes the founder did not sign.

        Call this before anything of the file is parsed.
        """
        if not self.file:
            raise ConfigError(
                f"Version {self.version} of the roster names no experiment file, so {source} "
                "cannot be checked. The founder signs it: peerloom peer roster graph FILE"
            )
        if not self.signs(data):
            found = hashlib.sha256(data).hexdigest()
            raise ConfigError(
                f"The founder signed an experiment file with SHA-256 {self.file[:16]}..., but "
                f"{source} has {found[:16]}...: it was changed, or is another one. Nothing of it "
                "was read. Take the file that was agreed on, byte by byte (`peerloom peer kit "
                "open` brings it), or ask the founder to sign this one."
            )

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical form, without the signature."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def verify(self, founder: str) -> None:
        """Refuse a roster that this founder did not sign."""
        if self.founder != founder:
            raise PeerError(
                f"This roster is of founder {short_id(self.founder)}, not of "
                f"{short_id(founder)} who was expected."
            )
        certificate = self.member(founder).certificate.encode()
        if not certificate_verifies(certificate, "roster", self.canonical(), self.signature):
            raise PeerError(
                f"The founder's signature on version {self.version} of the roster is wrong: "
                "it was changed on its way."
            )

    def succeeds(self, known: Roster) -> bool:
        """Whether this roster is newer than a known one. Refuses a fork with `RosterForkError`."""
        if self.version < known.version:
            return False
        if self.version == known.version:
            forked = self.hash != known.hash
        else:
            follows = self.version > known.version + 1 or self.previous == known.hash
            forked = not follows or self.epoch < known.epoch
        if forked:
            raise RosterForkError(
                f"Two different rosters claim version {self.version} of one federation. "
                "Somebody signed twice: ask the founder which one holds, and do not run "
                "before that."
            )
        return self.version > known.version

    # -- as bytes

    def canonical(self) -> bytes:
        """The bytes that are signed, without the signature."""
        return canonical_bytes(self)

    def to_bytes(self) -> bytes:
        """The file: the content and the signature."""
        return file_bytes(self)

    @classmethod
    def from_bytes(cls, data: bytes, founder: str) -> Roster:
        """Read a roster and verify it. Refuses one that this founder did not sign."""
        try:
            roster = cls(**read_fields(data))
            roster.verify(founder)
        except MALFORMED as error:
            raise PeerError(
                f"This is no roster that this version of Peerloom reads ({error})."
            ) from None
        return roster

    def _check(self) -> None:
        names = [member.name for member in self.members]
        for name in names:
            check_name(name)
        if len(self._by_id) < len(names) or len(self._by_name) < len(names):
            raise PeerError(
                f"Every member of a roster needs a name and a key of its own; found {names}."
            )
        for member in self.members:
            for address in member.addresses:
                parse_address(address)
        for link in self.links:
            if not (self.has(link.source) and self.has(link.target)) or link.source == link.target:
                raise PeerError(
                    f"The roster has a link from {short_id(link.source)} to "
                    f"{short_id(link.target)}: both must be members."
                )
            if not (0 <= link.a < math.inf and 0 <= link.b < math.inf):
                raise PeerError(
                    "The weights of a link must be finite and not negative, "
                    f"found a={link.a}, b={link.b}."
                )
