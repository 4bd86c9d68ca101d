"""From runs to panels: curves with their bands, each client's own model, and all pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..runs import Run
from .curves import Curve, curve, onset, wants_log
from .groups import LOSS, Group, Quality, grouped, last_clients, own_names, quality_of, seed_of
from .holdings import by_seed, holdings_picture
from .network import graph_panel, networks
from .picture import Cells, Line, Lines, Picture
from .scales import Along, spans_decades
from .wording import capital

__all__ = [
    "ACROSS",
    "CONSENSUS",
    "RANGE",
    "client_panel",
    "curve_panel",
    "quality_axis",
    "report_pictures",
    "with_common_reach",
]

RANGE = "band: least to largest over seeds, as far as all came"

_POINTS = 2500  # of all lines of a picture together, which keeps it below 100 kB
_FEWEST = 40  # of one line

# The horizontal axes of a report's curves, by column.
ACROSS = {
    "delay": Along("delay, as run"),
    "bytes": Along("bytes sent, all links", unit="B"),
    "round": Along("rounds"),
}
CONSENSUS = Along("consensus error", log=True)


def curve_panel(
    title: str,
    groups: Sequence[Group],
    across: tuple[str, Along],
    up: tuple[str, Along],
    paper: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    beside: int = 1,
    log: bool | None = None,
) -> Lines | None:
    """A line for every group, of one column over another; None where no run has both.

    `paper` has printed points by label; `beside` is how many panels share the picture's points.
    The horizontal axis is logarithmic where a linear one would hide the climb, or as `log` says.
    """
    (x, along), (y, upwards) = across, up
    found = [one for group in groups if (one := curve(group, x, y, positive=upwards.log))]
    if not found:
        return None
    most = max(_FEWEST, _POINTS // (beside * len(found)))
    lines = [_line(one, most, (paper or {}).get(one.label, ())) for one in found]
    log = wants_log(found) if log is None else log
    return Lines(title, lines, replace(along, log=log), upwards, onset(found))


def with_common_reach(panels: Sequence[Lines]) -> list[Lines]:
    """The same panels with one range for all vertical axes, so that they can be compared."""
    values = [value for panel in panels for _, value in panel.shown() if np.isfinite(value)]
    values = [value for value in values if value > 0 or not panels[0].up.log]
    if not values:
        return list(panels)
    return [replace(panel, reach=(min(values), max(values))) for panel in panels]


def quality_axis(groups: Sequence[Group], quality: Quality, column: str, title: str) -> Along:
    """The vertical axis of a column of this quality; losses far apart are on a log axis."""
    if quality is not LOSS:
        return Along(title, unit="%")
    return Along(title, log=_spread(groups, column))


def client_panel(groups: Sequence[Group], quality: Quality) -> tuple[Cells, str] | None:
    """Each client's own model at the end, for the seed that most groups have, and that seed."""
    measured = {
        (group.label, seed_of(run)): (run, values)
        for group in groups
        for run in group.runs
        if (values := last_clients(run, quality))
    }
    if not measured:
        return None
    seeds = [seed for _, seed in measured]
    seed = max(dict.fromkeys(seeds), key=seeds.count)
    rows = {label: found for (label, its), found in measured.items() if its == seed}
    first = next(iter(rows.values()))[0]
    able = [float(d) for d in first.network.get("node_probability", [])]
    width = max(len(values) for _, values in rows.values())
    able += [math.nan] * (width - len(able))
    order = sorted(range(width), key=lambda i: able[i] if math.isfinite(able[i]) else math.inf)
    cells = [[_finite(values, i) for i in order] for _, values in rows.values()]
    panel = Cells(
        "",
        list(rows),
        [str(i) for i in order],
        cells,
        Along("client"),
        Along(""),
        "%" if quality.higher else "",
        [f"d = {able[i]:.3g}" for i in order],
    )
    return panel, seed


def report_pictures(runs: Sequence[Run]) -> list[Picture]:
    """Everything a report shows, as separate pictures."""
    groups, quality = grouped(list(runs)), quality_of(list(runs))
    own = quality_axis(groups, quality, quality.own, f"{quality.name}, own models")
    band = RANGE if any(len(group.runs) > 1 for group in groups) else ""
    shown = {quality.name: (quality.own, own), "consensus": ("consensus", CONSENSUS)}
    for name in own_names(groups):
        y = f"mean_{name}"
        shown[f"own-{name}"] = y, quality_axis(groups, LOSS, y, f"{name}, own models")
    made = []
    for column, along in ACROSS.items():
        for what, (y, up) in shown.items():
            panel = curve_panel("", groups, (column, along), (y, up))
            title = f"{capital(up.title)}, against {along.title}"
            if panel is not None:
                made.append(Picture(f"{what}-{column}", title, [panel], band))
    graphs = [graph_panel(used.network, used.title(groups)) for used in networks(groups)]
    made += [Picture("graph", "The graph", graphs)] if graphs else []
    if found := client_panel(groups, quality):
        cells, seed = found
        title = f"{capital(quality.name)} of each client's own model at the end, seed {seed}"
        made.append(Picture("clients", title, [cells]))
    return [*made, *holdings_picture(by_seed(groups))]


def _spread(groups: Sequence[Group], column: str) -> bool:
    found = [one for group in groups if (one := curve(group, "round", column))]
    return spans_decades([float(v) for one in found for v in (one.low.min(), one.high.max())])


def _finite(values: Sequence[float], i: int) -> float:
    return values[i] if i < len(values) and math.isfinite(values[i]) else math.nan


def _line(one: Curve, most: int, paper: Sequence[tuple[float, float]]) -> Line:
    ends = np.linspace(0, len(one.x) - 1, min(most, len(one.x)))
    kept = np.unique(ends.round().astype(int))

    def some(values: NDArray[np.float64]) -> list[float]:
        return [float(value) for value in values[kept]]

    return Line(one.label, some(one.x), some(one.middle), some(one.low), some(one.high), paper)
