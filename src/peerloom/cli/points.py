"""Several comparisons, in turn or in parallel: what `reproduce` and `sweep` share."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..config import Comparison, comparison_from, read_file
from ..core import ConfigError, PeerloomError
from ..reports import write_report
from ..runs import Run, RunFolder, replace_file
from ..runs.pool import Job, run_jobs
from ..runtime.offload import usable_device
from .console import err
from .run import Stop, carry_out, divergence_of, folders_of, status_of

__all__ = ["EXPERIMENT", "check_same_or_new", "run_points", "write_reports"]

Table = dict[str, Any]
EXPERIMENT = "experiment.toml"  # in the folder of every point


def run_points(
    tables: Mapping[str, Table],
    targets: Mapping[str, Path],
    jobs: int,
    *,
    again: str,
    device: str = "cpu",
) -> tuple[dict[str, list[Run]], list[PeerloomError]]:
    """Run or resume every comparison in its folder.

    Returns the runs of each, and the errors of those that diverged. `again` is what to do after an
    interruption. Nothing is written before all comparisons are known to be right.
    """
    usable_device(device)
    for name, table in tables.items():
        check_same_or_new(targets[name], table)
    planned = {
        name: _Planned.of(comparison, targets[name]) for name, comparison in _comparisons(tables)
    }
    for name, table in tables.items():
        targets[name].mkdir(parents=True, exist_ok=True)
        text = tomli_w.dumps(table).encode()
        replace_file(targets[name] / EXPERIMENT, lambda file, text=text: file.write(text))  # type: ignore[misc]
    failures = (
        _at_once(planned, targets, jobs, again, device)
        if jobs > 1
        else _in_turn(tables, planned, again, device)
    )
    runs = {
        name: [RunFolder(folder).read() for folder in some.folders]
        for name, some in planned.items()
    }
    return runs, failures


def write_reports(
    runs: Mapping[str, list[Run]], targets: Mapping[str, Path], tables: Mapping[str, Table]
) -> None:
    """Write a page for each comparison that has curves."""
    for name, some in runs.items():
        if max(len(run.metrics) for run in some) > 2:  # more than start and end
            title = str(tables[name].get("title", name))
            write_report(some, targets[name] / "report.html", title)


class _Planned(NamedTuple):
    """The runs of a comparison: folder, name and number of rounds of each."""

    folders: list[Path]
    names: list[str]
    rounds: list[int]

    @classmethod
    def of(cls, comparison: Comparison, folder: Path) -> _Planned:
        every = comparison.experiments
        names = [f"{exp.name}, seed {exp.seed}" for exp in every]
        return cls(folders_of(comparison, folder), names, [exp.rounds for exp in every])


def _in_turn(
    tables: Mapping[str, Table], planned: Mapping[str, _Planned], again: str, device: str
) -> list[PeerloomError]:
    """One run after another, in this process."""
    failures: list[PeerloomError] = []
    for name, comparison in _comparisons(tables):
        folders = planned[name].folders
        failures += carry_out(comparison, folders, resume=True, again=again, device=device)
    return failures


def _comparisons(tables: Mapping[str, Table]) -> Iterator[tuple[str, Comparison]]:
    """One at a time; each is kept until the next is made, so that equal data are loaded once."""
    before: list[Comparison] = []
    for name, table in tables.items():
        before.append(comparison_from(table))
        del before[:-1]
        yield name, before[0]


def check_same_or_new(folder: Path, table: Table, *, seeds: bool = True) -> None:
    """Refuse a folder that was begun with another experiment than this one.

    It may get more seeds after those that it has; nothing else may change. Without `seeds` it may
    have any.
    """
    file = folder / EXPERIMENT
    if not file.exists():
        return
    there, here = read_file(file), dict(table)
    before, now = there.pop("seeds", [0]), here.pop("seeds", [0])
    if there != here:
        raise ConfigError(
            f"{folder} holds runs of other settings: {_first_difference(there, here)}. Give "
            "another --out, or remove it."
        )
    if seeds and now[: len(before)] != before:
        raise ConfigError(
            f"{folder} holds runs of other seeds: {before} there and {now} here. A folder may get "
            "more seeds, but none less. Ask for as many at least, or give another --out."
        )


def _first_difference(there: Any, here: Any, path: str = "") -> str:
    """Where two tables differ, and how."""
    if isinstance(there, dict) and isinstance(here, dict):
        key = next(key for key in [*there, *here] if there.get(key) != here.get(key))
        return _first_difference(there.get(key), here.get(key), f"{path}.{key}".lstrip("."))
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        k = next(k for k, (one, other) in enumerate(zip(there, here, strict=True)) if one != other)
        return _first_difference(there[k], here[k], f"{path}[{k}]")
    return f"{path} is {there!r} there and {here!r} here"


def _at_once(
    planned: Mapping[str, _Planned],
    targets: Mapping[str, Path],
    jobs: int,
    again: str,
    device: str,
) -> list[PeerloomError]:
    """All runs that are not done yet, some at a time, with one display."""
    wanted, names, rounds = [], [], []
    for point, runs in planned.items():
        for k, folder in enumerate(runs.folders):
            if status_of(folder) not in ("done", "diverged"):
                wanted.append(Job(targets[point] / EXPERIMENT, k, folder, device))
                names.append(f"{point} {runs.names[k]}".strip())
                rounds.append(runs.rounds[k])
    failed: list[str] = []
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with (
        Stop() as stop,
        Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars,
    ):
        every = bars.add_task("runs", total=len(wanted))
        shown: dict[int, Any] = {}

        def tell(number: int, event: dict[str, Any]) -> None:
            if "round" in event:
                if number not in shown:
                    shown[number] = bars.add_task(names[number], total=rounds[number])
                bars.update(shown[number], completed=event["round"])
                return
            if number in shown:
                bars.remove_task(shown.pop(number))
            if event["status"] in ("done", "diverged"):
                bars.advance(every)
            if event["status"] != "done" and "message" in event:
                err.print(
                    f"{names[number]}: {event['status']}, {event['message']}",
                    highlight=False,
                    markup=False,
                )
            if event["status"] == "failed":
                failed.append(f"{names[number]}: {event['message']}")

        if wanted:
            run_jobs(wanted, jobs, tell=tell, stop=stop)
    if stop.asked:
        err.print(
            f"Interrupted. Nothing done so far is lost; {again}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        sys.exit(130)
    if failed:
        raise PeerloomError(failed[0])
    folders = [folder for some in planned.values() for folder in some.folders]
    return [divergence_of(folder) for folder in folders if status_of(folder) == "diverged"]
