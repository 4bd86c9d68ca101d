"""Several comparisons, one after another or many runs at once: what `reproduce` and `sweep` share."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..config import Comparison, comparison_from, read_file
from ..core import ConfigError, DivergedError, PeerloomError
from ..reports import write_report
from ..runs import Run, RunFolder
from ..runs.pool import Job, run_jobs
from .app import err
from .run import Stop, carry_out, folders_of, status_of

__all__ = ["run_points"]

Table = dict[str, Any]
Done = tuple[dict[str, list[Path]], list[PeerloomError]]  # the folders of each comparison, and what diverged


def run_points(
    tables: Mapping[str, Table], places: Mapping[str, Path], jobs: int, again: str
) -> tuple[dict[str, list[Run]], list[PeerloomError]]:
    """Run every comparison into its folder, going on with what is there, and write a page for each that has curves.

    Gives the runs of each, and the errors of those that diverged. `again` is what to do after an interruption.
    """
    for name, table in tables.items():
        _same_or_new(places[name], table)
    folders, failures = (_at_once if jobs > 1 else _in_turn)(tables, places, jobs, again)
    runs = {name: [RunFolder(folder).read() for folder in some] for name, some in folders.items()}
    for name, some in runs.items():
        if max(run.metrics.height for run in some) <= 2:  # judged at the start and at the end only: there are no curves
            continue
        write_report(some, places[name] / "report.html", str(tables[name].get("title", name)))
    return runs, failures


def _in_turn(tables: Mapping[str, Table], places: Mapping[str, Path], jobs: int, again: str) -> Done:
    """One run after another, in this process."""
    folders, failures = {}, []
    for name, comparison in _comparisons(tables):
        folders[name] = folders_of(comparison, places[name])
        failures += carry_out(comparison, folders[name], resume=True, again=again)
    return folders, failures


def _comparisons(tables: Mapping[str, Table]) -> Iterator[tuple[str, Comparison]]:
    """One at a time; each is kept until the next is made, so that equal data are loaded once."""
    before: list[Comparison] = []
    for name, table in tables.items():
        before.append(comparison_from(table))
        del before[:-1]
        yield name, before[0]


def _same_or_new(place: Path, table: Table) -> None:
    """A folder goes on only with the very experiment it was begun with."""
    file = place / "experiment.toml"
    if file.exists() and read_file(file) != table:
        raise ConfigError(f"{place} holds runs of other settings. Give another --out, or remove it.")
    place.mkdir(parents=True, exist_ok=True)
    file.write_text(tomli_w.dumps(table), encoding="utf-8")


def _at_once(tables: Mapping[str, Table], places: Mapping[str, Path], jobs: int, again: str) -> Done:
    """All runs that are not done yet, some at a time, with one display."""
    folders: dict[str, list[Path]] = {}
    wanted, names, rounds = [], [], []
    for point, comparison in _comparisons(tables):
        folders[point] = folders_of(comparison, places[point])
        for k, (exp, folder) in enumerate(zip(comparison.experiments, folders[point], strict=True)):
            if status_of(folder) not in ("done", "diverged"):
                wanted.append(Job(places[point] / "experiment.toml", k, folder))
                names.append(f"{point} {exp.name}, seed {exp.seed}".strip())
                rounds.append(exp.rounds)
    failed: list[str] = []
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Stop() as stop, Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
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
                err.print(f"{names[number]}: {event['status']}, {event['message']}", highlight=False, markup=False)
            if event["status"] == "failed":
                failed.append(f"{names[number]}: {event['message']}")

        if wanted:
            run_jobs(wanted, jobs, tell=tell, stop=stop)
    if stop.asked:
        err.print(f"Interrupted. Nothing done so far is lost; {again}", highlight=False, markup=False, soft_wrap=True)
        sys.exit(130)
    if failed:
        raise PeerloomError(failed[0])
    infos = [RunFolder(folder).info() for some in folders.values() for folder in some]
    return folders, [
        DivergedError(str(info["message"]), round=int(info["round"]), row=int(info["row"]))
        for info in infos
        if info["status"] == "diverged"
    ]
