"""The charts as plotly describes them: plain dictionaries. Colours of the page itself are put in by its script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from ..runs import Run
from .curves import Curve
from .groups import Group, Quality, seed_of

__all__ = ["AXES", "SCALE", "Axis", "Figure", "client_figure", "colours", "curves_figure", "inks_of", "plain_text"]

Figure = dict[str, Any]

# Okabe and Ito's colours, told apart by every eye; black and yellow are left out since each vanishes in one of the themes.
_PALETTE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C8C8C")
_DASHES = ("solid", "dash", "dot", "dashdot")
# From little to much; all three have middling lightness, so that they show on white and on black.
SCALE = ((0.0, "#E69F00"), (0.5, "#8F959C"), (1.0, "#0072B2"))
_CELL_TEXT = 20  # clients beyond which numbers in cells cannot be read


@dataclass(frozen=True)
class Axis:
    """What is drawn along an axis."""

    column: str
    title: str
    hover: str  # how plotly writes a value
    style: Mapping[str, Any]


AXES = {
    "delay": Axis("delay", "delay, as run", ",.4~g", {}),
    "bytes": Axis("bytes", "bytes sent, all links", ".3~s", {"exponentformat": "SI", "ticksuffix": "B"}),
    "rounds": Axis("round", "rounds", ",d", {}),
}


def colours(groups: Sequence[Group]) -> dict[str, tuple[str, str]]:
    """A colour and a dash for every label, the same in all charts."""
    return inks_of([group.label for group in groups])


def inks_of(labels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a dash for each of these, in their order."""
    size = len(_PALETTE)
    return {label: (_PALETTE[k % size], _DASHES[k // size % len(_DASHES)]) for k, label in enumerate(labels)}


def plain_text(text: str) -> str:
    """Text that plotly shows as it is: it reads tags and entities."""
    return escape(text, quote=False)


def curves_figure(
    curves: Sequence[Curve],
    inks: Mapping[str, tuple[str, str]],
    axis: Axis,
    title: str,
    *,
    percent: bool = False,
    log_y: bool = False,
) -> Figure:
    """A band and a line for every algorithm; the first one is drawn last and thickest."""
    scale, suffix = (100.0, " %") if percent else (1.0, "")
    first = next(iter(inks), "")
    data: list[Figure] = []
    for one in reversed(curves):
        ink, dash = inks[one.label]
        name, middle, low, high = plain_text(one.label), one.middle * scale, one.low * scale, one.high * scale
        if one.seeds > 1 and len(one.x) > 1:
            data.append(_band(one, low, high, ink))
        data.append(
            {
                "type": "scatter",
                "mode": "lines" if len(one.x) > 3 else "lines+markers",
                "name": name,
                "meta": one.label,
                "x": _list(one.x),
                "y": _list(middle),
                "customdata": [list(pair) for pair in zip(_list(low), _list(high), strict=True)],
                "line": {"color": ink, "dash": dash, "width": 3.5 if one.label == first else 2},
                "marker": {"size": 5},
                "hovertemplate": _hover(axis, one.seeds, suffix, log_y),
            }
        )
    up: Figure = {"title": {"text": title}, "ticksuffix": suffix.strip(), "automargin": True}
    up |= {"type": "log", "exponentformat": "power"} if log_y else {"rangemode": "tozero" if percent else "normal"}
    across: Figure = {"title": {"text": axis.title}, **axis.style}
    margin = {"l": 56, "r": 14, "t": 14, "b": 46}
    layout = {"showlegend": False, "hovermode": "closest", "xaxis": across, "yaxis": up, "margin": margin}
    return {"data": data, "layout": layout}


def client_figure(groups: Sequence[Group], quality: Quality) -> tuple[Figure, str] | None:
    """Each client's own model at the end, for the seed that most algorithms have, and that seed."""
    seeds = [seed_of(run) for group in groups for run in group.runs if _last_clients(run, quality)]
    if not seeds:
        return None
    seed = max(dict.fromkeys(seeds), key=seeds.count)
    chosen = {group.label: run for group in groups for run in group.runs if seed_of(run) == seed}
    rows = {label: found for label, run in chosen.items() if (found := _last_clients(run, quality))}
    able = chosen[next(iter(rows))].network.get("node_probability", [])
    width = max(len(values) for values in rows.values())
    order = sorted(range(width), key=lambda i: able[i] if i < len(able) else math.inf)
    scale, unit = (100.0, " %") if quality.higher else (1.0, "")
    trace: Figure = {
        "type": "heatmap",
        "x": [f"{i}" for i in order],
        "y": [plain_text(label) for label in rows],
        "z": [[_cell(values, i, scale) for i in order] for values in rows.values()],
        "customdata": [[able[i] if i < len(able) else None for i in order] for _ in rows],
        "colorscale": [list(stop) for stop in SCALE],
        "reversescale": not quality.higher,
        "xgap": 2,
        "ygap": 2,
        "texttemplate": ("%{z:.0f}" if quality.higher else "%{z:.3g}") if width <= _CELL_TEXT else "",
        "hovertemplate": f"client %{{x}} (d = %{{customdata:.3g}})<br>%{{y}}: %{{z:.4~g}}{unit}<extra></extra>",
        "colorbar": {"thickness": 10, "outlinewidth": 0, "ticksuffix": unit.strip(), "len": 1.0},
    }
    across = {"title": {"text": "client, the least able first"}, "type": "category", "showgrid": False}
    up = {"type": "category", "autorange": "reversed", "automargin": True, "showgrid": False}
    layout = {"xaxis": across, "yaxis": up, "margin": {"l": 8, "r": 8, "t": 10, "b": 46}}
    return {"data": [trace], "layout": layout}, seed


def _band(one: Curve, low: Any, high: Any, ink: str) -> Figure:
    """The range over seeds as a closed shape: along the top, then back along the bottom."""
    red, green, blue = (int(ink[k : k + 2], 16) for k in (1, 3, 5))
    return {
        "type": "scatter",
        "mode": "lines",
        "meta": one.label,
        "x": _list(np.concatenate([one.x, one.x[::-1]])),
        "y": _list(np.concatenate([high, low[::-1]])),
        "fill": "toself",
        "fillcolor": f"rgba({red},{green},{blue},0.14)",
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def _hover(axis: Axis, seeds: int, suffix: str, log_y: bool) -> str:
    value = ".3~g" if log_y or not suffix else ".1f"
    span = f"<br>%{{customdata[0]:{value}}} to %{{customdata[1]:{value}}}{suffix} over {seeds} seeds" if seeds > 1 else ""
    return f"%{{y:{value}}}{suffix} at %{{x:{axis.hover}}} {axis.title}{span}"


def _last_clients(run: Run, quality: Quality) -> list[float]:
    """The last entry of a column of lists."""
    if quality.clients not in run.metrics.columns or not len(run.metrics):
        return []
    found = run.metrics[quality.clients][-1]
    return [float(value) for value in found] if np.ndim(found) else []


def _cell(values: list[float], i: int, scale: float) -> float | None:
    return _number(values[i] * scale) if i < len(values) else None


def _list(values: Any) -> list[float | None]:
    return [_number(value) for value in np.asarray(values, np.float64).tolist()]


def _number(value: float) -> float | None:
    """Six digits are more than a screen shows; what is not a number JSON cannot say."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
