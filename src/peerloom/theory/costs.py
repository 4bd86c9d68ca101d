"""What a round costs on average: gradients, messages, bytes and delay, before anything is run."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Draws
from ..experiment import Experiment
from ..runtime import Mixing, trace
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
    """How often links fire and clients compute, times what one of them costs this rule.

    For rules that stay silent while they hardly move (SQuARM) this is the most a round can cost.
    """
    found, draws, network = trace(exp.algorithm), Draws(exp.seed), exp.graph
    resources = exp.able.bind(network, draws)
    sent = {
        name: [mixing for mixing in found.mixings if mixing.layer == name]
        for name in network.layers
    }
    bits = {name: sum(_bits(exp, mixing) for mixing in mixings) for name, mixings in sent.items()}
    transmission = sum(
        float(
            (rates.links[name] * len(sent[name]) / resources.link_probability(1, name))
            @ links.share
        )
        / links.rows
        for name, links in network.layers.items()
    )
    return Costs(
        gradients=float(rates.nodes.sum()) * found.gradients,
        messages=sum(float(rates.links[name].sum()) * len(sent[name]) for name in network.layers),
        bytes=sum(float(rates.links[name].sum()) * bits[name] for name in network.layers) / 8,
        processing_delay=float((rates.nodes / resources.node_probability(1)).mean())
        * found.gradients,
        transmission_delay=transmission,
    )


def _bits(exp: Experiment, mixing: Mixing) -> int:
    """What one message of a mixing holds; the least, where its size depends on the numbers."""
    return sum(
        exp.message.bits(part.width.at(exp.problem.n), exp.torch_dtype) for part in mixing.parts
    )
