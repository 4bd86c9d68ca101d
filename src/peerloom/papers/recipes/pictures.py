"""Pictures of a figure or table: what its kind asks for, drawn from its runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...reports.holdings import holdings_panels, holdings_picture
from ...reports.picture import Bars, Cells, Dot, Panel, Picture
from ...reports.scales import Along
from ...reports.wording import number
from ...runs import Run
from ...sweeps.dots import QUARTILES, dots_panel, table_picture
from ...sweeps.figures import Factor, factors_of, figure_pictures
from ...sweeps.readings import Found, middle, quartiles
from .recipe import Recipe

__all__ = ["pictures"]


def pictures(
    recipe: Recipe, runs: Mapping[str, Sequence[Run]], whole: bool = True
) -> list[Picture]:
    """Every picture of these runs, in the order in which a page shows them.

    What the paper printed for the end of its curves has no place on those of a smaller form, which
    are not `whole`.
    """
    found = recipe.found(runs)
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
        return [
            table_picture(recipe.title, found, reading, recipe.paper) for reading in recipe.shows
        ]
    return figure_pictures(
        recipe.title, found, recipe.shows, factors, recipe.paper if whole else {}
    )


def _maps(recipe: Recipe, found: Found, factors: Mapping[str, Sequence[Factor]]) -> list[Picture]:
    """A heat map of every reading: the first factor across, the second one up."""
    across, up = (list(dict.fromkeys(some[k][1] for some in factors.values())) for k in (0, 1))
    at = {(some[0][1], some[1][1]): point for point, some in factors.items()}
    (label,) = found.algorithms
    names = recipe.varied.split(" and ")
    panels: list[Panel] = []
    for reading in recipe.shows:
        values = [
            [
                middle(list(found.values(at[x, y], label, reading).values()))
                if (x, y) in at
                else math.nan
                for x in across
            ]
            for y in reversed(up)
        ]
        panels.append(
            Cells(reading.words, up[::-1], across, values, Along(names[0]), Along(names[1]))
        )
    about = "Medians over seeds; the darker a cell, the larger its number."
    return [Picture("map", recipe.title, panels, about=about)]


def _delays(recipe: Recipe, found: Found) -> list[Picture]:
    """Delay to a target and its shares of processing and transmission, ours and the paper's."""
    totals: list[Panel] = []
    shares: list[Panel] = []
    for point in found.points:
        whole, dots, rows = "", [], []
        for label in found.labels(point):
            parts = {
                r.metric: r for where, name, r in recipe.paper if (where, name) == (point, label)
            }
            values = list(found.values(point, label, parts["delay"]).values())
            whole = f"{point}: {parts['delay'].words}"
            dots.append(
                Dot(
                    label,
                    "ours",
                    middle(values),
                    *quartiles(values),
                    recipe.paper[point, label, parts["delay"]],
                )
            )
            names = ("processing_delay", "transmission_delay")
            ours = [
                middle(list(found.values(point, label, parts[name]).values())) for name in names
            ]
            theirs = [recipe.paper[point, label, parts[name]] for name in names]
            rows += [(f"{label}, ours", ours), (f"{label}, paper", theirs)]
        totals.append(dots_panel(whole, dots, "delay"))
        said = [
            number(sum(values)) if math.isfinite(sum(values)) else "never" for _, values in rows
        ]
        heads, split = [row for row, _ in rows], [values for _, values in rows]
        share = Along("share of the delay", unit="%")
        shares.append(Bars(whole, heads, ("processing", "transmission"), split, said, share))
    band = QUARTILES.replace("band", "line") if found.seeds > 1 else ""
    return [
        Picture("delay", f"{recipe.title}: delay, as run", totals, band),
        Picture(
            "delay-parts",
            f"{recipe.title}: what it consists of",
            shares,
            about="Beside each bar: the sum of both parts.",
        ),
    ]
