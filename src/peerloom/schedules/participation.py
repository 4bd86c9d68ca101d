"""The schedule of a server that asks some clients in every round."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arguments import checked
from ..core import ConfigError, Draws, Network
from .fixed import FixedActivity
from .rates import ActivityRates, Span

__all__ = ["Participation"]

Bools = NDArray[np.bool_]


@checked
@dataclass(frozen=True)
class Participation:
    """In every round a share of the clients takes part, drawn anew: ceil(share m) of them.

    They compute and send up. The server answers those who take part in the next round, so that a
    client begins with what the server has then, as where it is sent the model at the beginning of
    its round. Every set of clients is as likely as any other of its size. For graphs with hubs;
    between hubs all links fire.
    """

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(
                f"Participation.share must be above 0 and at most 1, found {self.share}."
            )

    def count(self, clients: int) -> int:
        """How many of the clients take part in a round."""
        return max(1, math.ceil(self.share * clients - 1e-9))

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """The clients with the least draws of a round."""
        self._check(network)
        some = self.count(network.clients)

        def nodes(t: int) -> Bools:
            u = draws("participation", t, network.workers)[:, 0]
            chosen = np.zeros(network.clients, bool)
            chosen[np.argsort(u, kind="stable")[:some]] = True
            return chosen

        def links(t: int, layer: str) -> Bools:
            those = network.layers[layer]
            if layer == "across":
                return np.ones(len(those), bool)
            return nodes(t)[those.src] if layer == "up" else nodes(t + 1)[those.dst]

        return FixedActivity(network, nodes, links)

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """Every client as often as any other."""
        self._check(network)
        often = self.count(network.clients) / network.clients
        return ActivityRates(
            coins=None,
            period=dict.fromkeys(network.layers, 1),
            links={
                name: np.full(len(links), 1.0 if name == "across" else often)
                for name, links in network.layers.items()
            },
            nodes=np.full(network.clients, often),
            fair=False,
        )

    def _check(self, network: Network) -> None:
        if not network.hubs:
            raise ConfigError(
                f"Participation is for graphs with a server, but '{network.name}' has none. Use "
                "graphs.hubs, or Bernoulli."
            )
