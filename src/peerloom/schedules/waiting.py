"""Time slots in which workers that are done wait for the slowest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import checked
from ..core import Activity, ConfigError, Draws, Network
from .bernoulli import Bernoulli
from .distributions import Distribution
from .fixed import FixedActivity

__all__ = ["Waiting"]

Bools = NDArray[np.bool_]


@checked
@dataclass(frozen=True, eq=False)
class Waiting:
    """Time slots in which hubs wait for their slowest worker (MLL-SGD, figure 6).

    In each slot worker i finishes a gradient with probability p_i. A worker that has finished `tau`
    gradients waits. When all workers of a hub have, the hub averages them in the same slot, and
    they begin anew; before every q-th average a hub waits for all others, and then they average
    among each other too. So Local SGD and HL-SGD take as many slots as their slowest worker needs,
    where MLL-SGD under `HubRounds` goes on.

    `nodes` are the p_i, as in `HubRounds`; equal coins fall in both, so that the two can be
    compared slot by slot.
    """

    tau: int
    q: int = 1
    nodes: float | ArrayLike | Distribution = 1.0

    def __post_init__(self) -> None:
        if self.tau < 1 or self.q < 1:
            raise ConfigError(f"Waiting needs tau >= 1 and q >= 1; found {self.tau} and {self.q}.")
        Bernoulli(nodes=self.nodes)  # says what is wrong with them

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """The coins say who could finish; the rest follows from the slots before."""
        if set(network.layers) != {"up", "across", "down"}:
            raise ConfigError(
                f"Waiting is for graphs with hubs, "
                f"but '{network.name}' has {', '.join(network.layers)}."
            )
        coins = Bernoulli(nodes=self.nodes).bind(network, draws)
        story = _Story(network, coins, self.tau, self.q)

        def fires(t: int, layer: str) -> Bools:
            # Hubs that average hear their workers and answer them.
            links, (_, hubs, top) = network.layers[layer], story.at(t)
            if layer == "across":
                return np.full(len(links), top)
            return hubs[(links.dst if layer == "up" else links.src) - network.clients]

        return FixedActivity(network, lambda t: story.at(t)[0], fires, coins)


class _Story:
    """What happened in every slot so far, extended on demand: a pure function of the coins."""

    def __init__(self, network: Network, coins: Activity, tau: int, q: int) -> None:
        self._coins, self._tau, self._q = coins, tau, q
        up = network.layers["up"]
        self._hub = np.empty(network.clients, np.int64)  # of each worker
        self._hub[up.src] = up.dst - network.clients
        self._hubs = network.hubs
        self._done = np.zeros(network.clients, np.int64)  # gradients of the current period
        self._averages = np.zeros(network.hubs, np.int64)  # of the current top period
        nobody, none = np.zeros(network.clients, bool), np.zeros(network.hubs, bool)
        self._slots: list[tuple[Bools, Bools, bool]] = [(nobody, none, False)]

    def at(self, t: int) -> tuple[Bools, Bools, bool]:
        """In slot t: who computes, which hubs average workers, whether hubs average among them."""
        while len(self._slots) <= t:
            self._slots.append(self._next(len(self._slots)))
        return self._slots[t]

    def _next(self, t: int) -> tuple[Bools, Bools, bool]:
        computes = self._coins.nodes(t) & (self._done < self._tau)
        self._done += computes
        waiting = np.bincount(self._hub, self._done < self._tau, minlength=self._hubs) > 0
        last = self._averages == self._q - 1  # this average would be the last before the top
        top = bool((last & ~waiting).all())
        averages = ~waiting & (~last | top)
        self._averages[averages] += 1
        self._done[averages[self._hub]] = 0
        if top:
            self._averages[:] = 0
        return computes, averages, top
