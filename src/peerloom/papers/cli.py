"""`peerloom reproduce`: its options; the work is imported when the command runs."""

from pathlib import Path
from typing import Annotated

import typer

from ..cli.options import Export, Jobs, Json
from ..errors import ConfigError

__all__ = ["reproduce"]


def reproduce(
    paper: Annotated[
        str | None, typer.Argument(help="A paper, such as dspodfl. Without it, all are listed.")
    ] = None,
    figure: Annotated[
        str | None,
        typer.Argument(help="A figure or table, such as fig2b. Without it, all are listed."),
    ] = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="In seconds, to see that it works; no claim is tested.")
    ] = False,
    fit: Annotated[
        bool,
        typer.Option("--fit", help="Smaller than the paper's, for two cores; the output says how."),
    ] = False,
    compat: Annotated[
        bool, typer.Option("--compat", help="What the authors' code did, where it differs.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="So many seeds: the recipe's, and others after them. By default the recipe's. A "
            "folder may be given more later."
        ),
    ] = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided",
            help="Add seeds until every claim is decided, but no more than --seeds (50).",
        ),
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            min=0.0,
            help="With --until-decided: start no seed that would not be done by then.",
        ),
    ] = None,
    point: Annotated[
        list[str] | None,
        typer.Option(
            "--point",
            metavar="NAME",
            help="Only this point, or those of a pattern with *; may be repeated. By default all.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=VALUE", help="Change a value of every experiment."),
    ] = None,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate",
            help="Run nothing; time a few rounds and say how long all would take here.",
        ),
    ] = False,
    jobs: Jobs = 1,
    out_dir: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Where to keep the runs, by default runs/PAPER-FIGURE; or what --estimate finds.",
        ),
    ] = None,
    summary: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Collect the verdicts below this folder into a page, and one for each figure "
            "(--out names it); may be repeated.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --summary: keep the outcomes there, without their runs, and show what was "
            "kept there before, too.",
        ),
    ] = None,
    formats: Export = None,
    as_json: Json = False,
) -> None:
    """Run a paper's figure or table, and hold its claims to what is seen.

    The same command goes on after a stop.
    """
    from .recipes import Form
    from .reproduce import estimate_command, list_command, reproduce_command, summary_command
    from .until_decided import Budget

    if summary:
        return summary_command(summary, out_dir, keep, as_json)
    if keep is not None:
        raise ConfigError("--keep is for outcomes that --summary collects. Give both.")
    if paper is None or figure is None:
        return list_command(paper, as_json)
    if budget is not None and not until_decided:
        raise ConfigError("--budget says when --until-decided ends. Give both, or neither.")
    form = Form(tiny=tiny, fit=fit, compat=compat, seeds=seeds, points=point, settings=set_ or ())
    if estimate and until_decided:
        raise ConfigError("--estimate runs nothing, so nothing is decided. Leave one out.")
    if estimate:
        return estimate_command(paper, figure, form, out_dir, as_json)
    return reproduce_command(
        paper,
        figure,
        form,
        jobs,
        out_dir,
        [*(formats or [])],
        as_json,
        Budget(seeds or Budget.seeds, budget) if until_decided else None,
    )
