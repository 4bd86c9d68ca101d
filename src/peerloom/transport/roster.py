"""The roster: who takes part, which links there are, with which weights. Signed by the founder; nothing else is believed."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ..errors import ConfigError, PeerError, nearest
from .identity import Identity, certificate_id, certificate_verifies, short_id

__all__ = [
    "LARGEST_ROSTER",
    "Link",
    "Member",
    "Roster",
    "RosterForkError",
    "check_name",
    "parse_address",
]

LARGEST_ROSTER = 4 << 20  # bytes: some 3000 members with their certificates
_FORMAT = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class RosterForkError(PeerError):
    """Two rosters of one federation that cannot both hold."""


@dataclass(frozen=True)
class Member:
    """One peer: the name people use, the certificate that TLS pins, and where it listens ('host:port')."""

    name: str
    certificate: str
    addresses: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The peer's id: the hash of its public key."""
        return certificate_id(self.certificate.encode())


@dataclass(frozen=True)
class Link:
    """A directed link between two members by id: a is the receiver's weight (pull), b the sender's (push)."""

    source: str
    target: str
    a: float = 0.0
    b: float = 0.0
    layer: str = "peers"


@dataclass(frozen=True)
class Roster:
    """One version of the federation. Versions only grow.

    A run lives in one epoch. Within it members and links may be taken away, and newcomers be entered who have no links yet:
    a run under way takes that up. A new epoch begins with new links or weights; those are for the next run.

    The order of `members` is the order of rows: member i is row i of the experiment. `run` and `spec` may name the run that
    the members have agreed to (empty: none yet), and `file` is the SHA-256 of the experiment file's bytes: a site reads no
    other file. `previous` is the hash of the version before.
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
        """The member's name, or the short id of somebody who is none."""
        return self.member(id).name if self.has(id) else short_id(id)

    def row(self, id: str) -> int:
        """The member's place in the order of members."""
        return self.members.index(self.member(id))

    def targets(self, id: str) -> list[str]:
        """To whom this member sends."""
        return sorted({link.target for link in self.links if link.source == id})

    def sources(self, id: str) -> list[str]:
        """From whom this member hears."""
        return sorted({link.source for link in self.links if link.target == id})

    # -- making the next version

    @classmethod
    def found(cls, identity: Identity, name: str, addresses: Iterable[str] = ()) -> Roster:
        """Version 1 of a new federation: the founder alone."""
        founder = Member(name, identity.certificate.decode(), tuple(addresses))
        return cls(identity.id, 1, 0, (founder,)).signed(identity)

    def amended(self, identity: Identity, *, new_epoch: bool = False, **changes: Any) -> Roster:
        """The next version with these fields changed, signed by the founder."""
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
        """The next version, with one more member or with new particulars of one that is there."""
        others = [other for other in self.members if other.id != member.id]
        if len(others) < len(self.members):
            others.insert(self.row(member.id), member)
            return self.amended(identity, members=tuple(others))
        return self.amended(identity, members=(*self.members, member))

    def without_member(self, identity: Identity, who: str) -> Roster:
        """The next version, without this member and its links."""
        gone = self.member(who).id
        if gone == self.founder:
            raise PeerError("The founder signs the roster and cannot be removed from it.")
        return self.amended(
            identity,
            members=tuple(member for member in self.members if member.id != gone),
            links=tuple(link for link in self.links if gone not in (link.source, link.target)),
        )

    def without_links(self, identity: Identity, pairs: Iterable[tuple[str, str]]) -> Roster:
        """The next version, without the links between these (source, target)."""
        gone = set(pairs)
        return self.amended(
            identity,
            links=tuple(link for link in self.links if (link.source, link.target) not in gone),
        )

    def with_links(self, identity: Identity, links: Iterable[Link]) -> Roster:
        """The next version with these links in place of the old ones, in a new epoch."""
        return self.amended(identity, links=tuple(links), new_epoch=True)

    def signed(self, identity: Identity) -> Roster:
        """This roster with the founder's signature."""
        if identity.id != self.founder:
            raise PeerError(
                f"Only the founder ({short_id(self.founder)}) signs this roster; this key is {short_id(identity.id)}."
            )
        return replace(self, signature=identity.sign("roster", self.canonical()))

    # -- trust

    def signs(self, data: bytes) -> bool:
        """Whether these are the bytes of the experiment file that the founder signed."""
        return bool(self.file) and hashlib.sha256(data).hexdigest() == self.file

    def check_file(self, data: bytes, source: object) -> None:
        """Refuse an experiment file whose bytes the founder did not sign. Nothing of it may be parsed before this."""
        if not self.file:
            raise ConfigError(
                f"Version {self.version} of the roster names no experiment file, so {source} cannot be checked. The founder "
                "signs it: peerloom peer roster graph FILE"
            )
        if not self.signs(data):
            found = hashlib.sha256(data).hexdigest()
            raise ConfigError(
                f"The founder signed an experiment file with SHA-256 {self.file[:16]}..., but {source} has {found[:16]}...: "
                "it was changed, or is another one. Nothing of it was read. Take the file that was agreed on, byte by byte "
                "(`peerloom peer kit open` brings it), or ask the founder to sign this one."
            )

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical form, without the signature."""
        return hashlib.sha256(self.canonical()).hexdigest()

    def verify(self, founder: str) -> None:
        """Refuse a roster that this founder did not sign."""
        if self.founder != founder:
            raise PeerError(
                f"This roster is of founder {short_id(self.founder)}, not of {short_id(founder)} who was expected."
            )
        certificate = self.member(founder).certificate.encode()
        if not certificate_verifies(certificate, "roster", self.canonical(), self.signature):
            raise PeerError(
                f"The founder's signature on version {self.version} of the roster is wrong: it was changed on its way."
            )

    def succeeds(self, known: Roster) -> bool:
        """Whether this roster is newer than a known one; the same is not newer, and a fork is refused."""
        if self.version < known.version:
            return False
        forked = self.hash != known.hash if self.version == known.version else False
        if self.version == known.version + 1:
            forked = self.previous != known.hash
        if forked or (self.version > known.version and self.epoch < known.epoch):
            raise RosterForkError(
                f"Two different rosters claim version {self.version} of one federation. Somebody signed twice: ask the "
                "founder which one holds, and do not run before that."
            )
        return self.version > known.version

    # -- as text

    def canonical(self) -> bytes:
        """The bytes that are signed: JSON with sorted keys and no space, one form only for one content."""
        return json.dumps(
            self._content(), sort_keys=True, separators=(",", ":"), allow_nan=False
        ).encode()

    def to_bytes(self) -> bytes:
        """The file: the content and the signature."""
        document = {
            "roster": self._content(),
            "signature": base64.b64encode(self.signature).decode(),
        }
        return json.dumps(document, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, founder: str) -> Roster:
        """Read and verify; nothing of an unverified roster is handed out."""
        if len(data) > LARGEST_ROSTER:
            raise PeerError(
                f"A roster of {len(data)} bytes is too large; at most {LARGEST_ROSTER} are read."
            )
        try:
            document = json.loads(data)
            content, signature = (
                document["roster"],
                base64.b64decode(document["signature"], validate=True),
            )
            known = set(content) - {"file"} == _FIELDS and content["format"] == _FORMAT
            if set(document) != {"roster", "signature"} or not known:
                raise ValueError("unknown fields or format")
            roster = cls(
                founder=content["founder"],
                version=_whole(content["version"]),
                epoch=_whole(content["epoch"]),
                members=tuple(
                    Member(m["name"], m["certificate"], tuple(m["addresses"]))
                    for m in content["members"]
                ),
                links=tuple(
                    Link(e["from"], e["to"], float(e["a"]), float(e["b"]), e["layer"])
                    for e in content["links"]
                ),
                run=content["run"],
                spec=content["spec"],
                previous=content["previous"],
                signature=signature,
                file=_digest(content["file"]) if "file" in content else "",
            )
            roster.verify(founder)
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise PeerError(
                f"This is no roster that this version of Peerloom reads ({error})."
            ) from None
        return roster

    def _content(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "founder": self.founder,
            "version": self.version,
            "epoch": self.epoch,
            "members": [
                {"name": m.name, "certificate": m.certificate, "addresses": list(m.addresses)}
                for m in self.members
            ],
            "links": [
                {"from": e.source, "to": e.target, "a": e.a, "b": e.b, "layer": e.layer}
                for e in self.links
            ],
            "run": self.run,
            "spec": self.spec,
            "previous": self.previous,
            **(
                {"file": self.file} if self.file else {}
            ),  # rosters without one keep the bytes that were signed
        }

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
                    f"The roster has a link from {short_id(link.source)} to {short_id(link.target)}: both must be members."
                )
            if not (0 <= link.a < math.inf and 0 <= link.b < math.inf):
                raise PeerError(
                    f"The weights of a link must be finite and not negative, found a={link.a}, b={link.b}."
                )


_FIELDS = {"format", "founder", "version", "epoch", "members", "links", "run", "spec", "previous"}


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _digest(value: object) -> str:
    if type(value) is not str or not re.fullmatch("[0-9a-f]{64}", value):
        raise ValueError(f"{value!r} is no SHA-256")
    return value


def check_name(name: str) -> None:
    """Refuse a name that cannot stand in a roster, a log or the name of a file."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PeerError(
            f"'{name}' cannot name a member. Use lower-case letters, digits, dots and dashes, at most 63."
        )


def parse_address(text: str) -> tuple[str, int]:
    """'host:port' as a pair; IPv6 addresses stand in brackets.

    >>> parse_address("[::1]:7400")
    ('::1', 7400)
    """
    host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    host = host.removeprefix("[").removesuffix("]")
    if (
        not host
        or not port.isascii()
        or not port.isdigit()
        or not 0 < int(port) < 65536
        or len(text) > 300
    ):
        raise PeerError(
            f"'{text}' is no address. Write host:port, for example peer.example.org:7400."
        )
    return host, int(port)
