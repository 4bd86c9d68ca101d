"""`peerloom sweep`: a file of one's own over a grid of values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from ..config import override, read_file
from ..core import ConfigError
from ..reports import summary
from ..reports.wording import number, percent
from .app import err, show
from .points import run_points

__all__ = ["grid_points", "sweep_command"]


def sweep_command(file: Path, grids: list[str], settings: list[str], jobs: int, out_dir: Path | None, as_json: bool) -> None:
    """Run a file once for every combination of the grid's values, and put the results side by side."""
    base = override(read_file(file), settings)
    points = grid_points(grids)
    out = out_dir or Path("runs") / f"{file.stem}-sweep-{datetime.now():%Y%m%d-%H%M%S}"
    title = str(base.get("title", file.stem))
    tables = {name: override(base, point) | {"title": f"{title}: {name}"} for name, point in points.items()}
    places = {name: out / re.sub(r"[^A-Za-z0-9._=-]+", "_", name) for name in tables}
    runs, failures = run_points(tables, places, jobs, again=f"give the same command with --out {out}")
    found = {name: summary(some) for name, some in runs.items()}
    document: dict[str, Any] = {"title": title, "folder": str(out)}
    document["points"] = {name: one.to_dict() for name, one in found.items()}
    labels = list(dict.fromkeys(entry.label for one in found.values() for entry in one.final))
    table = Table("point", *labels, title=f"{title}: medians over seeds at the end of each run")
    for name, one in found.items():
        say = percent if one.quality == "accuracy" else number
        final = {entry.label: entry.figures[f"mean_{one.quality}"].median for entry in one.final}
        table.add_row(name, *(say(final.get(label)) for label in labels))
    show(document, table, as_json)
    if not as_json:
        err.print(f"Runs and pages: {out}", highlight=False, markup=False, soft_wrap=True)
    if failures:
        raise failures[0]


def grid_points(grids: Sequence[str]) -> dict[str, list[str]]:
    """Every combination of the values of `a.b=1,2,3`, as settings; a comma within brackets belongs to its value.

    >>> grid_points(["graph.radius=0.4,0.6", "seed=1"])
    {'radius=0.4 seed=1': ['graph.radius=0.4', 'seed=1'], 'radius=0.6 seed=1': ['graph.radius=0.6', 'seed=1']}
    """
    if not grids:
        raise ConfigError("A sweep needs a grid: --grid a.b=1,2,3, such as --grid graph.radius=0.4,0.6.")
    axes = []
    for grid in grids:
        path, equals, text = grid.partition("=")
        values = _values(text)
        if not equals or not path or not all(values) or len(set(values)) < len(values):
            raise ConfigError(f"--grid {grid}: write a.b=1,2,3 with different values, such as graph.radius=0.4,0.6.")
        axes.append([(path, value) for value in values])
    short = _short([axis[0][0] for axis in axes])
    return {
        " ".join(f"{short[path]}={value}" for path, value in combination): [f"{path}={value}" for path, value in combination]
        for combination in itertools.product(*axes)
    }


def _values(text: str) -> list[str]:
    depth, values = 0, [""]
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth:
            values.append("")
        else:
            values[-1] += letter
    return [value.strip() for value in values]


def _short(paths: Sequence[str]) -> dict[str, str]:
    """The last word of each path, and the whole of it where two end alike."""
    if len(set(paths)) < len(paths):
        raise ConfigError(f"--grid: {max(paths, key=paths.count)} is given twice. Put all of its values into one.")
    last = [path.rsplit(".", 1)[-1] for path in paths]
    return {path: word if last.count(word) == 1 else path for path, word in zip(paths, last, strict=True)}
