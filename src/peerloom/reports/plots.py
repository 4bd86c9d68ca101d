"""From runs to pictures: curves with their bands, and all that a report shows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..runs import Run
from .curves import Curve, curve, onset, wants_log
from .groups import LOSS, Group, grouped, quality_of
from .holdings import by_seed, holdings_picture
from .picture import Line, Lines, Picture
from .scales import Along, spans_decades
from .wording import capital

__all__ = ["RANGE", "curve_panel", "report_pictures", "with_common_reach"]

RANGE = "band: least to largest over seeds, as far as all came"

_POINTS = 2500  # of all lines of a picture together: what keeps it below 100 kB
_FEWEST = 40  # of one line

# The axes of a report's curves, and the columns they are of.
_ACROSS = {"delay": Along("delay, as run"), "bytes": Along("bytes sent, all links", unit="B"), "round": Along("rounds")}


def curve_panel(
    title: str,
    groups: Sequence[Group],
    across: tuple[str, Along],
    up: tuple[str, Along],
    paper: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    beside: int = 1,
    log: bool | None = None,
) -> Lines | None:
    """A line for every group, of one column over another; nothing where no run has both.

    `paper` has printed points by label, `beside` is how many panels the picture has, which share its points. The horizontal
    axis is logarithmic where a linear one would hide the climb, unless `log` says; the vertical one where it says so.
    """
    (x, along), (y, upwards) = across, up
    found = [one for group in groups if (one := curve(group, x, y, positive=upwards.log))]
    if not found:
        return None
    most = max(_FEWEST, _POINTS // (beside * len(found)))
    lines = [_line(one, most, (paper or {}).get(one.label, ())) for one in found]
    log = wants_log(found) if log is None else log
    return Lines(title, lines, replace(along, log=log), upwards, onset(found) if log else 0.0)


def with_common_reach(panels: Sequence[Lines]) -> list[Lines]:
    """Panels that can be compared: all vertical axes alike."""
    values = [value for panel in panels for _, value in panel.shown() if np.isfinite(value)]
    values = [value for value in values if value > 0 or not panels[0].up.log]
    return [replace(panel, reach=(min(values), max(values))) for panel in panels] if values else list(panels)


def report_pictures(runs: Sequence[Run]) -> list[Picture]:
    """What a report shows, as static pictures: quality and consensus along every axis, and how samples were dealt."""
    groups, quality = grouped(list(runs)), quality_of(list(runs))
    own = Along(f"{quality.name}, own models", unit="%" if quality.higher else "")
    own = replace(own, log=quality is LOSS and _spread(groups, quality.own))
    made = []
    for column, along in _ACROSS.items():
        for y, up in ((quality.own, own), ("consensus", Along("consensus error", log=True))):
            panel = curve_panel("", groups, (column, along), (y, up))
            what = quality.name if y == quality.own else "consensus"
            if panel is not None:
                made.append(
                    Picture(f"{what}-{column}", f"{capital(up.title)}, against {along.title}", [panel], _band(groups))
                )
    return [*made, *holdings_picture(by_seed(groups))]


def _band(groups: Sequence[Group]) -> str:
    return RANGE if any(len(group.runs) > 1 for group in groups) else ""


def _spread(groups: Sequence[Group], name: str) -> bool:
    found = [one for group in groups if (one := curve(group, "round", name))]
    return spans_decades([float(value) for one in found for value in (one.low.min(), one.high.max())])


def _line(one: Curve, most: int, paper: Sequence[tuple[float, float]]) -> Line:
    kept = np.unique(np.linspace(0, len(one.x) - 1, min(most, len(one.x))).round().astype(int))

    def some(values: NDArray[np.float64]) -> list[float]:
        return [float(value) for value in values[kept]]

    return Line(one.label, some(one.x), some(one.middle), some(one.low), some(one.high), paper)
