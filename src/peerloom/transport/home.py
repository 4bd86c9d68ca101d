"""The folder of one peer, on which the commands work: key, roster, trusted founder.

identity.key, identity.crt    the key (mode 0600) and the certificate
peer.json                     name, addresses, founder
roster.json                   the newest roster accepted
roster-unsaved-VERSION        a newer one was known here, and could not be written
roster-unasked                restored from a backup: the roster may be old
reserve.bin                   room for a roster on a full disk, while the peer runs
invitations.json              a founder's open invitations (mode 0600)
proposal.json                 a roster that this founder signed and that others must sign yet
proposal-lost                 restored from a backup: one of this version may have been signed
next/                         the key that is to replace this one, once a roster names it
experiment.toml               what to run, if a kit brought it
audit.jsonl, audit.head       what was done with this folder (see `audit`)
state/                        what a running peer keeps
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import PeerError
from .audit import AuditLog
from .files import changing, is_locked, write_whole
from .identity import Identity, finish_replacement, replace_identity
from .invitations import InvitationBook
from .json_files import TEXT, Each, read_json
from .kit import Kit
from .proposals import ProposalBook
from .reserve import Reserve
from .roster import Roster, check_name, parse_address
from .rosterbook import RosterBook

__all__ = ["UNASKED", "Home"]

UNASKED = "roster-unasked"
_UNSAVED = "roster-unsaved-"
_ABOUT = {"name": TEXT, "addresses": Each(TEXT), "founder": TEXT}


@dataclass(frozen=True)
class Home:
    """One peer's folder, opened."""

    folder: Path
    identity: Identity
    name: str
    addresses: tuple[str, ...]
    founder: str
    """The federation, by the id of its first founder; empty before this peer is in one."""

    @classmethod
    def create(cls, folder: Path, name: str, addresses: tuple[str, ...], found: bool) -> Home:
        """A new identity; with `found` also a new federation with this peer as its only member.

        peer.json comes last: a key without it is what an earlier call left that was ended, and is
        used. Refuses to replace any other.
        """
        check_name(name)
        for address in addresses:
            parse_address(address)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with changing(folder):
            ended = (folder / "identity.key").exists() and not (folder / "peer.json").exists()
            identity = Identity.load(folder) if ended else Identity.create(folder)
            home = cls(folder, identity, name, addresses, "")
            home.audit.note("init", name=name, id=identity.id)
            if found:
                left = home._book(identity.id).current if ended else None
                return home.trust(left or Roster.found(identity, name, addresses))
            home._save(founder="")
            return home

    @classmethod
    def open(cls, folder: Path) -> Home:
        """Open a folder that `create` made. Refuses one that cannot be read."""
        finish_replacement(folder)
        identity = Identity.load(folder)
        about: dict[str, Any] = read_json(folder / "peer.json", _ABOUT)
        check_name(about["name"])
        for address in about["addresses"]:
            parse_address(address)
        home = cls(folder, identity, about["name"], tuple(about["addresses"]), about["founder"])
        return home._with_next_key()

    @property
    def roster(self) -> Roster:
        """The newest roster that this peer accepted. Refuses if there is none yet."""
        current = self._book(self.founder).current if self.founder else None
        if current is None:
            raise PeerError(
                f"{self.folder} has no roster yet. "
                "Join a federation (peerloom peer join) or found one (peer init --found)."
            )
        return current

    @property
    def invitations(self) -> InvitationBook:
        """A founder's invitations. Refuses any other peer."""
        if not self.founder or self.identity.id not in self.roster.founders:
            raise PeerError(
                "Only the founder of a federation invites, and this peer is not the founder."
            )
        return InvitationBook(self.folder / "invitations.json")

    @property
    def state(self) -> Path:
        """Where a running peer keeps its state."""
        return self.folder / "state"

    @property
    def proposals(self) -> ProposalBook:
        """The roster that this founder signed and that waits for others."""
        return ProposalBook(self.folder / "proposal.json")

    def next_identity(self) -> Identity:
        """The key that is to replace this peer's, made if there is none yet."""
        with changing(self.folder):
            waiting = self._waiting()
            if waiting is not None:
                return waiting
            for name in ("identity.key", "identity.crt"):  # one without the other
                (self.folder / "next" / name).unlink(missing_ok=True)
            return Identity.create(self.folder / "next")

    def trust(self, roster: Roster, now: float | None = None) -> Home:
        """Accept a roster. The first fixes the federation; rosters of others are then refused.

        The first must not have expired. If it names the key that waits in `next`, that key becomes
        this peer's, now or once no run needs the old one.
        """
        if self.founder and self.founder != roster.founder:
            raise PeerError(
                "This peer belongs to another federation. Use another folder for this one."
            )
        if not self.founder:
            roster.check_time(time.time() if now is None else now, "Joining")
        newer = self._book(roster.founder).offer(roster)
        if not self.founder:
            self._save(roster.founder)
        for version, mark in self._unsaved().items():
            if version <= roster.version:
                mark.unlink(missing_ok=True)
        self.proposals.forget(roster.version)
        if newer:
            self.audit.note(
                "roster",
                version=roster.version,
                epoch=roster.epoch,
                hash=roster.hash,
                members=len(roster.members),
            )
        return Home.open(self.folder)

    def keep(self, roster: Roster) -> None:
        """Write down a roster that is in use already.

        If that fails, a mark of no length is left, and `check_current` refuses the next start.
        """
        try:
            self.trust(roster)
        except OSError:
            with suppress(OSError):
                (self.folder / f"{_UNSAVED}{roster.version}").touch(mode=0o600)
            raise

    def check_current(self) -> None:
        """Refuse to go on with a roster older than one that this peer knew before."""
        known, current = max(self._unsaved(), default=0), self.roster.version
        if known > current:
            raise PeerError(
                f"This peer knew version {known} of the roster, but it could not be written, and "
                f"{self.folder} has version {current}: members that were removed since would be "
                "let in again. Take the newest from the founder: peerloom peer roster take FILE"
            )

    @property
    def unasked(self) -> bool:
        """Whether this folder came from a backup and nobody was asked for the newest roster."""
        return self._unasked.exists()

    def asked(self) -> None:
        """Note that the roster is the newest that the others have.

        Of the next version this peer may have signed a proposal that the backup does not hold.
        """
        if self.unasked and self.roster.threshold > 1:
            self.proposals.lose(self.roster.version + 1)
        self._unasked.unlink(missing_ok=True)

    def check_asked(self) -> None:
        """Refuse to change a roster that may be old: two would claim one version."""
        if self.unasked:
            raise PeerError(
                f"{self.folder} was restored from a backup, and its roster may be old. Take the "
                "newest from another site first (there: peerloom peer roster save FILE; here: "
                "peerloom peer roster take FILE)."
            )

    @property
    def _unasked(self) -> Path:
        return self.folder / UNASKED

    def kit(self, experiment: bytes | None) -> Kit:
        """The kit for another site: this peer's roster and the bytes of the experiment file."""
        return Kit(self.roster, experiment)

    @property
    def audit(self) -> AuditLog:
        """What was done with this folder."""
        return AuditLog(self.folder, self.identity)

    @property
    def reserve(self) -> Reserve:
        """Room for a roster on a full disk."""
        return Reserve(
            self.folder / "reserve.bin",
            needed=lambda: any(is_locked(run) for run in self.state.glob("*")),
        )

    def unfinished_runs(self) -> list[Path]:
        """The folders of runs that go on, or may: they need the key with which they began."""
        return [
            run
            for run in sorted(self.state.glob("*"))
            if is_locked(run) or ((run / "began.json").exists() and not _done(run))
        ]

    def _waiting(self) -> Identity | None:
        folder = self.folder / "next"
        both = all((folder / name).exists() for name in ("identity.key", "identity.crt"))
        return Identity.load(folder) if both else None

    def _with_next_key(self) -> Home:
        """This peer with the key in `next`, if the roster names that one and no run the old one.

        A process that runs would go on under an id that its key does not have. On a disk too full
        to note it, it is left for later: lines of the log would seem to be of a stranger.
        """
        with suppress(PeerError, OSError):  # whatever lies in `next`, the folder can be used
            if self._waiting() is None:
                return self
            with changing(self.folder):  # of two commands at once, one replaces it
                waiting = self._waiting()
                named = waiting is not None and self.founder and self.roster.has(waiting.id)
                if waiting is not None and named and not self.unfinished_runs():
                    self.audit.note_rekey(waiting, lambda: replace_identity(self.folder))
            return replace(self, identity=Identity.load(self.folder))
        return self

    def _book(self, founder: str) -> RosterBook:
        return RosterBook(self.folder / "roster.json", founder, self.reserve)

    def _unsaved(self) -> dict[int, Path]:
        found = self.folder.glob(f"{_UNSAVED}*")
        numbered = ((path.name.removeprefix(_UNSAVED), path) for path in found)
        return {int(text): path for text, path in numbered if text.isascii() and text.isdigit()}

    def _save(self, founder: str) -> None:
        about = {"name": self.name, "addresses": list(self.addresses), "founder": founder}
        write_whole(self.folder / "peer.json", json.dumps(about, indent=1).encode() + b"\n")


def _done(run: Path) -> bool:
    """Whether a run's status says that it is done."""
    try:
        return bool(read_json(run / "status.json", {"status": TEXT})["status"] == "done")
    except PeerError:
        return False
