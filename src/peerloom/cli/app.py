"""`peerloom`: the commands and their help. Each imports what it needs when it is called."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from .commands import Commands, PeerCommands
from .console import err, out, show
from .options import (
    Deadline,
    Device,
    Enough,
    Export,
    File,
    Free,
    Jobs,
    Json,
    Kind,
    Out,
    Peft,
    Seed,
    Set,
)

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    help="Decentralized federated learning: many peers, private data, one model, no server.",
    epilog=(
        "Exit codes: 0 done, 2 wrong usage or configuration, 3 diverged, 4 data missing, "
        "5 peer failed, 6 a peer may never go on, 130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

data = typer.Typer(
    help="Public data sets: what is on this machine, and how to get the rest.", no_args_is_help=True
)
app.add_typer(data, name="data")

peer = typer.Typer(
    cls=PeerCommands,
    help="Peers on real machines: identity, membership, and what a site needs to join.",
    no_args_is_help=True,
)
app.add_typer(peer, name="peer")


@peer.callback()
def _private(context: typer.Context) -> None:
    """Let nobody else read what a command of a peer writes."""
    before = os.umask(0o077)
    context.call_on_close(lambda: os.umask(before))


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"peerloom {__version__}", highlight=False)
        raise typer.Exit


_NO_CODE_FROM_HERE = ("peer", "relay")
"""Commands of sites: files of the working directory may be anybody's."""


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    path: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Where to find code that a file names as module:Name. By default the working "
            "directory; for `peer` and `relay`, installed packages only.",
        ),
    ] = None,
) -> None:
    from ..runtime import prepare_process

    prepare_process(keep_memory=False)  # before torch is loaded
    default = [] if context.invoked_subcommand in _NO_CODE_FROM_HERE else [Path()]
    # Last, so that a file there is never taken for a module that is installed.
    sys.path += [str(folder.resolve()) for folder in path or default]


@app.command()
def run(
    file: File = None,
    set_: Set = None,
    seed: Seed = None,
    out_dir: Out = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with the interrupted runs of this folder."),
    ] = None,
    device: Device = "cpu",
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processor threads. By default one for small models, all for large ones."
        ),
    ] = None,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Also keep what fired, so that the schedule Replay can let it fire again.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment or a comparison, keep it, and write its report."""
    from .run import run_command

    run_command(file, set_ or [], seed, out_dir, resume, device, threads, record, as_json)


@app.command()
def up(
    file: File = None,
    set_: Set = None,
    seed: Seed = None,
    out_dir: Out = None,
    device: Device = "cpu",
    deadline: Deadline = None,
    enough: Enough = None,
    free: Free = False,
    site: Annotated[
        str,
        typer.Option("--as", metavar="SITE", help="Rehearse as this site, with --data."),
    ] = "",
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="SAMPLES",
            help="For a rehearsal: the site's own .csv or .npz file. Others get invented samples.",
        ),
    ] = None,
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="For a rehearsal: the label's column in a CSV.")
    ] = "",
    relay: Annotated[
        bool, typer.Option("--relay", help="For a rehearsal: no peer has a port, but a relay.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run an experiment on this machine as real peers: one process per client, over TLS.

    With --as and --data it is a rehearsal: one peer is killed and started again, another one
    removed, and a table says what became of it. With --relay, too, all links go through a relay.
    """
    from .up import rehearse_command, up_command

    if site or data is not None or label or relay:
        if device != "cpu":
            from ..errors import ConfigError

            raise ConfigError("A rehearsal computes on the CPU. Leave --device out.")
        rehearse_command(
            file, set_ or [], seed, out_dir, deadline, enough, site, data, label, relay, as_json
        )
        return
    up_command(file, set_ or [], seed, out_dir, device, deadline, enough, free, as_json)


