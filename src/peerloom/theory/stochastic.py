"""Whether the weights of a network's layers sum to one, by rows and by columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..core import Links
from ..experiment import Experiment

__all__ = ["Stochastic", "stochastic_layers"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Stochastic:
    """What the weights of one layer sum to when every link fires, self-weights included."""

    layer: str
    weights: Literal["receiver", "sender", "neighbours"]
    rows_sum_to_one: bool
    columns_sum_to_one: bool
    symmetric: bool
    least_own: float  # the least weight a client keeps for itself

    @property
    def words(self) -> str:
        """The name of such a matrix."""
        if self.rows_sum_to_one and self.columns_sum_to_one:
            kind = "doubly stochastic"
        else:
            kind = "row stochastic" if self.rows_sum_to_one else "column stochastic"
        return f"symmetric, {kind}" if self.symmetric else kind


def stochastic_layers(exp: Experiment) -> tuple[Stochastic, ...]:
    """The sums of every layer that the rule mixes over, with the weights that it uses there."""
    found = []
    for name in exp.algorithm.needs.layers:
        links = exp.graph.layers[name]
        if exp.algorithm.needs.combines == "average":
            even = bool(np.allclose(np.bincount(links.src, links.inverse_in_degree, links.rows), 1))
            found.append(Stochastic(name, "neighbours", True, even, even and links.symmetric, 0.0))
            continue
        received, even = _sums(links, links.a, links.dst, links.src)
        symmetric, least = links.symmetric, _least_own(received)
        found.append(Stochastic(name, "receiver", True, even, symmetric, least))
        if not np.allclose(links.a, links.b, atol=1e-9) and not exp.graph.hubs:
            sent, even = _sums(links, links.b, links.src, links.dst)
            found.append(Stochastic(name, "sender", even, True, False, _least_own(sent)))
    return tuple(found)


def _sums(
    links: Links, weight: Floats, ends: NDArray[np.int64], others: NDArray[np.int64]
) -> tuple[Floats, bool]:
    """The weights added up at one end of the links, and whether they are as much at the other."""
    here = np.asarray(np.bincount(ends, weight, links.rows), np.float64)
    there = np.bincount(others, weight, links.rows)
    return here, bool(np.allclose(here, there, atol=1e-9))


def _least_own(given_away: Floats) -> float:
    return float((1 - given_away).min(initial=1.0))
