"""The folder of one peer, on which the commands work: key, roster, trusted founder.

identity.key, identity.crt    the key (mode 0600) and the certificate
peer.json                     name, addresses, founder
roster.json                   the newest roster accepted
invitations.json              the founder's open invitations (mode 0600)
experiment.toml               what to run, if a kit brought it
state/                        what a running peer keeps
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import PeerError
from .files import write_whole
from .identity import Identity
from .invitations import InvitationBook
from .kit import Kit
from .roster import Roster, check_name, parse_address
from .rosterbook import RosterBook

__all__ = ["Home"]


@dataclass(frozen=True)
class Home:
    """One peer's folder, opened."""

    folder: Path
    identity: Identity
    name: str
    addresses: tuple[str, ...]
    founder: str
    """The id whose signature is believed; empty before this peer founds or joins a federation."""

    @classmethod
    def create(cls, folder: Path, name: str, addresses: tuple[str, ...], found: bool) -> Home:
        """A new identity; with `found` also a new federation with this peer as its only member."""
        check_name(name)
        for address in addresses:
            parse_address(address)
        home = cls(folder, Identity.create(folder), name, addresses, "")
        home._save(founder="")
        if found:
            return home.trust(Roster.found(home.identity, name, addresses))
        return home

    @classmethod
    def open(cls, folder: Path) -> Home:
        """Open a folder that `create` made. Refuses one that cannot be read."""
        identity = Identity.load(folder)
        try:
            about: dict[str, Any] = json.loads((folder / "peer.json").read_bytes())
            return cls(folder, identity, about["name"], tuple(about["addresses"]), about["founder"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PeerError(
                f"{folder / 'peer.json'} cannot be read ({type(error).__name__}). "
                "Restore it from a copy."
            ) from None

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
        """The founder's invitations. Refuses any other peer."""
        if self.founder != self.identity.id:
            raise PeerError(
                "Only the founder of a federation invites, and this peer is not the founder."
            )
        return InvitationBook(self.folder / "invitations.json")

    @property
    def state(self) -> Path:
        """Where a running peer keeps its state."""
        return self.folder / "state"

    def trust(self, roster: Roster) -> Home:
        """Accept a roster. The first fixes the founder; rosters of others are then refused."""
        if self.founder and self.founder != roster.founder:
            raise PeerError(
                "This peer belongs to another federation. Use another folder for this one."
            )
        self._book(roster.founder).offer(roster)
        if not self.founder:
            self._save(roster.founder)
        return Home.open(self.folder)

    def kit(self, experiment: bytes | None) -> Kit:
        """The kit for another site: this peer's roster and the bytes of the experiment file."""
        return Kit(self.roster, experiment)

    def _book(self, founder: str) -> RosterBook:
        return RosterBook(self.folder / "roster.json", founder)

    def _save(self, founder: str) -> None:
        about = {"name": self.name, "addresses": list(self.addresses), "founder": founder}
        write_whole(self.folder / "peer.json", json.dumps(about, indent=1).encode() + b"\n")
