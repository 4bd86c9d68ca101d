"""What a round costs on average: gradients, messages, bytes and delay, before anything is run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Draws, Evaluation, Ledger, Net, Network, Placement
from ..experiment import Experiment
from ..graphs import complete, from_edges, hubs
from ..schedules import Always
from .activity_rates import ActivityRates

__all__ = ["Costs", "costs"]


@dataclass(frozen=True)
class Costs:
    """Averages over rounds, all clients together; delays as run."""

    gradients: float
    messages: float
    bytes: float
    processing_delay: float
    transmission_delay: float

    @property
    def delay(self) -> float:
        """Both."""
        return self.processing_delay + self.transmission_delay


def costs(exp: Experiment, rates: ActivityRates) -> Costs:
    """How often links fire and clients compute, times what each costs, which a dry round tells."""
    per_link, bits, per_client = _dry_round(exp)
    draws, network = Draws(exp.seed), exp.graph
    resources = exp.able.bind(network, draws)
    transmission = sum(
        float(
            (rates.links[name] * per_link[name] / resources.link_probability(1, name)) @ links.share
        )
        / links.rows
        for name, links in network.layers.items()
    )
    return Costs(
        gradients=float(rates.nodes.sum()) * per_client,
        messages=sum(float(rates.links[name].sum()) * per_link[name] for name in network.layers),
        bytes=sum(float(rates.links[name].sum()) * bits[name] for name in network.layers) / 8,
        processing_delay=float((rates.nodes / resources.node_probability(1)).mean()) * per_client,
        transmission_delay=transmission,
    )


@torch.no_grad()
def _dry_round(exp: Experiment) -> tuple[dict[str, float], dict[str, float], float]:
    """Messages and bits per link and layer, and gradients per client, of one full round.

    A rule does the same on all rows, so the smallest network of the kind tells what it sends;
    gradients are zero.
    """
    small = _smallest(exp.graph)
    rows = np.arange(small.rows)
    place = Placement(rows, small.rows, torch.device("cpu"), exp.torch_dtype)
    draws = Draws(exp.seed)
    net = Net(place, small, Always().bind(small, draws), exp.message, _Nothing(), draws)
    rule: Any = exp.algorithm
    if isinstance(getattr(rule, "lr", None), tuple):
        rule = replace(rule, lr=rule.lr[0])
    x = torch.zeros(small.rows, exp.problem.n, dtype=exp.torch_dtype)
    state = rule.init(x, net)
    before = Ledger(small)
    for t in (1, 2):
        net.t, before = t, net.ledger.copy()
        state = rule.step(state, net)
    after = net.ledger
    links = {
        name: float((account.messages - before.layers[name].messages).max(initial=0))
        for name, account in after.layers.items()
    }
    bits = {
        name: float((account.bits - before.layers[name].bits).max(initial=0))
        for name, account in after.layers.items()
    }
    return links, bits, float((after.rows.gradients - before.rows.gradients).max())


def _smallest(network: Network) -> Network:
    if not network.hubs:
        return complete(3)
    return hubs(from_edges(1, []) if network.hubs == 1 else complete(2), [1] * min(network.hubs, 2))


class _Nothing:
    """A problem without a slope."""

    def grad(self, x: Tensor, on: NDArray[np.int64], t: int, batch: int = 0) -> Tensor:
        """Zero."""
        return torch.zeros_like(x[torch.from_numpy(on)])

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The point itself."""
        return z

    def evaluate(self, x: Tensor) -> Evaluation:
        """Nothing to judge."""
        return Evaluation(np.zeros(len(x)), None)
