"""The entry point: runs a command, and turns errors into messages and exit codes."""

from __future__ import annotations

import re
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
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in _mandatory():
            raise
        # A relay is installed without them.
        err.print(
            f"[bold red]error:[/] This command needs the package {missing}, which is not "
            "installed here: pip install peerloom",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(2)
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


def _mandatory() -> set[str]:
    """The modules of the packages that Peerloom's own list names, extras left out."""
    from importlib.metadata import requires

    lines = (line for line in requires("peerloom") or [] if "extra ==" not in line)
    return {re.split(r"[^\w.-]", line)[0].replace("-", "_") for line in lines}


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
