"""What a row offers its neighbours, and how what arrives is combined with what it has.

For every row the port forms, over what was really delivered,

    total_i = sum_j w_ij x_j        mass_i = sum_j w_ij        sent_i = sum_j w_ji

and an offer answers with `scale_i * total_i + self_weight_i * x_i`, by its `weigh`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .codec import Body, Codec, Envelope

__all__ = ["Compressed", "Offer", "Part", "average", "drift", "equal_average", "pull", "push"]

Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Offer:
    """A tensor of rows, the weights it travels with, and its combination rule.

    `weigh` turns (mass, sent), arrays or tensors, into (scale, self_weight). Where nothing fired
    the self-weight must be 1, as a row that receives nothing keeps what it has, or 0 for offers
    that do not `keep`.
    """

    value: Tensor
    weight: Literal["a", "b", "one"]
    weigh: Callable[[Any, Any], tuple[Any, Any]]
    compressed: Compressed | None = None  # where the rows were compressed before
    counts_sent: bool = True  # whether `weigh` looks at `sent`; where not, it is not worked out
    keeps: bool = True

    @property
    def part(self) -> Part:
        """What both ends of a link know of it."""
        made = self.compressed
        width = self.value.shape[1]
        if made is None:
            return Part(width, self.counts_sent)
        return Part(width, self.counts_sent, made.envelope.index, made.silent)


@dataclass(frozen=True)
class Part:
    """One offer of a mixing, as both ends of a link know it without being told."""

    width: int  # numbers of a row
    pushed: bool  # it is mass, which leaves its sender
    compression: int | None = None  # which `compress` of the round made it; None: the mixing itself
    silent: bool = False  # rows may send nothing of it


@dataclass(frozen=True, eq=False)
class Compressed:
    """Rows that are encoded once for all receivers: what all of them will decode, and its cost."""

    value: Tensor  # of the rows that live here; zero where a row is silent
    source: Tensor | None  # the rows that are sent, before compression; None where nothing travels
    talking: Ids  # which of the rows that live here they are
    envelope: Envelope
    nbytes: Ids  # of each row that lives here; 0 where it is silent
    paper_bits: Ids  # as the papers count
    silent: bool = False  # whether rows may be

    def encoded(self, codec: Codec) -> list[Body]:
        """Encode the rows that are sent."""
        if self.source is None:
            raise RuntimeError(
                "These rows were compressed where nothing travels, and cannot be encoded."
            )
        return codec.encode(self.source, self.envelope) if len(self.talking) else []


def pull(x: Tensor | Compressed) -> Offer:
    """x_i + sum_j a_ij (x_j - x_i): the receiver's weights; rows sum to one whatever is missing."""
    value, compressed = (x.value, x) if isinstance(x, Compressed) else (x, None)
    return Offer(value, "a", _keep_what_was_not_received, compressed, counts_sent=False)


def drift(x: Compressed) -> Offer:
    """sum_j a_ij (x_j - x_i), which is (W - I) x: what `pull` would add to a row.

    Zero where nothing is received.
    """
    return Offer(x.value, "a", _what_was_received_less_oneself, x, counts_sent=False, keeps=False)


def push(y: Tensor) -> Offer:
    """y_i + sum_j (b_ij y_j - b_ji y_i): the sender's weights.

    Columns sum to one, so mass is conserved.
    """
    return Offer(y, "b", _keep_what_was_not_sent)


def average(w: Tensor) -> Offer:
    """The mean of what arrived, by coordinate; the row's own value only where nothing did."""
    return Offer(w, "one", _keep_where_nothing_came, counts_sent=False)


def equal_average(z: Tensor) -> Offer:
    """The mean of the row's own value and of what arrived, all with equal weight."""
    return Offer(z, "one", _count_oneself, counts_sent=False)


def _keep_what_was_not_received(mass: Any, sent: Any) -> tuple[Any, Any]:
    return 1, 1 - mass


def _what_was_received_less_oneself(mass: Any, sent: Any) -> tuple[Any, Any]:
    return 1, -mass


def _keep_what_was_not_sent(mass: Any, sent: Any) -> tuple[Any, Any]:
    return 1, 1 - sent


def _count_oneself(mass: Any, sent: Any) -> tuple[Any, Any]:
    return 1 / (1 + mass), 1 / (1 + mass)


def _keep_where_nothing_came(mass: Any, sent: Any) -> tuple[Any, Any]:
    # Masses are counts here. Clipped rather than compared: truth values would be converted again in
    # every product.
    return 1 / mass.clip(1), 1 - mass.clip(0, 1)
