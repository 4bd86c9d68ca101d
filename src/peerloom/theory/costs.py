"""What a round costs on average: gradients, messages, bytes and delay, before anything is run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..core import Draws, Part, envelope_of_rows
from ..core.messages import message_nbytes
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
    nbytes = {
        name: sum(_nbytes(exp, mixing) for mixing in mixings) for name, mixings in sent.items()
    }
    transmission = sum(
        float(
            (rates.links[name] * len(sent[name]) / resources.link_probability(1, name))
            @ links.inverse_in_degree
        )
        / links.rows
        for name, links in network.layers.items()
    )
    return Costs(
        gradients=float(rates.nodes.sum()) * found.gradients,
        messages=sum(float(rates.links[name].sum()) * len(sent[name]) for name in network.layers),
        bytes=sum(float(rates.links[name].sum()) * nbytes[name] for name in network.layers),
        processing_delay=float((rates.nodes / resources.node_probability(1)).mean())
        * found.gradients,
        transmission_delay=transmission,
    )


def _nbytes(exp: Experiment, mixing: Mixing) -> int:
    """Return the bytes of one message of a mixing; of zeros, where they depend on the numbers."""
    codec, one = exp.message, envelope_of_rows(Draws(exp.seed), 1, 1, np.zeros(1, np.int64))
    widths = [part.width.at(exp.problem.n) for part in mixing.parts]
    parts = tuple(
        Part(width, part.pushed, silent=part.silent)
        for width, part in zip(widths, mixing.parts, strict=True)
    )
    rows = [torch.zeros(1, width, dtype=exp.torch_dtype) for width in widths]
    return int(message_nbytes(codec, parts, [int(codec.nbytes(row, one)[0]) for row in rows]))
