"""`peerloom peer start`, `status`, `stop`, `export`: training, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..console import err, show
from ..options import Deadline, Free, Json
from .shared import HERE, Folder, show_unwrapped

__all__ = ["export", "start", "status", "stop"]


def start(
    file: Annotated[
        Path,
        typer.Argument(
            help="The experiment file, the same at every site: one algorithm, one seed."
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            metavar="SAMPLES",
            help="This site's samples: a .csv or .npz file, or module:function. They stay here.",
        ),
    ] = "",
    label: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="The label's column in a CSV, if the experiment does not name it.",
        ),
    ] = "",
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Where to listen. By default this peer's first address."
        ),
    ] = "",
    deadline: Deadline = None,
    free: Free = False,
    wait: Annotated[
        float,
        typer.Option(
            min=0.1,
            help="Seconds that a neighbour may be away before this peer gives up (or goes on).",
        ),
    ] = 60.0,
    dead: Annotated[
        float,
        typer.Option(
            min=0.5,
            help="Seconds of silence until a link is given up. 3 suits a LAN, 30 lossy lines.",
        ),
    ] = 10.0,
    largest_norm: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="NORM",
            help="Refuse vectors of neighbours that are longer than this (Euclidean norm).",
        ),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Keep every event of every link, for the checker.")
    ] = False,
    metrics: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", help="Serve metrics for Prometheus there, on this machine only."
        ),
    ] = "",
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Say what happens as JSON, one object per line.")
    ] = False,
    folder: Folder = HERE,
) -> None:
    """Train this peer's row of the experiment. Started again, it goes on where it was."""
    from ...peers.start import Site, serve
    from ...transport import Settings

    def tell(text: str) -> None:
        err.print(text, highlight=False, markup=False, soft_wrap=True)

    settings = Settings(wait=wait, dead=dead)
    site = Site(data, label, listen, deadline, free, settings, history, metrics, largest_norm)
    code = serve(folder, file, site, log_json=log_json, say=tell)
    raise typer.Exit(code)


def status(folder: Folder = HERE, as_json: Json = False) -> None:
    """Show the runs of this peer: round, loss, lag and bytes of every link, refusals."""
    from ..peer_status import describe_status, status_of

    found = status_of(folder)
    show(found, describe_status(found), as_json)


def stop(
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for it to end.")] = 30.0,
    folder: Folder = HERE,
) -> None:
    """Ask the running peer to end with a checkpoint."""
    import os
    import signal
    import time

    from ...errors import PeerError
    from ...peers.status import read_status
    from ...transport import Home
    from ...transport.files import is_locked

    running = [
        path.parent
        for path in Home.open(folder).state.glob("*/status.json")
        if is_locked(path.parent)
    ]
    if not running:
        err.print("No peer runs here.", highlight=False)
        return
    for run in running:
        os.kill(read_status(run)["pid"], signal.SIGTERM)
    end = time.monotonic() + wait
    while any(is_locked(run) for run in running):
        if time.monotonic() > end:
            raise PeerError(
                f"The peer has not ended within {wait:.0f} s. It may be writing a large "
                "checkpoint; wait longer."
            )
        time.sleep(0.1)
    err.print("Stopped. The same start command goes on from here.", highlight=False)


def export(
    file: Annotated[Path, typer.Argument(help="The safetensors file to write.")] = Path(
        "model.safetensors"
    ),
    run: Annotated[
        str,
        typer.Option(
            metavar="RUN", help="Which run, by the start of its name; needed if there are many."
        ),
    ] = "",
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Write the model of this peer's last checkpoint to a safetensors file, without a network."""
    from ...peers.export import export_peer
    from ...transport import Home
    from ..export import describe_export

    exp, about = export_peer(Home.open(folder), file, run)
    show_unwrapped({"file": str(file), **about}, describe_export(file, exp, about), as_json)
