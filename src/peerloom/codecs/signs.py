"""Signs, and one size for all: of every coordinate, or of the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arguments import checked
from ..core import Body, Decoded, Envelope, Fit
from .bits import bitmap_nbytes, joined, position_width, unpack_bitmap
from .floats import array_of, check_finite, check_length, little_endian, number_of, read
from .positions import (
    Positions,
    pack_positions,
    positions_nbytes,
    unpack_positions,
)
from .selection import check_fraction, count, largest

__all__ = ["Sign", "SignTopK"]

Array = NDArray[Any]
Bools = NDArray[np.bool_]


@checked
@dataclass(frozen=True)
class Sign:
    """The sign of every coordinate, and one size for all: the mean size.

    A coordinate that is zero arrives as zero: a row with zeros says in n bits where it has none,
    and then the signs of the others.
    """

    fit: ClassVar[Fit] = "differences"
    per_link: ClassVar[bool] = False
    fixed_length: ClassVar[bool] = False

    def encode(self, rows: Tensor, envelope: Envelope) -> list[Body]:
        """Write the size, then the signs."""
        sizes = little_endian(array_of(_mean_size(rows)))
        return [
            joined(*_pack_signs(row, size)) for row, size in zip(array_of(rows), sizes, strict=True)
        ]

    def decode(
        self, bodies: Sequence[Body], n: int, dtype: torch.dtype, envelope: Envelope
    ) -> Decoded:
        """Read the size with its signs."""
        values = np.empty((len(bodies), n), number_of(dtype).newbyteorder("="))
        for body, row in zip(bodies, values, strict=True):
            check_length(body, _unpack_signs(body, number_of(dtype), row))
        return torch.from_numpy(values), None

    def through(self, rows: Tensor, envelope: Envelope) -> Decoded:
        """Give every coordinate the mean size."""
        return rows.sign().mul_(_mean_size(rows)), None

    def nbytes(self, rows: Tensor, envelope: Envelope) -> NDArray[np.int64]:
        """Return the size and a bit each; more where there are zeros."""
        return rows.element_size() + _signs_nbytes(array_of(rows) != 0)

    def longest(self, n: int, dtype: torch.dtype) -> int:
        """Return the size, and two bits each but for one that is zero."""
        return dtype.itemsize + bitmap_nbytes(n) + bitmap_nbytes(n - 1)

    def paper_bits(self, n: int) -> int:
        """Return a bit each, and one 64-bit word."""
        return n + 64

    def check(self, body: Body, n: int, dtype: torch.dtype) -> None:
        """Judge length, and that the size is finite."""
        number = number_of(dtype)
        check_finite(read(body, number, 1))
        check_length(body, _unpack_signs(body, number, np.empty(n, number.newbyteorder("="))))


@checked
@dataclass(frozen=True)
class SignTopK:
    """The signs of the largest coordinates, and one size for all: their mean size (SQuARM-SGD).

    `positions` is as in `TopK`; zeros are as in `Sign`.
    """

    fraction: float
    positions: Positions = "shortest"
    fit: ClassVar[Fit] = "differences"
    per_link: ClassVar[bool] = False
    fixed_length: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fraction(self, self.fraction)

    def encode(self, rows: Tensor, envelope: Envelope) -> list[Body]:
        """Write the size, the signs, the positions."""
        chosen, _, kept = self._largest(rows, envelope)
        sizes, n = little_endian(array_of(_mean_size(kept))), rows.shape[1]
        return [
            joined(
                *_pack_signs(row, size), *pack_positions(self.positions, np.flatnonzero(here), n)
            )
            for row, size, here in zip(array_of(kept), sizes, chosen, strict=True)
        ]

    def decode(
        self, bodies: Sequence[Body], n: int, dtype: torch.dtype, envelope: Envelope
    ) -> Decoded:
        """Read the size with its signs, and put it at the positions."""
        k, number = count(self.fraction, n), number_of(dtype)
        values = np.zeros((len(bodies), n), number.newbyteorder("="))
        mask = np.zeros((len(bodies), n), np.bool_)
        signs = np.empty(k, values.dtype)
        for body, row, carried in zip(bodies, values, mask, strict=True):
            end = _unpack_signs(body, number, signs)
            at = unpack_positions(self.positions, body[end:], n, k)
            row[at], carried[at] = signs, True
        return torch.from_numpy(values), torch.from_numpy(mask)

    def through(self, rows: Tensor, envelope: Envelope) -> Decoded:
        """Give the largest ones their mean size."""
        chosen, at, kept = self._largest(rows, envelope)
        signs = kept.sign().mul_(_mean_size(kept))
        values = rows.new_zeros(rows.numel()).index_copy_(0, at, signs.view(-1))
        return values.view(rows.shape), torch.from_numpy(chosen).to(rows.device)

    def nbytes(self, rows: Tensor, envelope: Envelope) -> NDArray[np.int64]:
        """Return the size, the signs and the positions; more where there are zeros."""
        n, (_, _, kept) = rows.shape[1], self._largest(rows, envelope)
        fixed = rows.element_size() + positions_nbytes(self.positions, n, kept.shape[1])
        return fixed + _signs_nbytes(array_of(kept) != 0)

    def longest(self, n: int, dtype: torch.dtype) -> int:
        """Return the size, two bits each but for one that is zero, and the positions."""
        k = count(self.fraction, n)
        return Sign().longest(k, dtype) + positions_nbytes(self.positions, n, k)

    def paper_bits(self, n: int) -> int:
        """Return a sign and a position for each, and one 64-bit word."""
        return count(self.fraction, n) * (1 + position_width(n)) + 64

    def check(self, body: Body, n: int, dtype: torch.dtype) -> None:
        """Judge length, positions, and that the size is finite."""
        number, k = number_of(dtype), count(self.fraction, n)
        check_finite(read(body, number, 1))
        end = _unpack_signs(body, number, np.empty(k, number.newbyteorder("=")))
        unpack_positions(self.positions, body[end:], n, k)

    def _largest(self, rows: Tensor, envelope: Envelope) -> tuple[Bools, Tensor, Tensor]:
        """Return which ones are largest, where they lie, and they [rows, k].

        Remembered for the next call.
        """
        known = envelope.kept.get(self)
        if known is None or known[0] is not rows:
            k = count(self.fraction, rows.shape[1])
            chosen = largest(rows, k)
            at = torch.from_numpy(np.flatnonzero(chosen)).to(rows.device)
            kept = rows.reshape(-1).index_select(0, at).view(len(rows), k)
            known = envelope.kept[self] = (rows, (chosen, at, kept))
        found: tuple[Bools, Tensor, Tensor] = known[1]
        return found


def _mean_size(rows: Tensor) -> Tensor:
    """Return the mean size of each row, as a column.

    Of a single long row torch would sum the parts of several threads, in another order than that of
    a row among others; two rows are not cut up.
    """
    sizes = rows.abs()
    if len(sizes) == 1:
        return sizes.expand(2, -1).mean(dim=1, keepdim=True)[:1]
    return sizes.mean(dim=1, keepdim=True)


def _pack_signs(row: Array, size: Array) -> list[Array]:
    """Write the size, then a bit for each sign.

    A bit cannot say zero. Where there are zeros the size, which has no sign, is written as a
    negative number, and a bitmap of those that are not zero comes before their signs.
    """
    there = row != 0
    if there.all():
        return [size, np.packbits(row < 0)]
    return [
        np.copysign(size, -1),
        np.packbits(there),
        np.packbits(row.take(np.flatnonzero(there)) < 0),
    ]


def _signs_nbytes(there: Bools) -> NDArray[np.int64]:
    """Return the bytes of the signs of each row, given which are not zero."""
    rows, n = there.shape
    if there.all():
        return np.full(rows, bitmap_nbytes(n), np.int64)
    counts = np.array([np.count_nonzero(row) for row in there])
    return bitmap_nbytes(n) + np.where(counts == n, 0, -(-counts // 8))


def _unpack_signs(body: Body, number: np.dtype[Any], into: Array) -> int:
    """Read signs times their size; return where they end."""
    size, start = read(body, number, 1)[0], number.itemsize
    end = start + bitmap_nbytes(len(into))
    bits = unpack_bitmap(body[start:end], len(into))
    if not np.signbit(size):
        np.array([size, -size]).take(bits.view(np.uint8), out=into, mode="clip")
        return end
    there = np.flatnonzero(bits)
    start, end = end, end + bitmap_nbytes(len(there))
    signs = unpack_bitmap(body[start:end], len(there))
    into[:] = 0
    into[there] = np.array([-size, size]).take(signs.view(np.uint8))
    return end
