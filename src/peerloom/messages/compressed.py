"""Compressors: what they leave out or round off must be made good by the rule, which therefore sends differences.

All are packed once per sender (`net.compress`), so that every neighbour adds the same to its copy. Packed rows hold numbers
of the rows' own type; positions are whole numbers among them, exact up to 2^24 in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..core import ConfigError, Trip, uniform
from .coordinates import Coordinates

__all__ = ["Quantised", "RandK", "Sign", "SignTopK", "TopK"]


@dataclass(frozen=True)
class RandK:
    """Random coordinates, the same for all receivers; scaled by n / k where `unbiased`, so that the mean is right."""

    fraction: float
    unbiased: bool = False
    whole: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Coordinates(self.fraction)  # says what is wrong with it

    @property
    def _drawn(self) -> Coordinates:
        return Coordinates(self.fraction, per_sender=True)

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Values alone: the receiver draws the positions again."""
        n = values.shape[1]
        scale = n / self._drawn.count(n) if self.unbiased else 1.0
        return scale * self._drawn.pack(values, trip)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Back to their positions."""
        return self._drawn.unpack(packed, n, trip)

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
    whole: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Coordinates(self.fraction)

    def count(self, n: int) -> int:
        """How many of n coordinates travel: one at least."""
        return Coordinates(self.fraction).count(n)

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Values, then positions."""
        at = values.abs().topk(self.count(values.shape[1]), dim=1).indices
        return torch.cat([values.gather(1, at), at.to(values)], dim=1)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Values to their positions."""
        values, at = packed.tensor_split(2, dim=1)
        nothing = torch.zeros(len(packed), n, dtype=packed.dtype, device=packed.device)
        return nothing.scatter(1, at.long(), values), nothing.scatter(1, at.long(), 1.0)

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """A word and a position for each."""
        return self.count(n) * (8 * dtype.itemsize + _position(n))

    def paper_bits(self, n: int) -> int:
        """64-bit values and a mask of n bits."""
        return 63 * self.count(n) + n


@dataclass(frozen=True)
class SignTopK:
    """The signs of the largest coordinates, and one size for all: their mean size (SQuARM-SGD)."""

    fraction: float
    whole: ClassVar[bool] = False

    def __post_init__(self) -> None:
        Coordinates(self.fraction)

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Signs, positions, the size."""
        kept, at = TopK(self.fraction).pack(values, trip).tensor_split(2, dim=1)
        return torch.cat([kept.sign(), at, kept.abs().mean(dim=1, keepdim=True)], dim=1)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """The size with its signs, at the positions."""
        signs, at = packed[:, :-1].tensor_split(2, dim=1)
        return TopK(self.fraction).unpack(torch.cat([signs * packed[:, -1:], at], dim=1), n, trip)

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """A sign and a position for each, and one word."""
        return Coordinates(self.fraction).count(n) * (1 + _position(n)) + 8 * dtype.itemsize

    def paper_bits(self, n: int) -> int:
        """The same with a 64-bit word."""
        return Coordinates(self.fraction).count(n) * (1 + _position(n)) + 64


@dataclass(frozen=True)
class Sign:
    """The sign of every coordinate, and one size for all: the mean size."""

    whole: ClassVar[bool] = False

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Signs, then the size."""
        return torch.cat([values.sign(), values.abs().mean(dim=1, keepdim=True)], dim=1)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """The size with its signs."""
        return packed[:, :-1] * packed[:, -1:], torch.ones_like(packed[:, :1])

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """A bit each, and one word."""
        return n + 8 * dtype.itemsize

    def paper_bits(self, n: int) -> int:
        """A bit each, and one 64-bit word."""
        return n + 64


@dataclass(frozen=True)
class Quantised:
    """gsgd: sizes rounded at random to multiples of |x| / 2^(bits-1), shrunk by tau so that it contracts.

        sgn(x) floor(2^(b-1) |x_i| / |x| + u) |x| / (2^(b-1) tau),   tau = 1 + min(n / 2^(2(b-1)), sqrt(n) / 2^(b-1))

    u is uniform. Reference: Alistarh et al., "QSGD", 2017, in the form of CHOCO's and BEER's authors.
    """

    word: int = 5
    whole: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 2 <= self.word <= 16:
            raise ConfigError(f"Quantised.word must be from 2 to 16 bits, found {self.word}.")

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Whole numbers, then the norm."""
        n = values.shape[1]
        norm = torch.linalg.vector_norm(values, dim=1, keepdim=True)
        u = uniform(trip.draws.seed, f"quantised/{trip.turn}", trip.t, trip.sender, lanes=n)
        share = 2 ** (self.word - 1) * values.abs() / torch.where(norm > 0, norm, 1.0)
        levels = values.sign() * torch.floor(share + torch.from_numpy(u).to(values))
        return torch.cat([levels, norm], dim=1)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Levels times their size."""
        half = 2 ** (self.word - 1)
        tau = 1 + min(n / half**2, math.sqrt(n) / half)
        return packed[:, :-1] * packed[:, -1:] / (half * tau), torch.ones_like(packed[:, :1])

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """Levels run from -2^(b-1) to 2^(b-1), one more than b bits can tell apart; and one word."""
        return n * (self.word + 1) + 8 * dtype.itemsize

    def paper_bits(self, n: int) -> int:
        """b bits each, and one 64-bit word."""
        return n * self.word + 64


def _position(n: int) -> int:
    return max(1, int(np.ceil(np.log2(n))))
