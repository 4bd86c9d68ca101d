"""`peerloom peer`: identities, invitations, rosters, kits, training; all on one folder."""

import typer

from .code import allow
from .kit import kit_app
from .membership import init, invite, join
from .roster import roster_app
from .running import export, start, status, stop

__all__ = ["peer_app"]

peer_app = typer.Typer()
for command in (init, invite, join, allow, start, status, stop, export):
    peer_app.command()(command)
peer_app.add_typer(roster_app, name="roster")
peer_app.add_typer(kit_app, name="kit")
