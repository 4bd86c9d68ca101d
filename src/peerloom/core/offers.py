"""What a row offers its neighbours, and how what arrives is combined with what it has.

For every row the port forms, over what was really delivered,

    total_i = sum_j w_ij x_j        mass_i = sum_j w_ij        sent_i = sum_j w_ji

and an offer answers with `scale_i * total_i + own_i * x_i`. Its `weigh` says what scale and own are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Offer", "Packed", "average", "drift", "pull", "push", "share"]


@dataclass(frozen=True, eq=False)
class Offer:
    """A tensor of rows, the weights it travels with, and the law by which it is combined.

    `weigh` turns (mass, sent), arrays or tensors, into (scale, own). Where nothing fired it must answer own = 1, a row that
    hears nothing keeps what it has; or 0 for offers that do not `keep`.
    """

    value: Tensor
    weight: Literal["a", "b", "one"]
    weigh: Callable[[Any, Any], tuple[Any, Any]]
    packed: Packed | None = None  # where the rows were packed before
    counts_sent: bool = True  # whether `weigh` looks at what was sent; where not, it is not worked out
    keeps: bool = True


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows that were packed once for all receivers: what every one of them will make of it, and what it costs."""

    value: Tensor
    rows: Tensor | None  # as they travel; None where all rows are here and nothing travels
    turn: int  # which `compress` of the round
    bits: NDArray[np.int64]  # of each row: true ones,
    paper_bits: NDArray[np.int64]  # and as the papers count; a row with none is silent


def pull(x: Tensor | Packed) -> Offer:
    """x_i + sum_j a_ij (x_j - x_i): the receiver's weights; rows sum to one whatever is missing."""
    value, packed = (x.value, x) if isinstance(x, Packed) else (x, None)
    return Offer(value, "a", _keep_what_was_not_received, packed, counts_sent=False)


def drift(x: Packed) -> Offer:
    """sum_j a_ij (x_j - x_i), which is (W - I) x: what `pull` would add to a row. Zero where nothing is received."""
    return Offer(x.value, "a", _what_was_received_less_oneself, x, counts_sent=False, keeps=False)


def push(y: Tensor) -> Offer:
    """y_i + sum_j (b_ij y_j - b_ji y_i): the sender's weights; columns sum to one, so mass is conserved."""
    return Offer(y, "b", _keep_what_was_not_sent)


def average(w: Tensor) -> Offer:
    """The mean of what arrived, coordinate by coordinate; the row's own value only where nothing did."""
    return Offer(w, "one", _keep_where_nothing_came, counts_sent=False)


def share(z: Tensor) -> Offer:
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
    # Masses are counts here. Clipped rather than compared: truth values would be converted again in every product.
    return 1 / mass.clip(1), 1 - mass.clip(0, 1)
