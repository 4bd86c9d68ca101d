"""`peerloom sweep`: a file of one's own over a grid of values."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.table import Table

from ..config import override, read_file
from ..core import ConfigError
from ..reports import summary
from ..reports.export import PICTURES, export
from ..reports.groups import quality_of
from ..reports.picture import Picture
from ..reports.wording import number, percent
from ..runs import Run
from ..sweeps.figures import Factor, figure_pictures
from ..sweeps.page import page, shown, tabled
from ..sweeps.readings import Found, Reading, middle
from .console import err, show
from .points import run_points, write_reports

__all__ = ["grid_points", "sweep_command"]


def sweep_command(
    file: Path,
    grids: list[str],
    settings: list[str],
    jobs: int,
    out_dir: Path | None,
    formats: list[str],
    as_json: bool,
    device: str = "cpu",
) -> None:
    """Run a file for every combination of the grid's values; compare the results on one page."""
    base = override(read_file(file), settings)
    points = grid_points(grids)
    out = out_dir or Path("runs") / f"{file.stem}-sweep-{datetime.now():%Y%m%d-%H%M%S}"
    title = str(base.get("title", file.stem))
    tables = {
        name: override(base, point) | {"title": f"{title}: {name}"}
        for name, point in points.items()
    }
    folders = {name: out / re.sub(r"[^A-Za-z0-9._=-]+", "_", name) for name in tables}
    runs, failures = run_points(
        tables, folders, jobs, device=device, again=f"give the same command with --out {out}"
    )
    write_reports(runs, folders, tables)
    found = {name: summary(some) for name, some in runs.items()}
    document: dict[str, Any] = {"title": title, "folder": str(out)}
    document["points"] = {name: one.to_dict() for name, one in found.items()}
    drawn = _pictures(title, runs, points)
    labels = list(dict.fromkeys(entry.label for one in found.values() for entry in one.final))
    table = Table("point", *labels, title=f"{title}: medians over seeds at the end of each run")
    rows, ends = [], Found(runs)
    for name, one in found.items():
        last = {
            label: list(ends.values(name, label, Reading(f"mean_{one.quality}")).values())
            for label in labels
        }
        rows.append([name, *(_ended(last[label], one.quality == "accuracy") for label in labels)])
        table.add_row(*rows[-1])
    where = out / "sweep.html"
    medians = tabled(["at the end, median over seeds", *labels], rows, "numbers")
    reports = [name for name in runs if (folders[name] / "report.html").exists()]
    links = [
        f'<a href="{escape(quote(folders[name].name))}/report.html">{escape(name)}</a>'
        for name in reports
    ]
    parts = [
        *map(shown, drawn),
        medians,
        f"<p>Reports of the points: {', '.join(links)}</p>" if links else "",
    ]
    where.write_text(page(title, parts), encoding="utf-8")
    document |= {
        "page": str(where),
        "pictures": [str(path) for path in export(drawn, out / PICTURES, formats)],
    }
    show(document, table, as_json)
    if not as_json:
        err.print(
            f"Page: {where}. Runs and their reports: below {out}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        if formats:
            err.print(
                f"Pictures: {len(document['pictures'])} files in {out / PICTURES}",
                highlight=False,
                markup=False,
            )
    if failures:
        raise failures[0]


def _ended(values: Sequence[float], share: bool) -> str:
    """What most runs ended with; who diverged ended worst, whatever its last number was."""
    if not values:
        return ""
    found, lost = middle(values), sum(map(math.isinf, values))
    said = "diverged" if math.isinf(found) else (percent if share else number)(found)
    return said + (f" ({lost} of {len(values)} diverged)" if 0 < lost < len(values) else "")


def _pictures(
    title: str, runs: Mapping[str, list[Run]], points: Mapping[str, Sequence[str]]
) -> list[Picture]:
    """What came of every point over the grid, and the curves of all points as small multiples."""
    quality = quality_of([run for some in runs.values() for run in some])
    shows = [Reading(quality.own), Reading(quality.own, "common", "delay")]
    return figure_pictures(
        title, Found(runs), shows, {name: _factors(settings) for name, settings in points.items()}
    )


def _factors(settings: Sequence[str]) -> list[Factor]:
    """What a point varies, numbers first; from the second one on in one.

    >>> _factors(["graph.name=ring", "problem.batch=8", "seed=1"])
    [('batch', '8'), ('', 'seed 1, name ring')]
    """
    short = _short([setting.partition("=")[0] for setting in settings])
    each = [
        (short[path], value) for path, _, value in (setting.partition("=") for setting in settings)
    ]
    first, *rest = sorted(
        each, key=lambda factor: not re.fullmatch(r"-?[\d.]+(e-?\d+)?", factor[1])
    )
    return [first, *([("", ", ".join(" ".join(factor) for factor in rest))] if rest else [])]


def grid_points(grids: Sequence[str]) -> dict[str, list[str]]:
    """Return every combination of values `a.b=1,2,3`; commas within brackets do not separate.

    >>> for name, settings in grid_points(["graph.radius=0.4,0.6", "seed=1"]).items():
    ...     print(name, settings)
    radius=0.4 seed=1 ['graph.radius=0.4', 'seed=1']
    radius=0.6 seed=1 ['graph.radius=0.6', 'seed=1']
    """
    if not grids:
        raise ConfigError(
            "A sweep needs a grid: --grid a.b=1,2,3, such as --grid graph.radius=0.4,0.6."
        )
    axes = []
    for grid in grids:
        path, equals, text = grid.partition("=")
        values = _values(text)
        if not equals or not path or not all(values) or len(set(values)) < len(values):
            raise ConfigError(
                f"--grid {grid}: write a.b=1,2,3 with different values, such as "
                "graph.radius=0.4,0.6."
            )
        axes.append([(path, value) for value in values])
    short = _short([axis[0][0] for axis in axes])
    return {
        " ".join(f"{short[path]}={value}" for path, value in combination): [
            f"{path}={value}" for path, value in combination
        ]
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
        raise ConfigError(
            f"--grid: {max(paths, key=paths.count)} is given twice. Put all of its values into one."
        )
    last = [path.rsplit(".", 1)[-1] for path in paths]
    return {
        path: word if last.count(word) == 1 else path
        for path, word in zip(paths, last, strict=True)
    }
