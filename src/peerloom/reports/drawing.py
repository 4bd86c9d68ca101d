"""The graph as plotly draws it: links by how often they work, clients by how often they compute."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..runs import Run
from .figures import SCALE, Figure
from .groups import Group, seed_of

__all__ = ["Drawn", "network_figure", "networks"]

Floats = NDArray[np.float64]

_SHADES = 12  # links are drawn in so many groups of like probability, not one by one
_MOST_ARROWS = 600


@dataclass(frozen=True)
class Drawn:
    """One network, and the runs that lived on it."""

    network: dict[str, Any]
    seeds: tuple[str, ...]
    labels: tuple[str, ...]


def networks(groups: Sequence[Group]) -> list[Drawn]:
    """The different networks of some runs, in the order of the runs."""
    found: dict[str, list[tuple[Run, str]]] = {}
    for group in groups:
        for run in group.runs:
            if run.network.get("rows"):
                found.setdefault(json.dumps(run.network, sort_keys=True), []).append((run, group.label))
    return [
        Drawn(
            members[0][0].network,
            tuple(dict.fromkeys(seed_of(run) for run, _ in members)),
            tuple(dict.fromkeys(label for _, label in members)),
        )
        for members in found.values()
    ]


def network_figure(network: dict[str, Any]) -> Figure:
    """Links below, clients above, numbers on hovering."""
    where = _positions(network)
    directed = bool(network.get("directed"))
    links = [link for name in network["layers"] for link in _links(network, name, directed)]
    data = [*_lines(links, where, directed), _middles(links, where, directed), _clients(network, where)]
    if directed and len(links) <= _MOST_ARROWS:
        data.insert(-1, _arrows(links, where))
    low, high = where.min(axis=0), where.max(axis=0)
    pad = 0.08 * max(*(high - low), 1e-9)
    hidden = {"visible": False, "fixedrange": True}
    return {
        "data": data,
        "layout": {
            "showlegend": False,
            "hovermode": "closest",
            "margin": {"l": 4, "r": 4, "t": 4, "b": 4},
            "xaxis": hidden | {"range": [float(low[0] - pad), float(high[0] + pad)]},
            "yaxis": hidden | {"range": [float(low[1] - pad), float(high[1] + pad)], "scaleanchor": "x"},
        },
    }


def _positions(network: dict[str, Any]) -> Floats:
    """As stored; else on a circle, the first on top."""
    rows = int(network["rows"])
    if network.get("positions") is not None:
        return np.asarray(network["positions"], np.float64)
    angle = np.pi / 2 - 2 * np.pi * np.arange(rows) / rows
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _links(network: dict[str, Any], name: str, directed: bool) -> list[tuple[int, int, float, str]]:
    """Source, target, probability and what to say; an undirected link once."""
    layer = network["layers"][name]
    of = "" if len(network["layers"]) == 1 else f", layer {name}"
    pairs = set(zip(layer["source"], layer["target"], strict=True))
    found = []
    for j, i, b, a in zip(layer["source"], layer["target"], layer["probability"], layer["weight"], strict=True):
        if directed or j < i or (i, j) not in pairs:
            ends = f"{j} to {i}" if directed else f"{j} and {i}"
            found.append((j, i, float(b), f"link {ends}{of}<br>works with probability b = {b:.3g}<br>weight {a:.3g}"))
    return found


def _ends(link: tuple[int, int, float, str], where: Floats, directed: bool) -> tuple[Floats, Floats]:
    """Where a link is drawn; the two directions of a pair lie side by side."""
    start, end = where[link[0]], where[link[1]]
    if not directed:
        return start, end
    along = end - start
    aside = 0.012 * np.ptp(where) * np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-12)
    return start + aside, end + aside


def _lines(links: Sequence[tuple[int, int, float, str]], where: Floats, directed: bool) -> list[Figure]:
    """One trace for all links of like probability: the surer, the thicker."""
    shades: dict[int, list[tuple[int, int, float, str]]] = {}
    for link in links:
        shades.setdefault(min(int(link[2] * _SHADES), _SHADES - 1), []).append(link)
    thin = min(1.0, max(0.35, 80 / max(len(links), 1)))  # many links would fill the picture
    traces = []
    for shade, members in sorted(shades.items()):
        middle = (shade + 0.5) / _SHADES
        x: list[float | None] = []
        y: list[float | None] = []
        for link in members:
            start, end = _ends(link, where, directed)
            x += [float(start[0]), float(end[0]), None]
            y += [float(start[1]), float(end[1]), None]
        line = {"color": _shade(middle), "width": (1.0 + 5.0 * middle) * thin}
        traces.append({"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip"})
    return traces


def _middles(links: Sequence[tuple[int, int, float, str]], where: Floats, directed: bool) -> Figure:
    """Invisible points halfway, to hover over."""
    halfway = [np.mean(_ends(link, where, directed), axis=0) for link in links]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [float(point[0]) for point in halfway],
        "y": [float(point[1]) for point in halfway],
        "marker": {"size": 18, "opacity": 0, "color": [_shade(link[2]) for link in links]},
        "hovertext": [link[3] for link in links],
        "hoverinfo": "text",
    }


def _arrows(links: Sequence[tuple[int, int, float, str]], where: Floats) -> Figure:
    """A head on each directed link, two thirds along."""
    points, angles = [], []
    for link in links:
        start, end = _ends(link, where, True)
        points.append(start + (end - start) * 0.66)
        angles.append(math.degrees(math.atan2(*(end - start))))  # plotly counts clockwise from above
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [float(point[0]) for point in points],
        "y": [float(point[1]) for point in points],
        "marker": {
            "symbol": "arrow",
            "size": [10 + 8 * link[2] for link in links],
            "angle": angles,
            "color": [_shade(link[2]) for link in links],
        },
        "hoverinfo": "skip",
    }


def _clients(network: dict[str, Any], where: Floats) -> Figure:
    able = [float(d) for d in network["node_probability"]]
    few = len(able) <= 40
    return {
        "type": "scatter",
        "mode": "markers+text" if few else "markers",
        "x": where[:, 0].tolist(),
        "y": where[:, 1].tolist(),
        "text": [str(i) for i in range(len(able))],
        "textfont": {"color": ["#fff" if d > 0.75 else "#1c2126" for d in able], "size": 12},
        "marker": {"size": 24 if few else 12, "color": [_shade(d) for d in able], "line": {"width": 2, "color": "#fff"}},
        "hovertext": [f"client {i}<br>computes with probability d = {d:.3g}" for i, d in enumerate(able)],
        "hoverinfo": "text",
    }


def _shade(share: float) -> str:
    """The colour of a probability."""
    stops = [at for at, _ in SCALE]
    channels = [[int(colour[k : k + 2], 16) for _, colour in SCALE] for k in (1, 3, 5)]
    red, green, blue = (round(float(np.interp(share, stops, channel))) for channel in channels)
    return f"rgb({red},{green},{blue})"
