"""The roster: members, links and weights of a federation, signed by its founders.

A peer believes no roster without their signatures. `members` has what a roster lists, `founders`
who signs it, `rosterform` what it must fulfil, `succession` when it follows another, `rosterfile`
its form as bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..errors import ConfigError, PeerError, nearest
from .documents import MALFORMED
from .founders import Head, Signature, believe
from .identity import Identity, plain_id, short_id, spelled_id
from .members import Link, Member, Relay, check_name, parse_address
from .rosterfile import LARGEST_ROSTER, canonical_bytes, file_bytes, read_fields
from .rosterform import LONGEST_LOG, check_form, check_listed
from .rostertime import VALID_DAYS, day_of, expired, expiry, warning
from .succession import RosterForkError, succeeds

__all__ = [
    "LARGEST_ROSTER",
    "Link",
    "Member",
    "Relay",
    "Roster",
    "RosterForkError",
    "check_name",
    "parse_address",
]


@dataclass(frozen=True)
class Roster:
    """One version of the federation. Version numbers only grow.

    A run takes place in one epoch. Within it the founders may remove members and links and add
    members that have no links yet; a running peer takes that up. New links, weights or keys begin
    a new epoch, for the next run.

    `founder` names the federation: the id of its first founder, for good. `founders` are the ids
    whose signatures count now (empty: the first founder), and `threshold` says how many of them
    must sign. Member i is row i of the experiment. `run` and `spec` name the run that the members
    agreed on (empty: none yet). `file` is the SHA-256 of the experiment file's bytes; sites read no
    other file. `log` has the hashes of the versions before, oldest first. `expires` is in seconds
    of Unix time (0: never). `speaks` is the lowest version of the protocol that all members speak,
    signed once all are upgraded (0: not said). `changes` are the heads at which founders changed.
    """

    founder: str
    version: int
    epoch: int
    members: tuple[Member, ...]
    links: tuple[Link, ...] = ()
    run: str = ""
    spec: str = ""
    file: str = ""
    founders: tuple[str, ...] = ()
    threshold: int = 1
    relays: tuple[Relay, ...] = ()
    log: tuple[str, ...] = ()
    expires: int = 0
    speaks: int = 0
    signatures: tuple[Signature, ...] = ()
    changes: tuple[Head, ...] = ()
    format: int = 2
    _by_id: dict[str, Member] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, Member] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_listed(self.members, self.relays)  # before anything asks for the id of one
        object.__setattr__(self, "_by_id", {member.id: member for member in self.members})
        object.__setattr__(self, "_by_name", {member.name: member for member in self.members})
        object.__setattr__(self, "founders", self.founders or (self.founder,))
        check_form(self)

    # -- looking up

    def member(self, who: str) -> Member:
        """A member by name or id, as people write ids: in groups or not, or the first group."""
        found = self._by_id.get(who) or self._by_name.get(who) or self._written(who)
        if found is None:
            known = nearest(who, [member.name for member in self.members])
            raise PeerError(
                f"'{who}' is no member of version {self.version} of the roster. {known}"
            )
        return found

    def _written(self, who: str) -> Member | None:
        """The member whose id a person wrote so; None if there is none, or more than one."""
        text = plain_id(who)
        fits = [
            member
            for member in self.members
            if text in (member.id, plain_id(spelled_id(member.id)), short_id(member.id))
        ]
        return fits[0] if len(fits) == 1 else None

    def relay(self, name: str) -> Relay:
        """A relay by name."""
        for relay in self.relays:
            if relay.name == name:
                return relay
        known = nearest(name, [relay.name for relay in self.relays])
        raise PeerError(f"'{name}' is no relay of version {self.version} of the roster. {known}")

    def has(self, id: str) -> bool:
        """Whether this id is a member."""
        return id in self._by_id

    def name(self, id: str) -> str:
        """The member's name; the short id if there is no such member."""
        return self.member(id).name if self.has(id) else short_id(id)

    @property
    def named_founders(self) -> str:
        """The founders, for people: members by name, other keys by the whole id.

        Keys with the same first group of an id are found in hours.
        """
        return ", ".join(self.name(id) if self.has(id) else spelled_id(id) for id in self.founders)

    def row(self, id: str) -> int:
        """The member's index in `members`, which is its row in the experiment."""
        return self.members.index(self.member(id))

    def targets(self, id: str) -> list[str]:
        """The ids of the members that this one sends to."""
        return sorted({link.target for link in self.links if link.source == id})

    def sources(self, id: str) -> list[str]:
        """The ids of the members that this one receives from."""
        return sorted({link.source for link in self.links if link.target == id})

    @property
    def previous(self) -> str:
        """The hash of the version before; empty for the first."""
        return self.log[-1] if self.log else ""

    # -- making the next version

    @classmethod
    def found(
        cls,
        identity: Identity,
        name: str,
        addresses: Iterable[str] = (),
        now: float | None = None,
    ) -> Roster:
        """Version 1 of a new federation: the founder alone."""
        member = Member(name, identity.certificate.decode(), tuple(addresses))
        return cls(identity.id, 1, 0, (member,), expires=expiry(now, VALID_DAYS)).signed(identity)

    def amended(
        self,
        identity: Identity,
        *,
        new_epoch: bool = False,
        now: float | None = None,
        days: float = VALID_DAYS,
        **changes: Any,
    ) -> Roster:
        """The next version with these fields changed, good for so many days, signed by one founder.

        Where more must sign, it is a proposal until they have (see `lacks`).
        """
        draft = replace(
            self,
            version=self.version + 1,
            epoch=self.epoch + new_epoch,
            log=(*self.log, self.hash)[-LONGEST_LOG:],
            expires=expiry(now, days),
            signatures=(),
            changes=(*self.changes, self.head) if self._changes_founders else self.changes,
            format=2,
            **changes,
        )
        return draft.signed(identity)

    def with_member(self, identity: Identity, member: Member, now: float | None = None) -> Roster:
        """The next version with this member added, or replaced in its row if its id is known."""
        others = [other for other in self.members if other.id != member.id]
        if len(others) < len(self.members):
            others.insert(self.row(member.id), member)
            return self.amended(identity, members=tuple(others), now=now)
        return self.amended(identity, members=(*self.members, member), now=now)

    def without_member(self, identity: Identity, who: str) -> Roster:
        """The next version without this member and its links. Refuses to remove a founder."""
        gone = self.member(who).id
        if gone in self.founders:
            raise PeerError(
                f"{self.name(gone)} is a founder: it signs the roster and cannot be removed from "
                "it. First let others be the founders: peerloom peer roster propose FILE"
            )
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
        """This roster with a founder's signature added. Refuses any other key.

        A change of founders is signed by those before and by those named in it.
        """
        if identity.id not in {*self.founders, *self._mandate.founders}:
            names = ", ".join(short_id(id) for id in self.founders)
            raise PeerError(
                f"Only the founder ({names}) signs this roster; "
                f"this key is {short_id(identity.id)}."
            )
        kept = [signature for signature in self.signatures if signature.id != identity.id]
        own = Signature.of(identity, "roster", self.head.signed_bytes)
        return replace(self, signatures=(*kept, own))

    @property
    def lacks(self) -> str:
        """What is missing until enough founders have signed this version; empty if nothing."""
        return self.head.lacks(self._mandate) or self.head.lacks(self.head)

    @property
    def _mandate(self) -> Head:
        """The last head at which the founders changed, before this version."""
        first = Head(self.founder, 0, (self.founder,), 1, "")
        return self.changes[-1] if self.changes else first

    @property
    def _changes_founders(self) -> bool:
        before = self._mandate
        return (set(self.founders), self.threshold) != (set(before.founders), before.threshold)

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
        """SHA-256 of the canonical form, without the signatures."""
        return hashlib.sha256(self.canonical()).hexdigest()

    @cached_property
    def head(self) -> Head:
        """What founders sign of this version."""
        older_form = b"" if self.format == 2 else self.canonical()
        return Head(
            self.founder, self.version, self.founders, self.threshold, self.hash, self.signatures,
            older_form,
        )  # fmt: skip

    def verify(self, founder: str) -> None:
        """Refuse a roster that nobody need believe who knows this founder's id and no more.

        The founder signed this version, or a change of founders that leads to those who did.
        """
        believe(founder, (*self.changes, self.head))

    def succeeds(self, known: Roster) -> bool:
        """Whether this roster is newer than a known one. Refuses a fork with `RosterForkError`.

        Refuses, too, what the founders of the known one did not sign, nor those to whom they
        handed over.
        """
        return succeeds(self, known)

    # -- time

    def expired(self, now: float) -> bool:
        """Whether its time is over, with some days' grace for clocks that differ."""
        return expired(self.expires, now)

    @property
    def expiry_day(self) -> str:
        """The date until which it is good."""
        return day_of(self.expires)

    def warning(self, now: float) -> str:
        """What to say about its time: empty while there is plenty of it."""
        return warning(self.version, self.expires, now)

    def check_time(self, now: float, what: str) -> None:
        """Refuse to begin anything under a roster whose time is over."""
        if self.expired(now):
            raise PeerError(
                f"{what} needs a roster whose time is not over. {self.warning(now)} If the date is "
                "wrong, it is this machine's clock."
            )

    # -- as bytes

    def canonical(self) -> bytes:
        """The content as bytes, without the signatures: what is hashed."""
        return canonical_bytes(self)

    def to_bytes(self) -> bytes:
        """The file: the content and the signatures."""
        return file_bytes(self)

    @classmethod
    def from_bytes(cls, data: bytes, founder: str) -> Roster:
        """Read a roster and verify it. Refuses one that this founder's id gives no reason for."""
        try:
            roster = cls(**read_fields(data, founder))
            roster.verify(founder)
        except MALFORMED as error:
            raise PeerError(
                f"This is no roster that this version of Peerloom reads ({error})."
            ) from None
        return roster
