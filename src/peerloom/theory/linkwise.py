"""Mixing by the links' weights alone: numbers at rows, over links as a schedule lets them fire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..core import Draws, Links
from ..experiment import Experiment

__all__ = ["Linkwise"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Linkwise:
    """A round's mixing of whole rows, by the offer that a rule says it combines models by.

    Once over each layer of links. Several draws of the links are as many copies of the network,
    one after the other.
    """

    def __init__(self, exp: Experiment, seeds: Sequence[int]) -> None:
        names = exp.algorithm.needs.layers
        self._combines = exp.algorithm.needs.combines
        self._activities = [exp.active_schedule.bind(exp.graph, Draws(seed)) for seed in seeds]
        self._layers = {name: _Layer(exp.graph.layers[name], len(seeds)) for name in names}

    def __call__(self, t: int, x: Floats) -> Floats:
        """Mix x [copies * rows, columns] once over every layer, as links fire in round t."""
        for name, layer in self._layers.items():
            live = np.concatenate([activity.links(t, name) for activity in self._activities])
            x = layer.mixed(live, x, self._combines)
        return x


class _Layer:
    """Copies of a layer as a matrix that adds up at receivers what was gathered at senders."""

    def __init__(self, links: Links, copies: int) -> None:
        first = np.repeat(np.arange(copies) * links.rows, len(links))
        self._src, self._a = np.tile(links.src, copies) + first, np.tile(links.a, copies)
        ends = (np.tile(links.dst, copies) + first, np.arange(len(first)))
        shape = (copies * links.rows, len(first))
        self._into: Any = sp.csr_array((np.ones(len(first)), ends), shape=shape)

    def mixed(self, live: Bools, x: Floats, combines: str) -> Floats:
        """Mix x over the links that are live."""
        weight = (live * (self._a if combines == "pull" else 1.0))[:, None]
        mass, total = (np.asarray(self._into @ some) for some in (weight, weight * x[self._src]))
        if combines == "pull":
            return np.asarray(total + (1 - mass) * x)
        if combines == "equal_average":
            return np.asarray((total + x) / (1 + mass))
        return np.asarray(np.where(mass > 0, total / np.maximum(mass, 1), x))
