"""`peerloom peer doctor`, `repair`, `backup`, `restore`: keeping a peer's folder well."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ..console import err, show
from ..options import Json
from .shared import HERE, Folder, show_unwrapped, summary

__all__ = ["backup", "doctor", "repair", "restore"]


def doctor(
    offline: Annotated[
        bool, typer.Option("--offline", help="Look at the folder alone, not at ports and others.")
    ] = False,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Examine this peer's folder, its roster, clock, disk, ports and neighbours.

    Nothing is changed. Ends with code 5 if something must be mended.
    """
    from ...errors import PeerError
    from ...peers.doctor import examine

    found = examine(folder, network=not offline)
    table = Table("what", "", "found")
    for each in found:
        table.add_row(escape(each.what), each.level, escape(each.text))
    bad = sum(each.level == "bad" for each in found)
    show({"bad": bad, "findings": [each._asdict() for each in found]}, table, as_json)
    if bad:
        raise typer.Exit(PeerError.exit_code)


def repair(folder: Folder = HERE) -> None:
    """Mend what can be mended without guessing; says each thing before it does it.

    That is: modes, a spoilt checkpoint beside a whole one, last lines that a kill cut short, files
    that a kill left unfinished. It is noted in the audit log.
    """
    from ...peers.repair import repair

    def say(text: str) -> None:
        err.print(text, highlight=False, markup=False, soft_wrap=True)

    count = repair(folder, say)
    say(f"{count} things were mended." if count else "There was nothing to mend.")


def backup(
    file: Annotated[Path, typer.Argument(help="The archive to write. It holds the private key.")],
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Write key, roster, permissions and code to one file, readable by you alone.

    The state of runs is not in it: neighbours would refuse a peer that goes back to an older one.
    """
    from ...transport import Home
    from ...transport.backup import write_backup

    home = Home.open(folder)
    names = write_backup(home, file)
    home.audit.note("backup", file=str(file))
    text = f"{len(names)} files in {file}. It holds the private key: keep it as you keep the key."
    show_unwrapped({"file": str(file), "files": names}, text, as_json)


def restore(
    file: Annotated[Path, typer.Argument(help="What 'peer backup' wrote.")],
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Put a backup into a folder that has no run and no newer roster.

    The roster may be old: the next start asks all neighbours for the newest before anything else,
    and a founder changes nothing before that.
    """
    from ...transport.backup import restore_backup

    home = restore_backup(file, folder)
    facts = {"folder": str(folder), "name": home.name, "id": home.identity.id}
    facts |= summary(home.roster) if home.founder else {}
    text = (
        f"{home.name} is in {folder} again. Its next start asks neighbours for the newest roster."
    )
    show_unwrapped(facts, text, as_json)
