"""What a rule keeps and sends, found by a dry run on a tiny network: no data, no model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..codecs import Dense
from ..core import Compressed, Draws, Network, Offer, Placement, Rule, of_first, pull
from ..errors import Caution, ConfigError
from ..experiment import Experiment
from ..graphs import complete, from_edges, hubs
from ..schedules import Explicit
from .flat import Flat
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
    """Batches that a client which computes takes gradients on, in a round."""
    whole: int = 0
    """Gradients on all samples of a client which computes, in a round."""
    idle: int = 0
    """Gradients that a client takes although it does not compute."""
    draws: bool = False
    """Whether the rule draws numbers of its own, so that no round is like another."""


def trace(rule: Rule) -> Trace:
    """Run `init` and two rounds of a rule at two model sizes, with zero gradients.

    A rule does the same on all rows, so the smallest network of the kind it needs tells all of it.
    """
    small, large = (_dry_run(rule, n) for n in _SIZES)
    idle = _dry_run(rule, _SIZES[0], computes=False)
    name = type(rule).__name__
    if small.mixings.keys() != large.mixings.keys() or small.work != large.work:
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
    kept = type(small.state), widths, tuple(mixings)
    return Trace(*kept, *small.work, sum(idle.work), small.draws)


class _Seen(NamedTuple):
    """What a dry run showed."""

    state: Any  # the last one
    mixings: dict[int, tuple[str, list[Offer]]]  # by index within the round
    work: tuple[int, int]  # of a client in a round: batches, gradients on all samples
    draws: bool


def _dry_run(rule: Rule, n: int, computes: bool = True) -> _Seen:
    network, draws = _smallest(rule), Draws(0)
    place = Placement(np.arange(network.rows), network.rows, torch.device("cpu"), torch.float64)
    nodes = np.full((_ROUNDS + 1, network.clients), computes)
    activity = Explicit(nodes=nodes).bind(network, draws)
    port = _TracingPort(place, network, activity, Dense(), Flat(n).bind(place, draws), draws)
    with warnings.catch_warnings(action="ignore", category=Caution):  # the run itself says them
        exp = Experiment(network, Flat(n), of_first(rule), rounds=_ROUNDS, dtype="float64")
    session = Session(exp, port)
    for _ in session:
        pass
    return _Seen(session.state, port.mixings, port.work, port.drew)


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
    """A port that notes a round's mixings by their index, its gradients, and whether it draws."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.mixings: dict[int, tuple[str, list[Offer]]] = {}
        self._round = (-1, 0)  # and how many mixings it had so far
        self._work = (-1, 0, 0)  # and its gradients: on batches, on all samples
        self.drew = False

    def constant(self, per_client: ArrayLike) -> Tensor:
        """The first client's constant for all: this network has fewer clients than the run's."""
        return super().constant(np.ravel(per_client)[0])

    @property
    def work(self) -> tuple[int, int]:
        """The gradients of a client in this round: on batches, and on all of its samples."""
        t, *found = self._work
        return (found[0], found[1]) if t == self.t else (0, 0)

    def grad(self, x: Tensor, v: Tensor | None = None, batch: int | Literal["all"] = 0) -> Tensor:
        """Compute, and note what for."""
        batches, whole = self.work
        some = v is None or bool(v[: self.network.clients].any())
        of_all = batch == "all"
        self._work = (self.t, batches + (some and not of_all), whole + (some and of_all))
        return super().grad(x, v, batch)

    def uniform(self, stream: str, shared: bool = False) -> Tensor:
        """Draw, and note it."""
        self.drew = True
        return super().uniform(stream, shared)

    def mix(self, *offers: Offer | Compressed | Tensor, over: str = "peers") -> Any:
        """Mix, and note what was offered."""
        t, count = self._round
        self._round = (self.t, count + 1 if t == self.t else 0)
        made = [offer if isinstance(offer, Offer) else pull(offer) for offer in offers]
        self.mixings[self._round[1]] = (over, made)
        return super().mix(*offers, over=over)
