"""The protocols between the rooms: what a schedule, a message, a problem and a wire must offer the port."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .draw import Draws
from .network import Links, Network

__all__ = [
    "Activity",
    "Cargo",
    "Delivery",
    "Evaluation",
    "Fit",
    "Late",
    "LocalProblem",
    "MeasuredMessage",
    "MemoryWire",
    "Message",
    "Placement",
    "Problem",
    "Schedule",
    "Trip",
    "Wire",
]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


Fit = Literal["whole", "paired", "part", "rounded", "differences"]
"""How rows arrive, and so what a message may carry.

    whole        as they were sent
    paired       some coordinates as they were sent, the same in both directions of a link: symmetric mixing keeps the mean
    part         some coordinates as they were sent
    rounded      all coordinates, nearly as they were sent
    differences  too coarsely for anything but differences from a copy, which make good later what is left out now
"""


class Activity(Protocol):
    """A schedule on a network: pure functions of the round. Round 0 serves an algorithm's `init`."""

    def nodes(self, t: int) -> Bools:
        """v_i of every row: who computes."""

    def links(self, t: int, layer: str) -> Bools:
        """vhat_ij of every link of a layer: which fire."""

    def node_probability(self, t: int) -> Floats:
        """d_i: how often row i is able to compute; its reciprocal is what a gradient costs."""

    def link_probability(self, t: int, layer: str) -> Floats:
        """b_ij: how often a link is able to carry a message; its reciprocal is what a message costs."""


@runtime_checkable
class Schedule(Protocol):
    """Who acts in which round."""

    def bind(self, network: Network, draws: Draws) -> Activity:
        """The schedule on this network, with these draws."""


@dataclass(frozen=True, eq=False)
class Trip:
    """Which messages these are: what both ends know of them without being told, and can therefore draw by."""

    draws: Draws
    t: int  # the round
    turn: int  # which mixing of the round
    link: Ids  # a number for each link, receiver and sender together
    sender: Ids
    pair: Ids | None = None  # a number for each two rows, whichever of them sends
    drawn: dict[object, Any] = field(default_factory=dict)  # what was drawn for these messages: packing and unpacking share


@runtime_checkable
class Message(Protocol):
    """What a link carries of a row."""

    @property
    def fit(self) -> Fit:
        """How rows arrive; where they arrive whole, mixing is a matrix product."""

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Rows [links, n] to what travels [links, width]."""

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """What travelled, as (values, mask): mask is 1 where a value was carried, of shape [links, n] or [links, 1].

        Values are zero where nothing was carried.
        """

    def through(self, values: Tensor, trip: Trip) -> Tensor:
        """What `unpack` makes of what `pack` made of the rows, by the shortest way."""

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """The true size of one packed row of n numbers."""

    def paper_bits(self, n: int) -> int:
        """Its size as the papers count it."""


@runtime_checkable
class MeasuredMessage(Protocol):
    """A message whose size depends on what it carries; its `bits` then is the least it can be."""

    def sizes(self, packed: Tensor) -> NDArray[np.int64]:
        """The true bits of each packed row."""


class Placement(NamedTuple):
    """Which rows live here (in rising order), of how many, on what."""

    rows: Ids
    of: int
    device: torch.device
    dtype: torch.dtype


class Evaluation(NamedTuple):
    """How good models are, one number each; accuracy is None where the problem has none."""

    loss: Floats
    accuracy: Floats | None


class LocalProblem(Protocol):
    """A problem's share of the rows that live here."""

    def grad(self, x: Tensor, on: Ids, t: int, batch: int = 0) -> Tensor:
        """The gradients [len(on), n] of the rows `on` (positions here) at x[on], on the batch-th batch of round t."""

    def prox(self, z: Tensor, step: float) -> Tensor:
        """argmin_x h(x) + |x - z|^2 / (2 step), row by row."""

    def evaluate(self, x: Tensor) -> Evaluation:
        """The models x [any number, n] on the problem's evaluation set. Reads, never changes anything."""


@runtime_checkable
class Problem(Protocol):
    """What is to be minimised: (1/m) sum_i f_i(x) + h(x)."""

    @property
    def n(self) -> int:
        """The number of coordinates of a model."""

    def start(self, seed: int) -> Tensor:
        """The common first model [n], in float64."""

    def bind(self, place: Placement, draws: Draws) -> LocalProblem:
        """The share of the rows of `place`."""


class Late(NamedTuple):
    """A row that was sent for an earlier mixing and has only come now."""

    tag: tuple[int, int]  # (round, mix) it was sent for
    link: int
    row: Tensor
    own: Tensor | None = None  # what its receiver sent the other way then, where what one end gains the other must lose


class Delivery(NamedTuple):
    """What a wire brought.

    Late rows matter to offers that are pushed: their mass left the sender then, and is added now. Beside what the receiver
    sent the other way they matter to pulled ones, too: a (x_j - x_i) of that time, which the sender moved the other way, is
    moved now. To all others a row that was not there in time is a link that did not fire.
    """

    payload: Tensor  # [links in, width], in link order; rows that did not arrive are ignored
    arrived: Bools  # [links in]
    acked: Bools  # [links out]: it was sent, and will arrive sooner or later
    late: tuple[Late, ...] = ()


class Cargo(NamedTuple):
    """One offer's columns of what travels."""

    width: int
    pushed: bool  # whether it is mass, which leaves its sender


class Wire(Protocol):
    """The only thing an engine supplies: deliver rows along links, report what arrived and what was acknowledged."""

    def swap(
        self, tag: tuple[int, int], links: Links, out: Ids, payload: Tensor, into: Ids, cargo: tuple[Cargo, ...]
    ) -> Delivery:
        """Deliver payload[e] along link out[e]; return what came along the links `into`. `tag`: (round, mix).

        `cargo` says what the columns are, for wires that treat mass otherwise than models. The payload is the wire's from
        then on: it may keep the very memory, since nobody changes it any more.
        """


class MemoryWire:
    """Every row is here, so what goes out is what comes in."""

    def swap(
        self, tag: tuple[int, int], links: Links, out: Ids, payload: Tensor, into: Ids, cargo: tuple[Cargo, ...]
    ) -> Delivery:
        """Nothing is lost."""
        every = np.ones(len(out), bool)
        return Delivery(payload, every, every)
