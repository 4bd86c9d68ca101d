"""`peerloom peer audit`: what was done with a peer's folder, and whether the log of it is whole."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import Json
from .shared import HERE, Folder, show_unwrapped

__all__ = ["audit_app"]

audit_app = typer.Typer(
    help="See what was done with this peer's folder, and whether the log of it is whole.",
    no_args_is_help=True,
)


@audit_app.command("show")
def audit_show(
    last: Annotated[int, typer.Option(min=1, help="How many of the last lines.")] = 50,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Show the last lines."""
    from ...transport import Home

    lines = Home.open(folder).audit.lines()[-last:]
    texts = [
        f"{line['n']:>6}  {line['at'][:23]}Z  {line['what']:<10} "
        + ", ".join(f"{name} {value}" for name, value in line["about"].items())
        for line in lines
    ]
    show_unwrapped({"lines": lines}, "\n".join(texts) or "Nothing was done here yet.", as_json)


@audit_app.command("check")
def audit_check(folder: Folder = HERE, as_json: Json = False) -> None:
    """Check hashes and signatures: says which lines were changed, removed or cut off.

    Ends with code 5 if any were. A last line that a kill cut short is no such case.
    """
    from ...errors import PeerError
    from ...transport import Home

    log = Home.open(folder).audit
    found, count, cut = log.findings(), len(log.lines()), log.cut_short()
    texts = [f"{count} lines in {log.path}."]
    if cut:
        texts.append(
            "The last line was cut short, as a kill does: peerloom peer repair takes it away."
        )
    texts += found or ["Nothing was changed, removed or cut off."]
    show_unwrapped({"lines": count, "cut_short": cut, "findings": found}, "\n".join(texts), as_json)
    if found:
        raise typer.Exit(PeerError.exit_code)
