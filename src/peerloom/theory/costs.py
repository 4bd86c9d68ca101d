"""The cost of an average round before anything is run: gradients, messages, bytes, delay."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from ..core import (
    Codec,
    Draws,
    Part,
    Placement,
    WholeGradients,
    envelope_of_rows,
    own_settings,
    words,
)
from ..core.messages import message_nbytes
from ..core.wire import Lengths
from ..experiment import Experiment
from ..runtime import Mixing, Trace, trace
from .activity_rates import ActivityRates

__all__ = ["Costs", "costs"]

_NUMBERS = 1 << 14  # drawn at least, to take a mean of lengths over


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
        """Processing and transmission together."""
        return self.processing_delay + self.transmission_delay


def costs(exp: Experiment, rates: ActivityRates) -> Costs:
    """How often links fire and clients compute, times what one of them costs this rule.

    Where the length of a message depends on its numbers, it is the mean over rows of standard
    normal numbers: close for `Quantised` in a few bits, too high for many bits where rows are
    sparse or heavy-tailed, and no more than a guess for `ANQ`, which compares numbers with its
    `eta`. For rules that stay silent while they hardly move (SQuARM) this is the most a round can
    cost.
    """
    found, draws, network = trace(exp.algorithm), Draws(exp.seed), exp.graph
    resources, batches = exp.able.bind(network, draws), _batches(exp, found, rates)
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
        gradients=float(batches.sum()),
        messages=sum(float(rates.links[name].sum()) * len(sent[name]) for name in network.layers),
        bytes=sum(
            float(rates.links[name] @ np.broadcast_to(nbytes[name], links.rows)[links.src])
            for name, links in network.layers.items()
        ),
        processing_delay=float((batches / resources.node_probability(1)).mean()),
        transmission_delay=transmission,
    )


def _batches(exp: Experiment, found: Trace, rates: ActivityRates) -> NDArray[np.float64]:
    """On how many batches every client takes gradients in an average round."""
    computing = np.full(exp.graph.clients, float(found.gradients))
    if found.whole:
        clients = exp.graph.clients
        place = Placement(np.arange(clients), clients, torch.device("cpu"), exp.torch_dtype)
        problem = exp.problem.bind(place, Draws(exp.seed))
        if isinstance(problem, WholeGradients):  # else the run will refuse it
            computing += found.whole * problem.batches
    return np.asarray(rates.nodes * computing + (1 - rates.nodes) * found.idle)


def _nbytes(exp: Experiment, mixing: Mixing) -> Lengths:
    """Return the mean bytes of one message of a mixing: one number, or one for each row."""
    parts = tuple(
        Part(part.width.at(exp.problem.n), part.pushed, silent=part.silent) for part in mixing.parts
    )
    if own_settings(exp.message):
        lengths = [_own_nbytes(exp, part.width) for part in parts]
        return message_nbytes(exp.message, parts, lengths)
    means = [_body_nbytes(exp.message, part.width, exp.torch_dtype, exp.seed) for part in parts]
    return message_nbytes(exp.message, parts, means)


def _own_nbytes(exp: Experiment, n: int) -> Lengths:
    """Return the bytes of a body of n numbers of each row, which its own settings tell."""
    rows = torch.zeros(1, 1, dtype=exp.torch_dtype).expand(exp.graph.rows, n)
    every = envelope_of_rows(Draws(exp.seed), 1, 1, np.arange(exp.graph.rows))
    return exp.message.nbytes(rows, every)


def _body_nbytes(codec: Codec, n: int, dtype: torch.dtype, seed: int) -> int:
    """Return the bytes of a body of n numbers: their mean over normal ones, where they vary."""
    if codec.fixed_length:
        return codec.longest(n, dtype)
    ids = np.arange(math.ceil(_NUMBERS / n))
    envelope = envelope_of_rows(Draws(seed), 1, 1, ids)
    return round(float(codec.nbytes(_normal_rows(seed, ids, n, dtype), envelope).mean()))


def _normal_rows(seed: int, ids: NDArray[np.int64], n: int, dtype: torch.dtype) -> Tensor:
    """Rows [ids, n] of standard normal numbers, a pure function of the seed."""
    # A word's upper 52 bits, in the middle of their interval: exact in a double, never 0 or 1.
    u = ((words(seed, "costs/rows", 0, ids, n) >> np.uint64(12)) + 0.5) * 2.0**-52
    return torch.from_numpy(ndtri(u)).to(dtype)