@app.command()
def advise(
    file: File = None,
    set_: Set = None,
    seed: Seed = None,
    constant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A constant known by hand, such as smoothness=2; may be repeated.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what theory knows of an experiment: whether and how fast it agrees, steps, floor."""
    from .advise import advise_command

    advise_command(file, set_ or [], seed, constant or [], as_json)


@app.command("list")
def list_(
    kind: Annotated[
        Kind | None, typer.Argument(help="What to list. Without it, how many there are of each.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List what an experiment file may name, with arguments and defaults."""
    from .listing import list_command

    list_command(None if kind is None else kind.value, as_json)


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="An experiment file (TOML).")],
    grid: Annotated[
        list[str],
        typer.Option(
            "--grid",
            metavar="A.B=1,2,3",
            help="Values to take in turn; several grids are combined.",
        ),
    ],
    set_: Set = None,
    jobs: Jobs = 1,
    device: Device = "cpu",
    out_dir: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Where to keep the runs, or to go on. By default a new folder below runs/.",
        ),
    ] = None,
    formats: Export = None,
    as_json: Json = False,
) -> None:
    """Run a file over a grid of values, and compare the results on one page."""
    from .sweep import sweep_command

    sweep_command(file, grid, set_ or [], jobs, out_dir, [*(formats or [])], as_json, device)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs or of comparisons.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="The page to write.")
    ] = None,
    formats: Export = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page about runs."""
    from .run import report_command

    report_command(runs, output, [*(formats or [])], as_json)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="The folder of one run.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The file to write, model.safetensors by default; with --peft a folder, adapter.",
        ),
    ] = None,
    row: Annotated[
        int | None,
        typer.Option(help="This client's model, from 0. By default the mean of all clients'."),
    ] = None,
    peft: Peft = False,
    as_json: Json = False,
) -> None:
    """Write the model of a run to a safetensors file, with the names of its nn.Module."""
    from .export import export_command

    export_command(run, output, row, peft, as_json)


@data.command("list")
def data_list(
    check: Annotated[
        bool, typer.Option("--check", help="Read what is found and compare it with its checksums.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say which public data sets are on this machine, and where."""
    from .data import list_command

    list_command(check, as_json)


@data.command("get")
def data_get(
    names: Annotated[
        list[str],
        typer.Argument(help="Data sets to fetch; `peerloom data list` knows their names."),
    ],
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to keep them. By default the cache.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="URL", help="Fetch from here, a folder with the same files."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch public data sets. A transfer that broke off goes on; what is fetched is checked."""
    from .data import get_command

    get_command(names, to, address, as_json)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what is installed, what was found and what is missing."""
    from .doctor import doctor_command

    doctor_command(as_json)


@app.command()
def relay(
    founder: Annotated[
        str, typer.Option(metavar="ID", help="The founder whose federation this relay serves.")
    ],
    listen: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT", help="Where members reach it; may be repeated, also for IPv6."
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--folder", metavar="DIR", help="The folder of this relay.")
    ] = Path("relay"),
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="MB/S", help="What one member may send through it."),
    ] = None,
) -> None:
    """Let peers meet here that can only dial out; what they say passes unread."""
    from .relay import relay_command

    relay_command(listen or ["0.0.0.0:443"], folder, founder, rate)


@app.command()
def bench(
    case: Annotated[
        list[str] | None, typer.Option(help="Only this case; may be repeated. By default all.")
    ] = None,
    peers: Annotated[
        bool,
        typer.Option(
            "--peers", help="Only what runs between processes (links, relay, peers, crowd, large)."
        ),
    ] = False,
    relay: Annotated[
        bool, typer.Option("--relay", help="Only links through a relay, beside direct ones.")
    ] = False,
    size: Annotated[
        str, typer.Option(metavar="AMOUNT", help="Bytes of a row in the case large, such as 1GB.")
    ] = "128MB",
    as_json: Json = False,
) -> None:
    """Measure simulator and peers, as ratios to plain loops, sockets and the machine's bound."""
    from .. import bench as benchmark
    from ..peers.disk import parse_bytes

    between = [*(benchmark.BETWEEN_PROCESSES if peers else []), *(["relay"] if relay else [])]
    cases = [*(case or []), *between] or None
    with err.status("measuring") as status:
        document = benchmark.run(
            cases, progress=lambda text: status.update(text), size=parse_bytes(size)
        )
    show(document, benchmark.render(document), as_json)
