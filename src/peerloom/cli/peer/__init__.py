"""`peerloom peer`: identities, invitations, rosters, kits, training; all on one folder."""

import typer

from . import founders
from .audit import audit_app
from .care import backup, doctor, repair, restore
from .code import allow
from .kit import kit_app
from .membership import init, invite, join, rekey
from .roster import roster_app
from .running import export, overview, start, status, stop

__all__ = ["peer_app"]

peer_app = typer.Typer()
for command in (init, invite, join, rekey, allow, start, status, overview, stop, export):
    peer_app.command()(command)
for care in (doctor, repair, backup, restore):
    peer_app.command()(care)
for act in (
    founders.renew,
    founders.rekey,
    founders.relay,
    founders.propose,
    founders.sign,
    founders.withdraw,
):
    roster_app.command()(act)
peer_app.add_typer(roster_app, name="roster")
peer_app.add_typer(kit_app, name="kit")
peer_app.add_typer(audit_app, name="audit")
