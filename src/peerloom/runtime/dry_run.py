"""What a rule keeps and sends, found by a dry run on a tiny network: no data, no model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..codecs import Dense
from ..core import Compressed, Draws, Evaluation, Network, Offer, Placement, Rule, pull
from ..errors import Caution, ConfigError
from ..experiment import Experiment
from ..graphs import complete, from_edges, hubs
from ..schedules import Always
from .port import RowPort
from .session import Session

__all__ = ["Mixing", "Part", "Trace", "Width", "trace"]

_SIZES = (5, 7)  # of the models in the two dry runs: two points show a line
_ROUNDS = 2


class Width(NamedTuple):
    """A number of columns that depends on the model: `slope * n + fixed`."""

    slope: int
    fixed: int

    def at(self, n: int) -> int:
        """The width for a model of n coordinates."""
        return self.slope * n + self.fixed


class Part(NamedTuple):
    """One offer of a mixing: how wide its rows are, and how they travel."""

    width: Width
    pushed: bool
    """Whether it is mass, which leaves its sender."""
    compressed: bool
    """Whether it comes from `compress`: encoded once for all receivers."""
    silent: bool = False
    """Whether rows may send nothing of it."""


class Mixing(NamedTuple):
    """One `mix` of a round: the layer of links it goes over, and what every message carries."""

    layer: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Trace:
    """What a rule keeps and does in every round, whatever the model and the network."""

    state: type[Any]
    """The named tuple of the rule's state."""
    widths: dict[str, Width]
    """Of the fields of the state."""
    mixings: tuple[Mixing, ...]
    """Of a round, in order."""
    gradients: int
    """Of a client that computes, in a round."""


def trace(rule: Rule) -> Trace:
    """Run `init` and two rounds of a rule at two model sizes, with zero gradients.

    A rule does the same on all rows, so the smallest network of the kind it needs tells all of it.
    """
    small, large = (_dry_run(rule, n) for n in _SIZES)
    name = type(rule).__name__
    if small.mixings.keys() != large.mixings.keys() or small.gradients != large.gradients:
        raise ConfigError(
            f"{name} mixes {len(small.mixings)} times in a round with {_SIZES[0]} coordinates, but "
            f"{len(large.mixings)} times with {_SIZES[1]}. "
            "What a rule does must not depend on the model's size."
        )
    mixings = (_mixing(name, small.mixings[k], large.mixings[k]) for k in sorted(small.mixings))
    widths = {
        field: _width(
            name, getattr(small.state, field).shape[1], getattr(large.state, field).shape[1]
        )
        for field in small.state._fields
    }
    return Trace(type(small.state), widths, tuple(mixings), small.gradients)


class _Seen(NamedTuple):
    """What a dry run showed."""

    state: Any  # the last one
    mixings: dict[int, tuple[str, list[Offer]]]  # by index within the round
    gradients: int  # of a client in a round


def _dry_run(rule: Rule, n: int) -> _Seen:
    network, draws = _smallest(rule), Draws(0)
    place = Placement(np.arange(network.rows), network.rows, torch.device("cpu"), torch.float64)
    port = _TracingPort(place, network, Always().bind(network, draws), Dense(), _Flat(n), draws)
    with warnings.catch_warnings(action="ignore", category=Caution):  # the run itself says them
        exp = Experiment(network, _Flat(n), rule, rounds=_ROUNDS, dtype="float64")
    session, gradients = Session(exp, port), list[NDArray[np.int64]]()
    for snapshot in session:
        gradients.append(snapshot.ledger.rows.gradients)
    return _Seen(session.state, port.mixings, int((gradients[-1] - gradients[-2]).max()))


def _smallest(rule: Rule) -> Network:
    if rule.needs.one_hub:
        return hubs(from_edges(1, []), [2])
    return hubs(complete(2), [1, 1]) if "up" in rule.needs.layers else complete(3)


def _mixing(name: str, small: tuple[str, list[Offer]], large: tuple[str, list[Offer]]) -> Mixing:
    parts = tuple(
        Part(
            _width(name, a.value.shape[1], b.value.shape[1]),
            a.counts_sent,
            a.compressed is not None,
            a.part.silent,
        )
        for a, b in zip(small[1], large[1], strict=True)
    )
    return Mixing(small[0], parts)


def _width(name: str, small: int, large: int) -> Width:
    slope, rest = divmod(large - small, _SIZES[1] - _SIZES[0])
    if rest:
        raise ConfigError(
            f"{name} has rows of {small} numbers with {_SIZES[0]} coordinates, "
            f"but of {large} with {_SIZES[1]}. Rows must have a n + b numbers, with whole a and b."
        )
    return Width(slope, small - slope * _SIZES[0])


class _TracingPort(RowPort):
    """A port that notes every mixing by its index within the round."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.mixings: dict[int, tuple[str, list[Offer]]] = {}
        self._round = (-1, 0)  # and how many mixings it had so far

    def constant(self, per_client: ArrayLike) -> Tensor:
        """The first client's constant for all: this network has fewer clients than the run's."""
        return super().constant(np.ravel(per_client)[0])

    def mix(self, *offers: Offer | Compressed | Tensor, over: str = "peers") -> Any:
        """Mix, and note what was offered."""
        t, count = self._round
        self._round = (self.t, count + 1 if t == self.t else 0)
        made = [offer if isinstance(offer, Offer) else pull(offer) for offer in offers]
        self.mixings[self._round[1]] = (over, made)
        return super().mix(*offers, over=over)


class _Flat:
    """A problem without a slope or data, all of it in one place."""

    def __init__(self, n: int) -> None:
        self.n = n

    def start(self, seed: int) -> Tensor:
        """Zero."""
        return torch.zeros(self.n, dtype=torch.float64)

    def bind(self, place: Placement, draws: Draws) -> _Flat:
        """Itself."""
        return self

    def grad(self, x: Tensor, on: NDArray[np.int64], t: int, batch: int = 0) -> Tensor:
        """Zero."""
        return torch.zeros_like(x[torch.from_numpy(on)])

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The point itself."""
        return z

    def evaluate(self, x: Tensor) -> Evaluation:
        """Nothing to judge."""
        return Evaluation(np.zeros(len(x)), None)
