"""`peerloom reproduce`: a figure of a paper by one command."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import tomli_w
from rich.console import Group
from rich.table import Table

from ..config import comparison_from, read_file
from ..core import ConfigError, PeerloomError, nearest
from ..recipes import RECIPES, Outcome, Recipe, outcome
from ..reports import write_report
from ..reports.wording import number
from ..runs import Run, RunFolder
from .app import show
from .run import carry_out, folders_of

__all__ = ["list_command", "reproduce_command"]


def list_command(paper: str | None, as_json: bool) -> None:
    """All figures, of one paper or of all."""
    chosen = RECIPES if paper is None else {paper: _paper(paper)}
    entries: list[dict[str, Any]] = [
        {"paper": name, "figure": figure, "title": recipe.title, "points": len(recipe.points), "claim": recipe.claim}
        | {"note": recipe.note}
        for name, figures in chosen.items()
        for figure, recipe in figures.items()
    ]
    table = Table("paper", "figure", "what it shows", "points")
    for entry in entries:
        table.add_row(entry["paper"], entry["figure"], entry["title"], str(entry["points"]))
    show(entries, table, as_json)


def reproduce_command(
    paper: str, figure: str, tiny: bool, seeds: int | None, settings: list[str], out_dir: Path | None, as_json: bool
) -> None:
    """Run every point of a figure, then say whether its claim is seen."""
    figures = _paper(paper)
    if figure not in figures:
        raise ConfigError(f"There is no figure '{figure}' of {paper}. {nearest(figure, figures)}")
    recipe = figures[figure]
    out = out_dir or Path("runs") / f"{paper}-{figure}{'-tiny' if tiny else ''}"
    runs: dict[str, list[Run]] = {}
    failures: list[PeerloomError] = []
    for name, table in recipe.tables(seeds, tiny, settings).items():
        place = out / (f"{recipe.varied}-{name}" if recipe.varied else "curves")
        _same_or_new(place, table)
        comparison = comparison_from(table)
        folders = folders_of(comparison, place)
        failures += carry_out(comparison, folders, resume=True, again="give the same command again")
        runs[name] = [RunFolder(folder).read() for folder in folders]
        write_report(runs[name], place / "report.html", comparison.title)
    found = outcome(recipe, runs, judge=not tiny)
    document = {"paper": paper, "figure": figure, "tiny": tiny, "claim": recipe.claim, "note": recipe.note}
    document["folder"] = str(out)
    show(document | dataclasses.asdict(found), _rendered(recipe, found, out), as_json)
    if failures:
        raise failures[0]


def _paper(name: str) -> dict[str, Recipe]:
    if name not in RECIPES:
        raise ConfigError(f"There are no figures of '{name}'. {nearest(name, RECIPES)}")
    return RECIPES[name]


def _same_or_new(place: Path, table: dict[str, Any]) -> None:
    """A folder goes on only with the very experiment it was begun with."""
    file = place / "experiment.toml"
    if file.exists() and read_file(file) != table:
        raise ConfigError(f"{place} holds runs of other settings. Give another --out, or remove it.")
    place.mkdir(parents=True, exist_ok=True)
    file.write_text(tomli_w.dumps(table), encoding="utf-8")


def _rendered(recipe: Recipe, found: Outcome, out: Path) -> Group:
    labels = list(dict.fromkeys(label for figures in found.points.values() for label in figures))
    table = Table(recipe.varied or "at equal delay", *labels, title=f"{recipe.title}: median {found.quality} over seeds")
    for name, figures in found.points.items():
        cells = []
        for label in labels:
            median = figures[label].median if label in figures else None
            text = "-" if median is None else f"{100 * median:.1f} %" if found.quality == "accuracy" else number(median)
            cells.append(f"[bold]{text}[/]" if label == found.best[name] else text)
        table.add_row(name, *cells)
    lines = [f"The paper: {recipe.claim}.", found.verdict, recipe.note, f"Runs and pages: {out}"]
    return Group(table, *(line for line in lines if line))
