"""`peerloom peer start`, `status`, `overview`, `stop`, `export`: training, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from ..console import err, show, tell
from ..options import Deadline, Enough, Free, Json, Peft
from .shared import HERE, Folder, Proxy, Wrapped, show_unwrapped

__all__ = ["export", "overview", "start", "status", "stop"]


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
            metavar="HOST:PORT",
            help="Where to listen. By default this peer's first address; without one nowhere.",
        ),
    ] = "",
    proxy: Proxy = "",
    wrapped: Wrapped = False,
    deadline: Deadline = None,
    enough: Enough = None,
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
    device: Annotated[
        str,
        typer.Option(
            help="Where gradients are computed: cpu, or cuda:0 and the like where there is a GPU."
        ),
    ] = "cpu",
    metrics_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the metrics to this file, replaced every 15 s."
        ),
    ] = None,
    share: Annotated[
        str,
        typer.Option(
            metavar="status|loss",
            help="Let all members see this peer's status in `peer overview`, or its loss, too.",
        ),
    ] = "",
    disk: Annotated[
        str,
        typer.Option(
            metavar="AMOUNT", help="Disk that the run may take, such as 50GB; also in site.toml."
        ),
    ] = "",
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Say what happens as JSON, one object per line.")
    ] = False,
    log_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the log to this file, too.")
    ] = None,
    log_size: Annotated[
        float, typer.Option(min=0.001, metavar="MB", help="A log file larger than this is rotated.")
    ] = 10.0,
    log_keep: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rotated log files that are kept.")
    ] = 5,
    folder: Folder = HERE,
) -> None:
    """Train this peer's row of the experiment. Started again, it goes on where it was."""
    from ...errors import ConfigError
    from ...peers.disk import parse_bytes
    from ...peers.log import LogFile
    from ...peers.overview import Share
    from ...peers.site import Site
    from ...peers.site_network import outbound_of
    from ...peers.start import serve
    from ...transport import Settings

    if share not in ("", "status", "loss"):
        raise ConfigError(f"--share {share}: write --share status or --share loss.")
    kept = None if log_file is None else LogFile(log_file, int(log_size * 1e6), log_keep, tell)

    def say(text: str) -> None:
        tell(text)
        if kept is not None:
            kept.write(text)

    settings = Settings(wait=wait, dead=dead)
    site = Site(
        data, label, listen, deadline, enough, free, settings, history, metrics, largest_norm,
        outbound=outbound_of(folder, proxy, wrapped), metrics_file=metrics_file,
        share=cast("Share", share), disk=parse_bytes(disk) if disk else None, device=device,
    )  # fmt: skip
    code = serve(folder, file, site, log_json=log_json, say=say)
    if kept is not None:
        kept.close()
    raise typer.Exit(code)


def status(folder: Folder = HERE, as_json: Json = False) -> None:
    """Show the runs of this peer: round, loss, lag and bytes of every link, refusals."""
    from ..peer_status import describe_status, status_of

    found = status_of(folder)
    show(found, describe_status(found), as_json)


def overview(folder: Folder = HERE, as_json: Json = False) -> None:
    """Show all members that share their status: round, links, and how old that news is."""
    from ..peer_overview import describe_overview, overview_of

    found = overview_of(folder)
    show(found, describe_overview(found), as_json)


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
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The file to write, model.safetensors by default; with --peft the folder, adapter."
        ),
    ] = None,
    run: Annotated[
        str,
        typer.Option(
            metavar="RUN", help="Which run, by the start of its name; needed if there are many."
        ),
    ] = "",
    peft: Peft = False,
    folder: Folder = HERE,
    as_json: Json = False,
) -> None:
    """Write the model of this peer's last checkpoint to a safetensors file, without a network."""
    from ...peers.export import export_peer
    from ...transport import Home
    from ..export import describe_export, target

    home, to = Home.open(folder), target(file, peft)
    exp, about = export_peer(home, to, run, peft=peft)
    home.audit.note("export", file=str(to), **about)
    show_unwrapped({"file": str(to), **about}, describe_export(to, exp, about), as_json)
