"""The schedule of two levels of averaging: workers under hubs, hubs among each other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import checked
from ..core import ConfigError, Draws, Network
from .bernoulli import Bernoulli
from .distributions import Distribution
from .fixed import FixedActivity
from .rates import ActivityRates, Span, all_together
from .sampled import SplitActivity

__all__ = ["HubRounds"]


@checked
@dataclass(frozen=True, eq=False)
class HubRounds:
    """MLL-SGD's schedule: hubs average workers every tau rounds, each other every q tau.

    Layers "up" and "down" fire in rounds tau, 2 tau, ..., "across" in rounds q tau, 2 q tau, ...
    `nodes` is how often each worker computes, as in `Bernoulli`: a probability, one per worker, a
    law, or the activity itself.
    """

    tau: int
    q: int = 1
    nodes: float | ArrayLike | Distribution = 1.0

    def __post_init__(self) -> None:
        if self.tau < 1 or self.q < 1:
            raise ConfigError(
                f"HubRounds needs tau >= 1 and q >= 1; found {self.tau} and {self.q}."
            )
        Bernoulli(nodes=self.nodes)  # says what is wrong with them

    def bind(self, network: Network, draws: Draws) -> SplitActivity:
        """Coins for the workers, fixed periods for the layers."""
        if set(network.layers) != {"up", "across", "down"}:
            raise ConfigError(
                f"HubRounds is for graphs with hubs, "
                f"but '{network.name}' has {', '.join(network.layers)}."
            )

        def fires(t: int, layer: str) -> NDArray[np.bool_]:
            return np.full(len(network.layers[layer]), t > 0 and t % self._period(layer) == 0)

        coins = Bernoulli(nodes=self.nodes).bind(network, draws)
        return SplitActivity(coins, FixedActivity(network, coins.nodes, fires))

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """The layers by their periods, the workers by their coins."""
        workers = Bernoulli(nodes=self.nodes).rates(network, draws, span)
        periods = {name: self._period(name) for name in network.layers}
        return replace(all_together(network, periods, workers.nodes), fair=workers.fair)

    def _period(self, layer: str) -> int:
        return self.tau * (self.q if layer == "across" else 1)
