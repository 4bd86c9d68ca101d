"""`peerloom peer kit`: everything a site needs, as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..console import show
from ..options import Json
from .shared import HERE, Folder, founder_of, members_table, read, show_unwrapped, summary

__all__ = ["kit_app"]

kit_app = typer.Typer(
    help="Hand everything a site needs over as one file; private keys are never in it.",
    no_args_is_help=True,
)


@kit_app.command("make")
def kit_make(
    file: Annotated[Path, typer.Argument(help="The archive to write.")],
    experiment: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The experiment file that all will run.")
    ] = None,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Put roster and experiment into one archive for other sites."""
    from ...transport import Home, write_kit

    home = Home.open(folder)
    write_kit(file, home.kit(None if experiment is None else read(experiment)))
    show_unwrapped(
        {"file": str(file), **summary(home.roster)},
        f"Kit: {file}. It holds no private key.",
        as_json,
    )


@kit_app.command("open")
def kit_open(
    file: Annotated[Path, typer.Argument(help="The archive.")],
    founder: Annotated[
        str, typer.Option(metavar="ID", help="The founder's id, the first time.")
    ] = "",
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Take roster and experiment out of an archive, if the founder signed both."""
    from ...transport import Home, read_id, read_kit
    from ...transport.files import write_whole

    home = Home.open(folder)
    kit = read_kit(file, founder_of(home, read_id(founder) if founder else ""))
    home = home.trust(kit.roster)
    if kit.experiment is not None:
        write_whole(folder / "experiment.toml", kit.experiment)
    facts = {
        "experiment": None if kit.experiment is None else str(folder / "experiment.toml"),
        **summary(home.roster),
    }
    show(facts, members_table(home.roster), as_json)
