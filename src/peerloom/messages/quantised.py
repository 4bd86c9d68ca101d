"""Compressors that keep every coordinate, in few bits. All are for differences, and are packed once per sender."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import ConfigError, Fit, Trip, words

__all__ = ["ANQ", "Quantised", "Sign"]


@dataclass(frozen=True)
class Sign:
    """The sign of every coordinate, and one size for all: the mean size."""

    fit: ClassVar[Fit] = "differences"

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Signs, then the size."""
        return torch.cat([values.sign(), values.abs().mean(dim=1, keepdim=True)], dim=1)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """The size with its signs."""
        return packed[:, :-1] * packed[:, -1:], torch.ones_like(packed[:, :1])

    def through(self, values: Tensor, trip: Trip) -> Tensor:
        """Signs times the size."""
        return values.sign().mul_(values.abs().mean(dim=1, keepdim=True))

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """A bit each, and one word."""
        return n + 8 * dtype.itemsize

    def paper_bits(self, n: int) -> int:
        """A bit each, and one 64-bit word."""
        return n + 64


@dataclass(frozen=True)
class Quantised:
    """gsgd: numbers rounded at random to multiples of |x| / 2^(b-1), shrunk by tau so that it contracts.

        floor(2^(b-1) x_i / |x| + u) |x| / (2^(b-1) tau),   tau = 1 + min(n / 2^(2(b-1)), sqrt(n) / 2^(b-1))

    u is uniform, drawn with 16 bits: the mean of a rounding is right to 2^-17 of a level. The authors round the size of x_i
    and put its sign back; rounding x_i itself has the same law, up or down with the same chances, in fewer passes.
    Reference: Alistarh et al., "QSGD", 2017, in the form of CHOCO's and BEER's authors.
    """

    word: int = 5
    fit: ClassVar[Fit] = "differences"

    def __post_init__(self) -> None:
        if not 2 <= self.word <= 16:
            raise ConfigError(f"Quantised.word must be from 2 to 16 bits, found {self.word}.")

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Whole numbers, then the norm."""
        return torch.cat(self._levels(values, trip), dim=1)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Levels times their size."""
        return packed[:, :-1] * self._size(packed[:, -1:], n), torch.ones_like(packed[:, :1])

    def through(self, values: Tensor, trip: Trip) -> Tensor:
        """Levels times their size."""
        levels, norm = self._levels(values, trip)
        return levels.mul_(self._size(norm, values.shape[1]))

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """Levels run from -2^(b-1) to 2^(b-1), one more than b bits can tell apart; and one word."""
        return n * (self.word + 1) + 8 * dtype.itemsize

    def paper_bits(self, n: int) -> int:
        """b bits each, and one 64-bit word."""
        return n * self.word + 64

    def _levels(self, values: Tensor, trip: Trip) -> tuple[Tensor, Tensor]:
        """In place where it can be: three times as many temporaries would cost more than the arithmetic."""
        n = values.shape[1]
        norm = torch.linalg.vector_norm(values, dim=1, keepdim=True)
        drawn = words(trip.draws.seed, f"quantised/{trip.turn}", trip.t, trip.sender, (n + 3) // 4)
        short = torch.from_numpy(drawn.astype("<u8", copy=False).view("<i2")[:, :n])
        u = short.to(values).add_(2**15 + 0.5).mul_(2.0**-16)
        return u.addcmul_(values, 2 ** (self.word - 1) / torch.where(norm > 0, norm, 1.0)).floor_(), norm

    def _size(self, norm: Tensor, n: int) -> Tensor:
        half = 2 ** (self.word - 1)
        tau = 1 + min(n / half**2, math.sqrt(n) / half)
        size: Tensor = norm / (half * tau)
        return size


@dataclass(frozen=True)
class ANQ:
    """The nearest of levels that grow geometrically and shrink with the rounds: ANQ-NIDS's adaptive quantiser.

        q_l = sgn(l) (eta_k / omega) (((1 + omega) / (1 - omega))^|l| - 1),   eta_k = eta sigma^k,   l = 0, +-1, +-2, ...

    k counts rounds. The error is at most omega |x| + eta_k, so that what is sent may shrink as fast as sigma lets it: choose
    sigma a little above the rate of the method. Levels travel in an Elias code of 2 + 2 floor(log2(1 + |l|)) bits, so the
    size of a message depends on what it says.
    Reference: Michelusi, Scutari and Lee, "Finite-Bit Quantization For Distributed Algorithms With Linear Convergence",
    2022.
    """

    omega: float = 0.1
    eta: float = 1.0
    sigma: float = 0.99
    fit: ClassVar[Fit] = "differences"

    def __post_init__(self) -> None:
        if not (0 < self.omega < 1 and self.eta > 0 and 0 < self.sigma <= 1):
            raise ConfigError(f"ANQ needs 0 < omega < 1, eta > 0 and 0 < sigma <= 1; found {self}.")

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Level numbers. Between l - 1 and l the border is where (1 + omega) (1 + omega |x| / eta) is ratio^l."""
        size = values.abs().mul_((1 + self.omega) * self.omega / self._eta(trip)).add_(1 + self.omega)
        return size.log_().mul_(1 / math.log(self._ratio)).floor_().copysign_(values)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Levels as values."""
        size = packed.abs().mul_(math.log(self._ratio)).expm1_().mul_(self._eta(trip) / self.omega)
        return size.copysign_(packed), torch.ones_like(packed[:, :1])

    def through(self, values: Tensor, trip: Trip) -> Tensor:
        """The nearest levels."""
        return self.unpack(self.pack(values, trip), values.shape[1], trip)[0]

    def sizes(self, packed: Tensor) -> NDArray[np.int64]:
        """An Elias code for each level."""
        digits: NDArray[np.int64] = packed.abs().add_(1).log2_().floor_().sum(dim=1).long().cpu().numpy()
        return 2 * packed.shape[1] + 2 * digits

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """The least it can be: two bits for each level 0."""
        return 2 * n

    def paper_bits(self, n: int) -> int:
        """The same: the paper counts true bits."""
        return 2 * n

    @property
    def _ratio(self) -> float:
        return (1 + self.omega) / (1 - self.omega)

    def _eta(self, trip: Trip) -> float:
        return self.eta * self.sigma**trip.t
