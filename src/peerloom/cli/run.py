"""`peerloom run` and `peerloom report`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import tomli_w
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..config import Comparison, comparison_from, read_file
from ..core import ConfigError, DivergedError, PeerloomError
from ..core.events import each_round
from ..experiment import Experiment
from ..reports import render, summary, write_report
from ..reports.export import PICTURES, export
from ..reports.plots import report_pictures
from ..runs import RunFolder, comparison_at, find_runs, folder_name, simulate
from ..runtime import prepare_process
from .console import err, show
from .files import load

__all__ = [
    "Stop",
    "carry_out",
    "divergence_of",
    "folders_of",
    "prepare",
    "report_command",
    "report_results",
    "run_command",
    "status_of",
]

SHARED_FROM = 250_000  # numbers in all models together from which a second thread pays


def run_command(
    file: Path | None,
    settings: list[str],
    seed: int | None,
    out_dir: Path | None,
    resume: Path | None,
    device: str,
    threads: int | None,
    record: bool,
    as_json: bool,
) -> None:
    """Run every experiment of a file, then report the results."""
    if resume is not None:
        if file or settings or seed is not None or out_dir:
            raise ConfigError(
                "--resume goes on with a folder as it is: give no file, --set, --seed or --out "
                "with it."
            )
        comparison, out = comparison_at(resume), resume
    else:
        comparison, out = prepare(file, settings, seed, out_dir)
    folders = folders_of(comparison, out)
    again = f"go on with: peerloom run --resume {out}"
    failures = carry_out(
        comparison,
        folders,
        resume=resume is not None,
        again=again,
        device=device,
        threads=threads,
        record=record,
    )
    report_results(folders, out / "report.html", comparison.title, as_json)
    if failures:
        sys.exit(failures[0].exit_code)


def carry_out(
    comparison: Comparison,
    folders: list[Path],
    *,
    resume: bool,
    again: str,
    device: str = "cpu",
    threads: int | None = None,
    record: bool = False,
) -> list[PeerloomError]:
    """Run every experiment into its folder; return the errors of those that diverged.

    With `resume` what is done stays, and what was begun goes on. An interruption ends the program,
    and tells `again`.
    """
    prepare_process(
        keep_memory=False,
        threads=threads or (_threads_of(folders) if resume else None) or _threads(comparison),
    )
    failures: list[PeerloomError] = []
    with Stop() as stop, _progress(comparison) as advance:
        for exp, folder in zip(comparison.experiments, folders, strict=True):
            status = status_of(folder) if resume else ""
            if status in ("done", "diverged"):  # it would only diverge again
                advance(exp.name, exp.seed, exp.rounds)
                if status == "diverged":
                    failures.append(divergence_of(folder))
                continue
            try:
                bar = each_round(partial(advance, exp.name, exp.seed))
                simulate(
                    exp,
                    device=device,
                    out=folder,
                    resume=resume,
                    observers=[bar],
                    stop=stop,
                    record=record,
                )
            except DivergedError as error:  # the others go on; the exit code says it at the end
                failures.append(error)
                err.print(f"{exp.name}, seed {exp.seed}: {error}", highlight=False, markup=False)
            if stop.asked:
                break
    if stop.asked:
        text = f"Interrupted. Nothing done so far is lost; {again}"
        err.print(text, highlight=False, markup=False, soft_wrap=True)
        sys.exit(130)
    return failures


def report_command(
    paths: list[Path], output: Path | None, formats: list[str], as_json: bool
) -> None:
    """One page about the runs at these paths."""
    folders = [folder.path for path in paths for folder in find_runs(path)]
    if output is not None and output.is_dir():
        raise ConfigError(
            f"{output} is a folder. Give the name of a page, such as {output / 'report.html'}."
        )
    page = output or (paths[0] if len(paths) == 1 else Path()) / "report.html"
    top = paths[0] / "experiment.toml"
    title = (
        str(read_file(top).get("title", paths[0].name))
        if len(paths) == 1 and top.exists()
        else "Peerloom runs"
    )
    report_results(folders, page, title, as_json, formats)


def prepare(
    file: Path | None,
    settings: list[str],
    seed: int | None,
    out_dir: Path | None,
    check: Callable[[Experiment], None] = lambda exp: None,
) -> tuple[Comparison, Path]:
    """Return what to run, once every experiment has passed the check, and a new folder."""
    table, name = load(file, settings, seed)
    comparison = comparison_from(table, name)
    for exp in comparison.experiments:
        check(exp)
    out = out_dir or Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(
            f"{out} exists and is not empty. Give another --out, or go on with it by --resume "
            f"{out}."
        )
    out.mkdir(parents=True, exist_ok=True)
    (out / "experiment.toml").write_text(tomli_w.dumps(table), encoding="utf-8")
    return comparison, out


def _threads(comparison: Comparison) -> int:
    """Return one thread where a round is too short to share: two would wait for each other."""
    largest = max(exp.graph.rows * exp.problem.n for exp in comparison.experiments)
    return 1 if largest < SHARED_FROM else torch.get_num_threads()


def folders_of(comparison: Comparison, out: Path) -> list[Path]:
    """Return the folder of each run of a comparison."""
    if (out / "run.json").exists():  # a single run's own folder, given to --resume
        return [out]
    return [out / folder_name(exp) for exp in comparison.experiments]


def status_of(folder: Path) -> str:
    """Return the status of a run; "missing" where nothing was begun."""
    if not (folder / "run.json").exists():
        return "missing"
    return str(RunFolder(folder).info().get("status", "unknown"))


def divergence_of(folder: Path) -> DivergedError:
    """Return the error with which a run diverged, as its folder has it."""
    info = RunFolder(folder).info()
    return DivergedError(str(info["message"]), round=int(info["round"]), row=int(info["row"]))


def _threads_of(folders: list[Path]) -> int | None:
    """Return the threads that runs began with: another number would change the last bits."""
    begun = [RunFolder(folder).info() for folder in folders if (folder / "run.json").exists()]
    versions = [info.get("versions", {}) for info in begun]
    return next((int(found["threads"]) for found in versions if "threads" in found), None)


def report_results(
    folders: list[Path], page: Path, title: str, as_json: bool, formats: Sequence[str] = ()
) -> None:
    """Write the report, and its pictures in these formats beside it; say the same in short."""
    runs = [RunFolder(folder).read() for folder in folders if (folder / "run.json").exists()]
    found = summary(runs)
    write_report(runs, page, title)
    document: dict[str, Any] = {
        "title": title,
        "report": str(page),
        "runs": [str(run.path) for run in runs],
    }
    if formats:
        made = export(report_pictures(runs), page.parent / PICTURES, formats)
        document["pictures"] = [str(path) for path in made]
    show(document | found.to_dict(), render(found), as_json)
    if not as_json:
        err.print(f"Report: {page}", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _progress(comparison: Comparison) -> Iterator[Any]:
    """A bar for the runs and one for the rounds; nothing at all where nobody watches."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        runs = bars.add_task("runs", total=len(comparison.experiments))
        rounds = bars.add_task("rounds")
        position = {(exp.name, exp.seed): k for k, exp in enumerate(comparison.experiments)}
        length = {(exp.name, exp.seed): exp.rounds for exp in comparison.experiments}

        def advance(name: str, seed: int, t: int) -> None:
            if t % 20 == 0 or t == length[name, seed]:
                bars.update(runs, completed=position[name, seed])
                bars.update(
                    rounds,
                    completed=t,
                    total=length[name, seed],
                    description=f"{name}, seed {seed}",
                )

        yield advance


class Stop:
    """SIGINT and SIGTERM request a stop after the round; a second signal does not wait."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self) -> bool:
        """Whether a stop was asked for."""
        return self.asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
