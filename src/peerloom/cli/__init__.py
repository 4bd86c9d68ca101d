"""The command line: `main` and, below it, one module per group of commands."""

from .app import app, main
from .peer import peer_app

__all__ = ["main"]

app.add_typer(peer_app, name="peer")
