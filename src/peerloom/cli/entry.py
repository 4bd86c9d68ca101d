"""The entry point: runs a command, and turns errors into messages and exit codes."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from .app import app
from .console import err

__all__ = ["main"]


def main() -> None:
    """Run a command; errors raised on purpose become one message and their exit code."""
    from ..errors import Caution, PeerloomError

    def show_warning(
        message: Warning | str, category: type[Warning], *where: Any, **more: Any
    ) -> None:
        if issubclass(category, Caution):
            err.print(
                f"[bold yellow]caution:[/] {_escaped(str(message))}",
                highlight=False,
                soft_wrap=True,
            )
        else:
            before(message, category, *where, **more)

    before, warnings.showwarning = warnings.showwarning, show_warning
    try:
        app()
    except PeerloomError as error:
        err.print(f"[bold red]error:[/] {_escaped(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except SystemExit as end:
        # Typer turns KeyboardInterrupt into an exit.
        if isinstance(getattr(end.__context__, "__cause__", None), KeyboardInterrupt):
            err.print("Interrupted.", highlight=False)
        raise
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        if error.filename is None:
            raise
        err.print(
            f"[bold red]error:[/] {_escaped(f'{error.filename}: {error.strerror}.')}",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(2)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
