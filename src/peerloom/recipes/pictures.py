"""Pictures of a figure or table: curves, sweeps, heat maps, what delays consist of, and how classes were dealt.

A point's name says its factors: "0.2, m 32" is the first at 0.2 and m at 32.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence

import polars as pl

from ..reports.groups import Group
from ..reports.holdings import holdings_panels, holdings_picture
from ..reports.picture import Bars, Cells, Dot, Dots, Line, Lines, Panel, Picture
from ..reports.plots import RANGE, curve_panel, with_common_reach
from ..reports.scales import Along, spans_decades
from ..reports.wording import number
from ..runs import Run
from .readings import Found, Reading, column_of, middle, quartiles, words_of
from .recipe import Recipe

__all__ = ["Factor", "factors_of", "figure_pictures", "pictures"]

Factor = tuple[str, str]  # what is varied, and its value
Paper = Mapping[tuple[str, str, Reading], float]

_MOST_PANELS = 12
_QUARTILES = "band: quartiles over seeds"
_SPENT = {"round", "communications", "seconds", "paper_bytes", "delay"}  # what a run ends with, not a curve of its own


def pictures(recipe: Recipe, runs: Mapping[str, Sequence[Run]]) -> list[Picture]:
    """Every picture of these runs, in the order in which a page shows them."""
    found = Found(runs)
    factors = factors_of(found.points, recipe.varied)
    if recipe.kind == "holdings":
        shown = {f"{recipe.varied} {point}": next(iter(some), None) for point, some in runs.items()}
        panels = holdings_panels({title: run for title, run in shown.items() if run is not None})
        return holdings_picture(panels, "First seed.")
    if recipe.kind == "map":
        return _maps(recipe, found, factors)
    if recipe.kind == "delays":
        return _delays(recipe, found)
    if recipe.kind == "table":
        return [_table(recipe.title, found, reading, recipe.paper) for reading in recipe.shows]
    return figure_pictures(recipe.title, found, recipe.shows, factors, recipe.paper)


def factors_of(points: Sequence[str], varied: str) -> dict[str, list[Factor]]:
    """The factors of every point; a part without a name is of what is varied.

    >>> factors_of(["0.2, m 32"], "rate")
    {'0.2, m 32': [('rate', '0.2'), ('m', '32')]}
    """
    made = {}
    for point in points:
        parts = [re.fullmatch(r"(?:([A-Za-z]\w*) )?(-?[\d.]+(?:e-?\d+)?)", part) for part in point.split(", ")]
        named = [(part[1] or varied, part[2]) for part in parts if part]
        made[point] = named if len(named) == len(parts) <= 2 else [(varied, point)] if point else []
    return made


def figure_pictures(
    title: str,
    found: Found,
    shows: Sequence[Reading],
    factors: Mapping[str, Sequence[Factor]],
    paper: Paper | None = None,
) -> list[Picture]:
    """Readings over what was varied, and the curves of all points as small multiples."""
    readings = [*shows, *dict.fromkeys(reading for _, _, reading in paper or {})]
    axis = next((one.axis for one in readings if one.at != "end" and one.axis != "round"), "round")
    metrics = dict.fromkeys(one.metric for one in readings if one.level is None and one.metric not in _SPENT)
    curves = [drawn for metric in metrics if (drawn := _curves(title, found, metric, axis, factors, paper or {}))]
    sweeps = []
    if any(factors.values()):
        numeric = all(_value(some[0]) is not None for some in factors.values())
        if numeric:
            sweeps = [_sweep(title, found, reading, factors, paper or {}) for reading in shows]
        elif not curves:
            sweeps = [_table(title, found, reading, paper or {}) for reading in shows]
    return [*sweeps, *curves]


def _curves(
    title: str, found: Found, metric: str, axis: str, factors: Mapping[str, Sequence[Factor]], paper: Paper
) -> Picture | None:
    across = axis, Along(words_of(axis))
    up = metric, _along(metric)
    panels = []
    for name, lines in _grouped(found, factors).items():
        curved = [line for line in lines if max(run.metrics.height for run in line.group.runs) > 2]
        printed = {line.group.label: _printed(paper, line, metric, axis) for line in curved}
        panel = curve_panel(name, [_with_axis(line.group, axis) for line in curved], across, up, printed)
        panels += [panel] if panel is not None else []
    if not panels or len(panels) > _MOST_PANELS:
        return None
    if not up[1].log and up[1].unit != "%" and spans_decades([value for panel in panels for _, value in panel.shown()]):
        panels = [dataclasses.replace(panel, up=dataclasses.replace(panel.up, log=True)) for panel in panels]
    band = RANGE if found.seeds > 1 else ""
    words = f"{title}: {words_of(metric)}, against {words_of(axis)}"
    return Picture(f"{metric}-{axis}".replace("_", "-"), words, with_common_reach(panels), band)


@dataclasses.dataclass(frozen=True)
class _Drawn:
    """A line to be drawn: its runs, and which point and label they are of."""

    group: Group
    point: str
    label: str


def _grouped(found: Found, factors: Mapping[str, Sequence[Factor]]) -> dict[str, list[_Drawn]]:
    """Panels of curves: one per point, or, of one algorithm alone, one per second factor with a line per value."""
    labels = {label for point in found.points for label in found.labels(point)}
    panels: dict[str, list[_Drawn]] = {}
    for point in found.points:
        some = [_worded(factor) for factor in factors[point]]
        for label, runs in found.runs[point].items():
            if len(labels) == 1 and some and len(found.points) > 1:
                name, line = ", ".join(some[1:]), some[0]
            else:
                name, line = ", ".join(some), label
            panels.setdefault(name, []).append(_Drawn(Group(line, label, tuple(runs.values())), point, label))
    return panels


def _worded(factor: Factor) -> str:
    return " ".join(factor) if _value(factor) is not None else factor[1]


def _with_axis(group: Group, axis: str) -> Group:
    """Runs whose tables have the axis as a column, where it is one that is derived."""
    runs = [run if axis in run.metrics.columns else _derived(run, axis) for run in group.runs]
    return Group(group.label, group.algorithm, tuple(runs))


def _derived(run: Run, axis: str) -> Run:
    return dataclasses.replace(run, metrics=run.metrics.with_columns(pl.Series(axis, column_of(run, axis))))


def _printed(paper: Paper, line: _Drawn, metric: str, axis: str) -> list[tuple[float, float]]:
    """What the paper prints of this curve: where it says so, or at the curve's end."""
    ends = [float(column_of(run, axis)[-1]) for run in line.group.runs if run.metrics.height]
    made = []
    for (point, label, reading), value in paper.items():
        if (point, label, reading.metric) == (line.point, line.label, metric) and reading.level is None:
            if reading.at == "end":
                made.append((min(ends, default=math.nan), value))
            elif reading.axis == axis and not isinstance(reading.at, str):
                made.append((reading.at, value))
    return made


