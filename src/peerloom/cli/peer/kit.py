"""`peerloom peer kit`: everything a site needs, as one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..console import out, show
from ..options import Json
from .shared import HERE, Folder, founder_of, members_table, read, show_unwrapped, summary

if TYPE_CHECKING:
    from ...transport import Home

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
    """Put roster and experiment into one archive for other sites, signed (founder only)."""
    from ...transport import Home, write_kit

    home = Home.open(folder)
    kit = home.kit(None if experiment is None else read(experiment))
    write_kit(file, kit, home.identity)
    home.audit.note("kit", made=str(file), **summary(home.roster))
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
    known = home.roster.founders if home.founder else ()
    kit = read_kit(file, founder_of(home, read_id(founder) if founder else ""), known)
    home = home.trust(kit.roster)
    if kit.experiment is not None:
        home.roster.check_file(kit.experiment, file)  # the kit may be older than the roster here
        write_whole(folder / "experiment.toml", kit.experiment)
    home.audit.note("kit", opened=str(file), file=home.roster.file, **summary(home.roster))
    facts = {
        "experiment": None if kit.experiment is None else str(folder / "experiment.toml"),
        **summary(home.roster),
    }
    show(facts, members_table(home.roster), as_json)
    if not as_json:
        out.print(_next_step(home, kit.experiment), soft_wrap=True, markup=False, highlight=False)


def _next_step(home: Home, experiment: bytes | None) -> str:
    """What the site does next."""
    where = "" if home.folder == HERE else f" --folder {home.folder}"
    if not home.roster.has(home.identity.id):
        return f"This peer is no member yet. Join: peerloom peer join TOKEN{where}"
    if experiment is None:
        return (
            f"The kit brought no experiment. See who takes part: peerloom peer roster show{where}"
        )
    start = f"peerloom peer start {home.folder / 'experiment.toml'} --data YOUR-SAMPLES{where}"
    return f"Read {home.folder / 'experiment.toml'}, then train: {start}"
