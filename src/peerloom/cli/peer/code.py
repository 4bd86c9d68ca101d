"""`peerloom peer allow`: which code of an experiment may run at this site."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import Json
from .shared import HERE, Folder, show_unwrapped

__all__ = ["allow"]


def allow(
    name: Annotated[
        str,
        typer.Argument(help="What the experiment names: module:Name. Without it: what is allowed."),
    ] = "",
    remove: Annotated[bool, typer.Option("--remove", help="Take the permission back.")] = False,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Allow code that an experiment names, as its file is now.

    Read it first: it runs with all rights of this peer.

    The module is looked for in the peer's folder `code`, then among installed packages. If the file
    changes later, it must be allowed again.
    """
    from ...errors import ConfigError
    from ...peers.site_code import SiteCode
    from ...transport import Home

    home = Home.open(folder)
    site = SiteCode(home.folder)
    if remove and not name:
        raise ConfigError(
            "Which permission is to be taken back? Name it: peerloom peer allow module:Name "
            "--remove"
        )
    if remove:
        site.forbid(name)
        home.audit.note("code", forbidden=name)
    elif name:
        file, digest = site.allow(name)
        home.audit.note("code", allowed=name, file=str(file), sha256=digest)
        show_unwrapped(
            {"name": name, "file": str(file), "sha256": digest},
            f"Allowed: {name}\n  {file}\n  SHA-256 {digest}",
            as_json,
        )
        return
    allowed = site.allowed
    lines = [f"{known}  SHA-256 {digest}" for known, digest in allowed.items()]
    show_unwrapped(
        {"allowed": allowed},
        "\n".join(lines) or "No code of experiments is allowed at this site.",
        as_json,
    )