def _sweep(title: str, found: Found, reading: Reading, factors: Mapping[str, Sequence[Factor]], paper: Paper) -> Picture:
    """A reading over the first factor; a panel per value of the second one, or a line where one algorithm is alone."""
    labels = list(dict.fromkeys(label for point in found.points for label in found.labels(point)))
    alone = len(labels) == 1
    rows: dict[str, dict[str, list[tuple[float, float, float, float, float | None]]]] = {}
    for point in found.points:
        first, *second = factors[point]
        where = _worded(second[0]) if second else ""
        for label in found.labels(point):
            values = list(found.values(point, label, reading).values())
            panel, line = ("", where or label) if alone else (where, label)
            printed = paper.get((point, label, reading))
            x = _value(first)
            assert x is not None
            rows.setdefault(panel, {}).setdefault(line, []).append((x, middle(values), *quartiles(values), printed))
    across, up = Along(next(iter(factors.values()))[0][0]), _along(reading.metric)
    xs = [row[0] for lines in rows.values() for some in lines.values() for row in some]
    ys = [value for lines in rows.values() for some in lines.values() for row in some for value in row[1:4]]
    across, up = dataclasses.replace(across, log=spans_decades(xs)), dataclasses.replace(up, log=_logged(ys, up))
    panels = [
        Lines(panel, [_swept(name, some) for name, some in lines.items()], across, up) for panel, lines in rows.items()
    ]
    band = _QUARTILES if found.seeds > 1 else ""
    return Picture(_name(reading), f"{title}: {reading.words}", with_common_reach(panels), band)


