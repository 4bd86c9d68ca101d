"""A record of what fired in a run, and the schedule that repeats it."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import checked
from ..core import Activity, ConfigError, DataError, Draws, Network
from .bernoulli import Bernoulli
from .fixed import FixedActivity, recorded_at

__all__ = ["Record", "Replay"]

Bools = NDArray[np.bool_]
Packed = NDArray[np.uint8]


class Record:
    """Who computed and which links carried something, round by round from 0 on.

    Links are in the order of the network, whose ends the record keeps too, so that a replay on
    another graph is refused. `measured`: the resources, where the run had measured them.
    """

    def __init__(self, network: Network, measured: Activity | None = None) -> None:
        self._able: dict[str, NDArray[Any]] = {}
        if measured is not None:
            self._able = {"able/nodes": measured.node_probability(0)}
            self._able |= {
                f"able/links/{name}": measured.link_probability(0, name) for name in network.layers
            }
        self._nodes: list[Packed] = []
        self._links: dict[str, list[Packed]] = {name: [] for name in network.layers}
        self._ends = {
            name: np.stack([links.src, links.dst]) for name, links in network.layers.items()
        }

    @classmethod
    def of(cls, network: Network, activity: Activity, rounds: int) -> Record:
        """Rounds 0 to `rounds` of a run that followed its schedule exactly."""
        record = cls(network)
        for t in range(rounds + 1):
            record.note(
                activity.nodes(t), {name: activity.links(t, name) for name in network.layers}
            )
        return record

    def note(self, nodes: Bools, links: Mapping[str, Bools]) -> None:
        """The next round: who computed, and which links of every layer fired."""
        self._nodes.append(np.packbits(nodes))
        for name, rounds in self._links.items():
            rounds.append(np.packbits(links[name]))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """By name, as a file keeps it: a bit for each row and link."""
        found: dict[str, NDArray[Any]] = {"nodes": np.stack(self._nodes)}
        for name, rounds in self._links.items():
            found |= {f"links/{name}": np.stack(rounds), f"ends/{name}": self._ends[name]}
        return found | self._able


@checked
@dataclass(frozen=True)
class Replay:
    """Repeat what fired in a recorded run.

    `run` is the folder of a run, or its record (fired.npz). `peerloom run FILE --record` makes one.
    The graph must be that of the run. Resources are those that the run measured, or else d = b = 1:
    give the run's own schedule as `resources` where delays are to be compared.
    """

    run: str

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """Look-ups by round."""
        path = Path(self.run)
        if path.is_dir():
            path = path / "fired.npz"
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                tables = {name: file[name] for name in file.files}
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{path} holds no record of a run ({error}). "
                "`peerloom run FILE --record` makes one."
            ) from error
        for name, links in network.layers.items():
            ends = np.stack([links.src, links.dst])
            if f"ends/{name}" not in tables or not np.array_equal(tables[f"ends/{name}"], ends):
                raise ConfigError(
                    f"{path} is the record of a run on another graph than '{network.name}'. "
                    "Use the run's own."
                )
        nodes = recorded_at("Replay.nodes", _opened(tables["nodes"], network.clients))
        links_at = {
            name: recorded_at(
                f"Replay.links of layer {name}", _opened(tables[f"links/{name}"], len(links))
            )
            for name, links in network.layers.items()
        }
        return FixedActivity(
            network, nodes, lambda t, layer: links_at[layer](t), _able(tables, network, draws)
        )


def _able(tables: dict[str, NDArray[Any]], network: Network, draws: Draws) -> Activity | None:
    """What the run had measured, if it had."""
    if "able/nodes" not in tables:
        return None
    links = np.zeros((network.rows, network.rows))
    for name, layer in network.layers.items():
        links[layer.dst, layer.src] = tables[f"able/links/{name}"]
    return Bernoulli(nodes=tables["able/nodes"], links=links).bind(network, draws)


def _opened(packed: Packed, count: int) -> Bools:
    return np.unpackbits(packed, axis=1, count=count).astype(bool)
