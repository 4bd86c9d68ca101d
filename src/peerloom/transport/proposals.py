"""Versions of the roster that more than one founder must sign: files that go from one to the next.

A founder puts its signature under one proposal of a version only. Where more than half of the
founders must sign, two rosters of one version can then not both hold, as long as none of them signs
twice.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..errors import PeerError
from .documents import MALFORMED
from .files import changing, write_whole
from .identity import Identity, short_id, spelled_id
from .roster import Roster
from .rosterfile import read_fields
from .rosterform import LONGEST_LOG
from .succession import check_log

__all__ = ["ProposalBook", "differences", "read_proposal"]

_MOST_NAMED = 24  # links that are named of those that a proposal changes


def read_proposal(data: bytes) -> Roster:
    """A roster that may lack signatures. Refuses wrong ones; it is not to be used as a roster."""
    try:
        proposal = Roster(**read_fields(data))
        proposal.head.lacks(proposal.head)  # refuses signatures that do not hold
    except MALFORMED as error:
        raise PeerError(f"This is no proposal of a roster ({error}).") from None
    return proposal


class ProposalBook:
    """The proposal that this founder signed last, in a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._lost = path, path.with_name("proposal-lost")

    def read(self) -> Roster | None:
        """The proposal, if there is one. Refuses a spoilt file."""
        try:
            return read_proposal(self._path.read_bytes()) if self._path.exists() else None
        except PeerError as error:
            raise PeerError(
                f"{self._path} is spoilt: {error} To forget it: peerloom peer roster withdraw"
            ) from None

    def lose(self, version: int) -> None:
        """Note that one of this version may bear this founder's signature: no backup knows it."""
        write_whole(self._lost, b"%d" % version, mode=0o600)

    def keep(self, proposal: Roster, again: bool = False) -> None:
        """Keep a proposal that this founder signed. Refuses a second one of the same version.

        After `lose`, refuses any of that version, unless it bore the signature before (`again`).
        """
        with changing(self._path.parent):  # of two commands at once, one is the second
            if not again and proposal.version <= self._lost_version():
                raise PeerError(
                    f"This founder was restored from a backup, and may have signed a proposal of "
                    f"version {proposal.version} before. Ask the others: if one of them has it, "
                    "sign that one. If nobody has: peerloom peer roster withdraw"
                )
            kept = self.read()
            if kept is not None and kept.version >= proposal.version and kept.hash != proposal.hash:
                raise PeerError(
                    f"This founder has signed another proposal of version {kept.version}, in "
                    f"{self._path}. If nobody else signed that one: peerloom peer roster withdraw"
                )
            write_whole(self._path, proposal.to_bytes(), mode=0o600)

    def sign(self, identity: Identity, proposal: Roster, known: Roster) -> Roster:
        """The proposal with this founder's signature. Refuses one that does not follow `known`."""
        if proposal.founder != known.founder or proposal.version != known.version + 1:
            raise PeerError(
                f"The proposal is of version {proposal.version} of federation "
                f"{short_id(proposal.founder)}, and here is version {known.version} of "
                f"{short_id(known.founder)}. Take the present roster first: peerloom peer roster "
                "take FILE"
            )
        check_log(proposal, known)
        if proposal.log != (*known.log, known.hash)[-LONGEST_LOG:]:
            raise PeerError(
                f"The proposal of version {proposal.version} tells another history of the versions "
                "before it than the one here. Do not sign it; ask who made it."
            )
        signed = proposal.signed(identity)
        self.keep(signed, again=proposal.head.signed_by(identity.id))
        return signed

    def forget(self, version: int) -> None:
        """Forget a proposal of this version, or of one before it.

        A spoilt one stays, and is told when it is needed: a roster must be kept whatever lies here.
        """
        with suppress(PeerError, OSError), changing(self._path.parent):
            if self._lost_version() <= version:
                self._lost.unlink(missing_ok=True)
            kept = self.read()
            if kept is not None and kept.version <= version:
                self._path.unlink()

    def withdraw(self) -> None:
        """Forget the proposal, and what a backup did not know. Refuses if there is neither."""
        found = [path for path in (self._path, self._lost) if path.exists()]
        if not found:
            raise PeerError("This founder has signed no proposal that waits.")
        for path in found:
            path.unlink()

    def _lost_version(self) -> int:
        text = self._lost.read_bytes() if self._lost.exists() else b"0"
        if not re.fullmatch(rb"[0-9]{1,15}", text):
            raise PeerError(
                f"{self._lost} is spoilt. If nobody has a proposal that this founder signed: "
                "peerloom peer roster withdraw"
            )
        return int(text)


def differences(proposal: Roster, known: Roster) -> list[str]:
    """What a proposal changes, in lines for people."""
    lines = []
    before = {member.id: member for member in known.members}
    stay = list[str]()  # the ids of before, in the order of now
    for member in proposal.members:
        same = before.get(member.id) or before.get(member.was)
        if same is None:
            lines.append(f"new member {member.name}: {member.id}")
            continue
        stay.append(same.id)
        if same.name != member.name:
            lines.append(f"{same.name} is called {member.name}")
        if same.id != member.id:
            lines.append(f"{member.name} has a new key: {member.id}")
        elif replace(member, name=same.name) != same:
            lines.append(f"{member.name} has other addresses or another certificate")
    lines += [f"without {member.name}" for id, member in before.items() if id not in stay]
    if stay != [id for id in before if id in stay]:
        names = ", ".join(member.name for member in proposal.members)
        lines.append(f"the members' rows in another order: {names}")
    if proposal.links != known.links:
        count = f"{len(proposal.links)} links instead of {len(known.links)}, or other weights"
        lines.append(f"{count}: {_changed_links(proposal, known)}")
    if (proposal.founders, proposal.threshold) != (known.founders, known.threshold):
        lines.append(f"{proposal.threshold} of these founders sign: {proposal.named_founders}")
    if proposal.relays != known.relays:
        relays = [f"{each.name} {spelled_id(each.id)}" for each in proposal.relays]
        lines.append(f"relays, or their addresses: {', '.join(relays) or 'none'}")
    if (proposal.file, proposal.spec) != (known.file, known.spec):
        lines.append(f"another experiment file: SHA-256 {proposal.file}")
    if proposal.run != known.run:
        lines.append(f"another run: {proposal.run or 'none'}")
    if proposal.epoch != known.epoch:
        lines.append("a new epoch, for the next run")
    if proposal.speaks != known.speaks:
        lines.append(f"all members speak version {proposal.speaks} of the protocol")
    return [*lines, f"good until {proposal.expiry_day}"]


def _changed_links(proposal: Roster, known: Roster) -> str:
    """Which links are new, gone or of other weights, the first of them by name."""
    called = {member.was: member.id for member in proposal.members if member.was}
    before = {
        (called.get(link.source, link.source), called.get(link.target, link.target), link.layer): (
            link.a, link.b,
        )
        for link in known.links
    }  # fmt: skip
    after = {(link.source, link.target, link.layer): (link.a, link.b) for link in proposal.links}
    found = list[str]()
    for place in sorted(before.keys() | after.keys()):
        names = " to ".join((proposal if proposal.has(id) else known).name(id) for id in place[:2])
        if place not in after:
            found.append(f"without {names}")
        elif place not in before:
            found.append(f"new {names}")
        elif before[place] != after[place]:
            found.append(f"{names} of weights {after[place][0]:g}, {after[place][1]:g}")
    more = [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return (
        "; ".join([*found[:_MOST_NAMED], *more]) or "the same but for new keys, order or repetition"
    )
