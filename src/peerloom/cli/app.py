"""`peerloom`: the commands and their help. Each imports what it needs when it is called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from .commands import Commands, PeerCommands
from .console import err, out, show
from .options import Deadline, Export, File, Free, Jobs, Json, Kind, Out, Seed, Set

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    help="Decentralized federated learning: many peers, private data, one model, no server.",
    epilog=(
        "Exit codes: 0 done, 2 wrong usage or configuration, 3 diverged, 4 data missing, "
        "5 peer failed, 130 interrupted."
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


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"peerloom {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    path: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Where to find code that a file names as module:Name. By default the working "
            "directory.",
        ),
    ] = None,
) -> None:
    from ..runtime import prepare_process

    prepare_process(keep_memory=False)  # before torch is loaded
    # Last, so that a file there is never taken for a module that is installed.
    sys.path += [str(folder.resolve()) for folder in path or [Path()]]


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
    device: Annotated[
        str, typer.Option(help="Where to compute: cpu, or cuda where there is a GPU.")
    ] = "cpu",
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
    deadline: Deadline = None,
    free: Free = False,
    as_json: Json = False,
) -> None:
    """Run an experiment on this machine as real peers: one process per client, over TLS."""
    from .up import up_command

    up_command(file, set_ or [], seed, out_dir, deadline, free, as_json)


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

    sweep_command(file, grid, set_ or [], jobs, out_dir, [*(formats or [])], as_json)


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
        Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")
    ] = Path("model.safetensors"),
    row: Annotated[
        int | None,
        typer.Option(help="This client's model, from 0. By default the mean of all clients'."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the model of a run to a safetensors file, with the names of its nn.Module."""
    from .export import export_command

    export_command(run, output, row, as_json)


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
def bench(
    case: Annotated[
        list[str] | None, typer.Option(help="Only this case; may be repeated. By default all.")
    ] = None,
    peers: Annotated[
        bool, typer.Option("--peers", help="Only what runs between processes: links, peers, crowd.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure simulator and peers, as ratios to plain loops, sockets and the machine's bound."""
    from .. import bench as benchmark

    cases = [*(case or []), *(benchmark.BETWEEN_PROCESSES if peers else [])] or None
    with err.status("measuring") as status:
        document = benchmark.run(cases, progress=lambda text: status.update(text))
    show(document, benchmark.render(document), as_json)
