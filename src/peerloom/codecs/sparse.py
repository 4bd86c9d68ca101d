"""The largest coordinates, with their positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arguments import checked
from ..core import Body, Decoded, Envelope, Fit
from .bits import joined
from .floats import array_of, check_finite, check_length, fixed, little_endian, number_of, read
from .positions import (
    Positions,
    pack_positions,
    positions_nbytes,
    unpack_positions,
)
from .selection import check_fraction, count, largest, masked

__all__ = ["TopK"]


@checked
@dataclass(frozen=True)
class TopK:
    """The coordinates that are largest in size, with their positions.

    `positions` says how those travel: in the shortest of Elias-Fano code, bitmap and plain numbers,
    or always as numbers of ceil(log2 n) bits ("index").
    """

    fraction: float
    positions: Positions = "shortest"
    fit: ClassVar[Fit] = "part"
    per_link: ClassVar[bool] = False
    fixed_length: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction(self, self.fraction)

    def encode(self, rows: Tensor, envelope: Envelope) -> list[Body]:
        """Write values, then positions."""
        n, bodies = rows.shape[1], list[Body]()
        chosen = largest(rows, count(self.fraction, n))
        for row, here in zip(little_endian(array_of(rows)), chosen, strict=True):
            at = np.flatnonzero(here)
            bodies.append(joined(row.take(at), *pack_positions(self.positions, at, n)))
        return bodies

    def decode(
        self, bodies: Sequence[Body], n: int, dtype: torch.dtype, envelope: Envelope
    ) -> Decoded:
        """Read values and put them at their positions."""
        number, k = number_of(dtype), count(self.fraction, n)
        values = np.zeros((len(bodies), n), number.newbyteorder("="))
        mask = np.zeros((len(bodies), n), np.bool_)
        for body, row, carried in zip(bodies, values, mask, strict=True):
            check_length(body, self.longest(n, dtype))
            at = unpack_positions(self.positions, body[k * number.itemsize :], n, k)
            row[at], carried[at] = read(body, number, k), True
        return torch.from_numpy(values), torch.from_numpy(mask)

    def through(self, rows: Tensor, envelope: Envelope) -> Decoded:
        """Keep the largest ones."""
        chosen = torch.from_numpy(largest(rows, count(self.fraction, rows.shape[1])))
        chosen = chosen.to(rows.device)
        return masked(rows, chosen), chosen

    def nbytes(self, rows: Tensor, envelope: Envelope) -> NDArray[np.int64]:
        """Return the length that all bodies have."""
        return fixed(rows, self.longest(rows.shape[1], rows.dtype))

    def longest(self, n: int, dtype: torch.dtype) -> int:
        """Return a word for each, and the positions."""
        k = count(self.fraction, n)
        return k * dtype.itemsize + positions_nbytes(self.positions, n, k)

    def paper_bits(self, n: int) -> int:
        """Return 64-bit values and a mask of n bits, in which no bit is counted twice."""
        return 63 * count(self.fraction, n) + n

    def check(self, body: Body, n: int, dtype: torch.dtype) -> None:
        """Judge length, positions, and that all is finite."""
        check_length(body, self.longest(n, dtype))
        number, k = number_of(dtype), count(self.fraction, n)
        check_finite(read(body, number, k))
        unpack_positions(self.positions, body[k * number.itemsize :], n, k)
