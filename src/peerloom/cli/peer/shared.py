"""What the commands of a peer share: its folder, how rosters are shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ..console import out, show

if TYPE_CHECKING:
    from ...transport import Home, Roster

__all__ = [
    "HERE",
    "Folder",
    "Proxy",
    "Wrapped",
    "changed",
    "document_of",
    "founder_of",
    "identity_of",
    "members_table",
    "note_proposal",
    "read",
    "show_unwrapped",
    "spelled",
    "summary",
]

Folder = Annotated[Path, typer.Option("--folder", metavar="DIR", help="The folder of this peer.")]
HERE = Path("peer")
Proxy = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Dial out through this HTTP proxy. A login stands in site.toml or in PEERLOOM_PROXY.",
    ),
]
Wrapped = Annotated[
    bool,
    typer.Option(
        "--wrapped", help="Go through relays inside TLS, for firewalls that pass nothing else."
    ),
]


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

    if home.founder and given and given not in (home.founder, *home.roster.founders):
        raise PeerError(
            "This peer belongs to a federation of another founder. Use another folder for this one."
        )
    if not (home.founder or given):
        raise PeerError(
            "Whose signature is to be believed? Give the founder's id, as the founder told it to "
            "you: --founder ID"
        )
    return home.founder or given


def changed(home: Home, roster: Roster, as_json: bool, file: Path | None = None) -> None:
    """Accept a roster and show it; where other founders must sign it, keep it for them."""
    from ...errors import PeerError
    from ...transport.succession import RosterForkError

    home.check_asked()
    if not roster.lacks:
        try:
            home = home.trust(roster)
        except RosterForkError:
            raise PeerError(
                f"Another command made version {roster.version} of the roster meanwhile. Nothing "
                "was changed by this one: give it again."
            ) from None
        show(document_of(home.roster), members_table(home.roster), as_json)
        return
    home.proposals.keep(roster)
    note_proposal(home, roster)
    file = file or home.folder / "proposal.json"
    text = (
        f"Version {roster.version} of the roster bears {roster.lacks}. It is a proposal: {file}\n"
        "Send it to another founder: peerloom peer roster sign FILE\n"
        "Signed by enough, it is taken by all: peerloom peer roster take FILE"
    )
    facts = {"proposal": str(file), **summary(roster), "lacks": roster.lacks}
    show_unwrapped(facts, text, as_json)


def note_proposal(home: Home, proposal: Roster) -> None:
    """Note in the audit log that this founder signed a proposal."""
    home.audit.note("proposal", version=proposal.version, hash=proposal.hash)


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
        "expires": roster.expires,
    }


def document_of(roster: Roster) -> dict[str, Any]:
    """A roster for machines."""
    members = [
        {"row": row, "name": m.name, "id": m.id, "addresses": list(m.addresses), "was": m.was}
        for row, m in enumerate(roster.members)
    ]
    links = [
        {"from": roster.name(e.source), "to": roster.name(e.target), "a": e.a, "b": e.b}
        for e in roster.links
    ]
    relays = [{"name": r.name, "id": r.id, "addresses": list(r.addresses)} for r in roster.relays]
    signing = {"founders": list(roster.founders), "threshold": roster.threshold}
    facts = {"run": roster.run, "spec": roster.spec, "file": roster.file, "hash": roster.hash}
    more = {"relays": relays, **signing, "speaks": roster.speaks, **facts}
    return {**summary(roster), "members": members, "links": links, **more}


def members_table(roster: Roster) -> Table:
    """A roster for people."""
    import time

    title = f"Roster version {roster.version}, epoch {roster.epoch}, {len(roster.links)} links"
    table = Table("row", "name", "id", "addresses", "sends to", title=title)
    for row, member in enumerate(roster.members):
        targets = ", ".join(roster.name(target) for target in roster.targets(member.id))
        who = f"{member.name} (founder)" if member.id in roster.founders else member.name
        table.add_row(
            str(row), who, _in_two_lines(spelled(member.id)), Text(", ".join(member.addresses)),
            targets,
        )  # fmt: skip
    notes = [roster.warning(time.time()) or f"Good until {roster.expiry_day}."]
    if len(roster.founders) > 1:
        notes.append(f"{roster.threshold} of these founders sign: {roster.named_founders}.")
    if roster.relays:
        notes.append(f"Relays: {', '.join(relay.name for relay in roster.relays)}.")
    table.caption = " ".join(notes)
    return table


def _in_two_lines(spelled_id: str) -> str:
    groups = spelled_id.split("-")
    return "-".join(groups[:4]) + "\n" + "-".join(groups[4:])
