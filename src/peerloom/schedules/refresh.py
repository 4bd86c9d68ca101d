"""The schedule of rules that take a large batch now and then."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..arguments import checked
from ..core import ConfigError, Draws, Network, Schedule
from .fixed import FixedActivity
from .rates import ActivityRates, Span, all_together

__all__ = ["Refresh"]


@checked
@dataclass(frozen=True)
class Refresh:
    """All rows compute in rounds 1, q + 1, 2 q + 1, ...; all links fire in every round.

    For rules that read v_i as "takes a large batch in this round" and follow their gradient by
    small ones in the others: ProxGT-SR and PMGT-SVRG, whose paper counts rounds from 0.
    `resources` say what a gradient and a message cost.
    """

    q: int
    resources: Schedule | None = None

    def __post_init__(self) -> None:
        if self.q < 1:
            raise ConfigError(f"Refresh.q must be at least 1 round, found {self.q}.")

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """Rows in every q-th round, links in every one."""
        rows = {flag: np.full(network.clients, flag) for flag in (False, True)}
        every = {name: np.ones(len(links), bool) for name, links in network.layers.items()}
        return FixedActivity(
            network,
            lambda t: rows[max(t - 1, 0) % self.q == 0],
            lambda t, layer: every[layer],
            None if self.resources is None else self.resources.bind(network, draws),
        )

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """Every link in every round, every client in each q-th."""
        nodes = np.full(network.clients, 1 / self.q)
        found = all_together(network, dict.fromkeys(network.layers, 1), nodes)
        return replace(found, fair=self.q == 1)
