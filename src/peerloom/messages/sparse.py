"""Compressors that keep some coordinates: random ones, or the largest.

All compressors are packed once per sender (`port.compress`), so that every neighbour adds the same to its copy. Packed rows
hold numbers of the rows' own type; positions are whole numbers among them, exact up to 2^24 in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..core import Fit, Trip
from .coordinates import Coordinates, check_fraction, count
from .selection import largest, places, spread

__all__ = ["RandK", "SignTopK", "TopK"]


@dataclass(frozen=True)
class RandK:
    """Random coordinates, the same for all receivers; scaled by n / k where `unbiased`, so that the mean is right."""

    fraction: float
    unbiased: bool = False

    def __post_init__(self) -> None:
        check_fraction(self, self.fraction)

    @property
    def fit(self) -> Fit:
        """Scaled numbers are not the sender's."""
        return "differences" if self.unbiased else "part"

    @property
    def _drawn(self) -> Coordinates:
        return Coordinates(self.fraction, per_sender=True)

    def _scaled(self, values: Tensor, n: int) -> Tensor:
        return n / count(self.fraction, n) * values if self.unbiased else values

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Values alone: the receiver draws the positions again."""
        return self._scaled(self._drawn.pack(values, trip), values.shape[1])

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Back to their positions."""
        return self._drawn.unpack(packed, n, trip)

    def through(self, values: Tensor, trip: Trip) -> Tensor:
        """The chosen ones, scaled."""
        return self._scaled(self._drawn.through(values, trip), values.shape[1])

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """The values alone."""
        return self._drawn.bits(n, dtype)

    def paper_bits(self, n: int) -> int:
        """64-bit values and a mask."""
        return self._drawn.paper_bits(n)


@dataclass(frozen=True)
class TopK:
    """The coordinates that are largest in size, with their positions."""

    fraction: float
    fit: ClassVar[Fit] = "part"

    def __post_init__(self) -> None:
        check_fraction(self, self.fraction)

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Values, then positions."""
        at = _largest(self.fraction, values)
        return torch.cat([values.gather(1, at), at.to(values)], dim=1)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Values to their positions."""
        values, at = packed.tensor_split(2, dim=1)
        return spread(values, at.long(), n), spread(torch.ones_like(values), at.long(), n)

    def through(self, values: Tensor, trip: Trip) -> Tensor:
        """The largest ones."""
        chosen = largest(values, count(self.fraction, values.shape[1]))
        # A product, and NumPy's: choosing by `where` takes four times as long, as which way it goes cannot be foreseen.
        return torch.from_numpy(values.cpu().numpy() * chosen).to(values.device)

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """A word and a position for each."""
        return count(self.fraction, n) * (8 * dtype.itemsize + _position(n))

    def paper_bits(self, n: int) -> int:
        """64-bit values and a mask of n bits."""
        return 63 * count(self.fraction, n) + n


@dataclass(frozen=True)
class SignTopK:
    """The signs of the largest coordinates, and one size for all: their mean size (SQuARM-SGD)."""

    fraction: float
    fit: ClassVar[Fit] = "differences"

    def __post_init__(self) -> None:
        check_fraction(self, self.fraction)

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Signs, positions, the size."""
        at = _largest(self.fraction, values)
        kept = values.gather(1, at)
        return torch.cat([kept.sign(), at.to(values), kept.abs().mean(dim=1, keepdim=True)], dim=1)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """The size with its signs, at the positions."""
        signs, at = packed[:, :-1].tensor_split(2, dim=1)
        return spread(signs * packed[:, -1:], at.long(), n), spread(torch.ones_like(signs), at.long(), n)

    def through(self, values: Tensor, trip: Trip) -> Tensor:
        """The largest ones, all of one size."""
        return self.unpack(self.pack(values, trip), values.shape[1], trip)[0]

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """A sign and a position for each, and one word."""
        return count(self.fraction, n) * (1 + _position(n)) + 8 * dtype.itemsize

    def paper_bits(self, n: int) -> int:
        """The same with a 64-bit word."""
        return count(self.fraction, n) * (1 + _position(n)) + 64


def _largest(fraction: float, values: Tensor) -> Tensor:
    k = count(fraction, values.shape[1])
    return places(largest(values, k), k).to(values.device)


def _position(n: int) -> int:
    return max(1, math.ceil(math.log2(n)))
