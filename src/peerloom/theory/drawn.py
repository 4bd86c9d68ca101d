"""How fast a network agrees as its own links fire: mixing is simulated, without models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..core import Draws, Links, uniform
from ..experiment import Experiment
from .activity_rates import ActivityRates
from .rule_facts import carried_share

__all__ = ["Mixing", "drawn_rate"]

Floats = NDArray[np.float64]


def drawn_rate(exp: Experiment, rates: ActivityRates, rounds: int) -> float:
    """The mean factor per round of the squared disagreement, from models without pattern.

    The second half of the rounds counts, when what shrinks fast is gone. Where messages carry some
    coordinates only, each of several coordinates has its own luck.
    """
    network, period = exp.graph, rates.common_period
    if not exp.rounds:
        return 1.0
    mixing = Mixing(exp)
    x = uniform(exp.seed, "theory/probe", 0, np.arange(network.rows), lanes=mixing.lanes) - 0.5
    first = min(2, exp.rounds)  # the first round may be special: under Every it never talks
    length = min(period * max(1, rounds // period), exp.rounds - first + 1, 4 * rounds)
    logs: list[float] = []
    for t in range(first, first + length):
        before = _apart(x[: network.clients])
        x = mixing(t, x)
        size = _apart(x[: network.clients])
        if size <= 1e-24 * before:  # agreed to the last digit
            break
        logs.append(math.log(size / before))
        x = (x - x[: network.clients].mean(axis=0)) / math.sqrt(size)
    if len(logs) < length and not any(log < -1e-9 for log in logs):
        return 0.0 if network.clients else 1.0
    late = logs[len(logs) // 2 // period * period :]
    return math.exp(sum(late) / len(late))


class Mixing:
    """A round's mixing of plain numbers, several columns at once."""

    def __init__(self, exp: Experiment) -> None:
        share = carried_share(exp)
        self._share = 1.0 if share is None else share
        self._seed, self._combines = exp.seed, exp.algorithm.needs.combines
        self._activity = exp.active_schedule.bind(exp.graph, Draws(exp.seed))
        self._layers = {name: _Layer(exp.graph.layers[name]) for name in exp.algorithm.needs.layers}
        most = max(1, *(len(layer.links) for layer in self._layers.values()))
        self.lanes = 4 if self._share == 1 else max(4, min(64, 1_000_000 // most))

    def __call__(self, t: int, x: Floats) -> Floats:
        """Mix x [rows, columns] once over every layer, as links fire in round t."""
        for name, layer in self._layers.items():
            live = self._activity.links(t, name)[:, None]
            if self._share < 1:
                u = uniform(self._seed, f"theory/coordinate/{name}", t, layer.ids, lanes=self.lanes)
                live = live & (u < self._share)
            x = layer.mixed(live.astype(np.float64), x, self._combines)
        return x


class _Layer:
    """A layer as matrices that gather at senders and add up at receivers."""

    def __init__(self, links: Links) -> None:
        self.links, self.ids = links, np.arange(len(links))
        ends = (links.dst, self.ids)
        shape = (links.rows, len(links))
        self._into: Any = sp.csr_array((np.ones(len(links)), ends), shape=shape)

    def mixed(self, live: Floats, x: Floats, combines: str) -> Floats:
        """Mix x; `live` has one column for all columns of x, or one for each."""
        weight = live * (self.links.a[:, None] if combines == "pull" else 1.0)
        terms = (weight, weight * x[self.links.src])
        mass, total = (np.asarray(self._into @ some) for some in terms)
        if combines == "pull":
            return np.asarray(total + (1 - mass) * x)
        if combines == "equal_average":
            return np.asarray((total + x) / (1 + mass))
        return np.asarray(np.where(mass > 0, total / np.maximum(mass, 1), x))


def _apart(x: Floats) -> float:
    return float(((x - x.mean(axis=0)) ** 2).sum())