def _swept(label: str, rows: list[tuple[float, float, float, float, float | None]]) -> Line:
    rows = sorted(rows, key=lambda row: row[0])
    x, y, low, high = ([row[k] for row in rows] for k in range(4))
    return Line(label, x, y, low, high, [(row[0], row[4]) for row in rows if row[4] is not None], marked=True)  # type: ignore[arg-type]


def _table(title: str, found: Found, reading: Reading, paper: Paper) -> Picture:
    """A row per point, a dot per algorithm."""
    dots = [
        Dot(point, label, middle(values), *quartiles(values), paper.get((point, label, reading)))
        for point in found.points
        for label in found.labels(point)
        if (values := list(found.values(point, label, reading).values()))
    ]
    band = _QUARTILES.replace("band", "line") if found.seeds > 1 else ""
    return Picture(_name(reading), f"{title}: {reading.words}", [_dots("", dots, reading.metric)], band)


def _dots(title: str, dots: Sequence[Dot], metric: str) -> Dots:
    along = _along(metric)
    values = [value for dot in dots for value in (dot.value, dot.low, dot.high, dot.paper) if value is not None]
    return Dots(title, dots, dataclasses.replace(along, log=_logged(values, along)))


def _maps(recipe: Recipe, found: Found, factors: Mapping[str, Sequence[Factor]]) -> list[Picture]:
    """A heat map of every reading: the first factor across, the second one up."""
    across, up = (list(dict.fromkeys(some[k][1] for some in factors.values())) for k in (0, 1))
    at = {(some[0][1], some[1][1]): point for point, some in factors.items()}
    (label,) = dict.fromkeys(label for point in found.points for label in found.labels(point))
    names = recipe.varied.split(" and ")
    panels: list[Panel] = []
    for reading in recipe.shows:
        values = [
            [middle(list(found.values(at[x, y], label, reading).values())) if (x, y) in at else math.nan for x in across]
            for y in reversed(up)
        ]
        panels.append(Cells(reading.words, up[::-1], across, values, Along(names[0]), Along(names[1])))
    about = "Medians over seeds; the darker a cell, the larger its number."
    return [Picture("map", recipe.title, panels, about=about)]


def _delays(recipe: Recipe, found: Found) -> list[Picture]:
    """Delay to a target: how long, and which share of it is processing and which transmission; ours and the paper's."""
    totals: list[Panel] = []
    shares: list[Panel] = []
    for point in found.points:
        whole, dots, rows = "", [], []
        for label in found.labels(point):
            parts = {r.metric: r for where, name, r in recipe.paper if (where, name) == (point, label)}
            values = list(found.values(point, label, parts["delay"]).values())
            whole = f"{point}: {parts['delay'].words}"
            dots.append(Dot(label, "ours", middle(values), *quartiles(values), recipe.paper[point, label, parts["delay"]]))
            names = ("processing_delay", "transmission_delay")
            ours = [middle(list(found.values(point, label, parts[name]).values())) for name in names]
            theirs = [recipe.paper[point, label, parts[name]] for name in names]
            rows += [(f"{label}, ours", ours), (f"{label}, paper", theirs)]
        totals.append(_dots(whole, dots, "delay"))
        said = [number(sum(values)) if math.isfinite(sum(values)) else "never" for _, values in rows]
        heads, split = [row for row, _ in rows], [values for _, values in rows]
        share = Along("share of the delay", unit="%")
        shares.append(Bars(whole, heads, ("processing", "transmission"), split, said, share))
    band = _QUARTILES.replace("band", "line") if found.seeds > 1 else ""
    return [
        Picture("delay", f"{recipe.title}: delay, as run", totals, band),
        Picture(
            "delay-parts", f"{recipe.title}: what it consists of", shares, about="Beside each bar: the sum of both parts."
        ),
    ]


def _along(metric: str) -> Along:
    unit = "%" if "accuracy" in metric else "B" if metric.endswith("bytes") else ""
    return Along(words_of(metric), log=metric == "consensus", unit=unit)  # type: ignore[arg-type]


def _logged(values: Sequence[float], along: Along) -> bool:
    return along.log or (along.unit != "%" and spans_decades(values))


def _value(factor: Factor) -> float | None:
    try:
        return float(factor[1])
    except ValueError:
        return None


def _name(reading: Reading) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", reading.words.lower()).strip("-")
