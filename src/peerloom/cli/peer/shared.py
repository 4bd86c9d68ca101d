"""What the commands of a peer share: its folder, how rosters are shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ..console import out, show

if TYPE_CHECKING:
    from ...transport import Home, Roster

__all__ = [
    "HERE",
    "Folder",
    "changed",
    "document_of",
    "founder_of",
    "identity_of",
    "members_table",
    "read",
    "show_unwrapped",
    "spelled",
    "summary",
]

Folder = Annotated[Path, typer.Option("--folder", metavar="DIR", help="The folder of this peer.")]
HERE = Path("peer")


def show_unwrapped(document: dict[str, Any], text: str, as_json: bool) -> None:
    """Like `show`, but never breaks a line: tokens and ids are copied by hand."""
    if as_json:
        show(document, "", as_json)
    else:
        out.print(text, soft_wrap=True, markup=False, highlight=False)


def read(path: Path) -> bytes:
    """The bytes of a file that was named."""
    from ...errors import DataError

    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def founder_of(home: Home, given: str) -> str:
    """Whose signature this peer believes."""
    from ...errors import PeerError

    if home.founder and given and home.founder != given:
        raise PeerError(
            "This peer belongs to a federation of another founder. Use another folder for this one."
        )
    if not (home.founder or given):
        raise PeerError(
            "Whose signature is to be believed? Give the founder's id, as the founder told it to "
            "you: --founder ID"
        )
    return home.founder or given


def changed(home: Home, roster: Roster, as_json: bool) -> None:
    """Accept a roster and show it."""
    home = home.trust(roster)
    show(document_of(home.roster), members_table(home.roster), as_json)


def spelled(id: str) -> str:
    """An id as people compare it."""
    from ...transport import spelled_id

    return spelled_id(id)


def identity_of(home: Home) -> dict[str, Any]:
    """What a peer tells of itself."""
    return {
        "name": home.name,
        "id": home.identity.id,
        "spelled": spelled(home.identity.id),
        "folder": str(home.folder),
    }


def summary(roster: Roster) -> dict[str, Any]:
    """A roster in a few figures."""
    return {
        "founder": roster.founder,
        "version": roster.version,
        "epoch": roster.epoch,
        "members": len(roster.members),
    }


def document_of(roster: Roster) -> dict[str, Any]:
    """A roster for machines."""
    members = [
        {"row": row, "name": m.name, "id": m.id, "addresses": list(m.addresses)}
        for row, m in enumerate(roster.members)
    ]
    links = [
        {"from": roster.name(e.source), "to": roster.name(e.target), "a": e.a, "b": e.b}
        for e in roster.links
    ]
    facts = {"run": roster.run, "spec": roster.spec, "file": roster.file, "hash": roster.hash}
    return {**summary(roster), "members": members, "links": links, **facts}


def members_table(roster: Roster) -> Table:
    """A roster for people."""
    title = f"Roster version {roster.version}, epoch {roster.epoch}, {len(roster.links)} links"
    table = Table("row", "name", "id", "addresses", "sends to", title=title)
    for row, member in enumerate(roster.members):
        targets = ", ".join(roster.name(target) for target in roster.targets(member.id))
        who = f"{member.name} (founder)" if member.id == roster.founder else member.name
        table.add_row(str(row), who, member.id[:14], ", ".join(member.addresses), targets)
    return table
