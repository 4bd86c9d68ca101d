"""The networks of some runs, as graphs to draw."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..runs import Run
from .groups import Group, seed_of
from .picture import Graph, Link
from .wording import capital, listed, plural

__all__ = ["Used", "graph_panel", "link_count", "networks"]


@dataclass(frozen=True)
class Used:
    """One network, with the seeds and the labels of the runs that used it."""

    network: dict[str, Any]
    seeds: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def seed_text(self) -> str:
        """The seeds in words: seeds 1 and 2."""
        return f"seed{'s' if len(self.seeds) > 1 else ''} {listed(self.seeds)}"

    def title(self, groups: Sequence[Group]) -> str:
        """Name, seeds and links; also the labels, where not all groups used this network."""
        labels = f" ({listed(self.labels)})" if len(self.labels) < len(groups) else ""
        name = str(self.network.get("name", "graph")).replace("_", " ")
        links = plural(link_count(self.network), "link")
        return capital(f"{name}, {self.seed_text}{labels}: {links}")


def networks(groups: Sequence[Group]) -> list[Used]:
    """The different networks of some runs, in the order of the runs."""
    found: dict[str, list[tuple[Run, str]]] = {}
    for group in groups:
        for run in group.runs:
            if run.network.get("rows"):
                key = json.dumps(run.network, sort_keys=True)
                found.setdefault(key, []).append((run, group.label))
    return [
        Used(
            members[0][0].network,
            tuple(dict.fromkeys(seed_of(run) for run, _ in members)),
            tuple(dict.fromkeys(label for _, label in members)),
        )
        for members in found.values()
    ]


def graph_panel(network: dict[str, Any], title: str = "") -> Graph:
    """The panel of a network, with the probabilities of the first round."""
    directed = bool(network.get("directed"))
    return Graph(
        title,
        _positions(network),
        [float(d) for d in network["node_probability"]],
        [link for name in network["layers"] for link in _links(network, name, directed)],
        directed,
    )


def link_count(network: dict[str, Any]) -> int:
    """How many links a network has; the two directions of an undirected one count once."""
    found = 0
    for layer in network["layers"].values():
        pairs = list(zip(layer["source"], layer["target"], strict=True))
        undirected = {tuple(sorted(pair)) for pair in pairs}
        found += len(pairs) if network.get("directed") else len(undirected)
    return found


def _positions(network: dict[str, Any]) -> list[tuple[float, float]]:
    """Positions as stored; otherwise on a circle, the first one on top."""
    if network.get("positions") is not None:
        return [(float(x), float(y)) for x, y in network["positions"]]
    rows = int(network["rows"])
    angles = [math.pi / 2 - 2 * math.pi * k / rows for k in range(rows)]
    return [(math.cos(angle), math.sin(angle)) for angle in angles]


def _links(network: dict[str, Any], name: str, directed: bool) -> list[Link]:
    """The links of a layer; an undirected one once."""
    layer = network["layers"][name]
    shown = "" if len(network["layers"]) == 1 else name
    pairs = set(zip(layer["source"], layer["target"], strict=True))
    columns = (layer[key] for key in ("source", "target", "probability", "weight"))
    return [
        Link(j, i, float(b), float(a), shown)
        for j, i, b, a in zip(*columns, strict=True)
        if directed or j < i or (i, j) not in pairs
    ]
