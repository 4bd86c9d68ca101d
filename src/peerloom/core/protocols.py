"""The protocols of schedules and problems: what each must offer the port."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .draw import Draws
from .network import Network

__all__ = [
    "Activity",
    "Evaluation",
    "FromCode",
    "LocalProblem",
    "Placement",
    "Problem",
    "Remembers",
    "Schedule",
    "WholeGradients",
]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


class Activity(Protocol):
    """A schedule on a network: pure functions of the round. Round 0 serves a rule's `init`."""

    def nodes(self, t: int) -> Bools:
        """v_i of every row: who computes."""

    def links(self, t: int, layer: str) -> Bools:
        """vhat_ij of every link of a layer: which fire."""

    def node_probability(self, t: int) -> Floats:
        """d_i: how often row i can compute; its reciprocal is what a gradient costs."""

    def link_probability(self, t: int, layer: str) -> Floats:
        """b_ij: how often a link can carry a message; its reciprocal is what a message costs."""


@runtime_checkable
class Schedule(Protocol):
    """Who acts in which round."""

    def bind(self, network: Network, draws: Draws) -> Activity:
        """The schedule on this network, with these draws."""


class Placement(NamedTuple):
    """Which rows live here (in rising order), of how many, on what."""

    rows: Ids
    of: int
    device: torch.device
    dtype: torch.dtype


class Evaluation(NamedTuple):
    """How good models are, one number each; accuracy is None where the problem has none.

    `more` has what the problem measures besides, by name.
    """

    loss: Floats
    accuracy: Floats | None
    more: Mapping[str, Floats] = MappingProxyType({})


class LocalProblem(Protocol):
    """The part of a problem that belongs to the rows that live here."""

    def grad(self, x: Tensor, on: Ids, t: int, batch: int = 0) -> Tensor:
        """The gradients [len(on), n] at x[on] of the rows `on`, which are positions here.

        They are taken on batch number `batch` of round t.
        """

    def prox(self, z: Tensor, step: float) -> Tensor:
        """argmin_x h(x) + |x - z|^2 / (2 step), row by row."""

    def evaluate(self, x: Tensor) -> Evaluation:
        """Judge the models x [any number, n] on the evaluation set. Changes nothing."""


@runtime_checkable
class WholeGradients(Protocol):
    """A local problem that also has gradients on all samples of a row. Optional."""

    @property
    def batches(self) -> Ids:
        """How many batches the samples of each row fill: what a gradient on all of them costs."""

    def whole_gradients(self, x: Tensor, on: Ids) -> Tensor:
        """The gradients [len(on), n] at x[on], on all samples of the rows `on`."""


@runtime_checkable
class Remembers(Protocol):
    """A local problem that keeps more of a row than its state, as a hosted app does. Optional.

    A checkpoint holds it beside the rows, so that a run which goes on does so with it.
    """

    def memory(self) -> Mapping[int, bytes]:
        """What is kept of each row that has something, by the row's number."""

    def restore(self, memory: Mapping[int, bytes]) -> None:
        """Go on with what `memory` gave; rows that are not in it have nothing."""


@runtime_checkable
class Problem(Protocol):
    """What is to be minimised: (1/m) sum_i f_i(x) + h(x).

    A problem whose gradient changes something, so that it must be asked once in a round at the
    most, says `once_a_round = True`, a class variable.
    """

    @property
    def n(self) -> int:
        """The number of coordinates of a model."""

    def start(self, seed: int) -> Tensor:
        """The common first model [n], in float64."""

    def bind(self, place: Placement, draws: Draws) -> LocalProblem:
        """The part of the rows of `place`."""


@runtime_checkable
class FromCode(Protocol):
    """A problem made by functions of the user's own: what a file and other peers know of it."""

    recipe: Mapping[str, Any] | None
    """How a file said it, where a function of the user's own made it."""

    def made_by(self, recipe: Mapping[str, Any]) -> Problem:
        """The same problem, which a file names by this recipe."""

    def agreed(self, seed: int) -> str:
        """A hash of what peers must have alike beside the experiment's file."""
