"""Numbers rounded to levels, which travel as whole numbers of a few bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arguments import checked
from ..core import Body, ConfigError, Decoded, Envelope, Fit, words
from ..errors import CodecError
from .bits import elias_bits, joined, pack_elias, pack_fixed, unpack_elias, unpack_fixed
from .floats import array_of, check_finite, check_length, little_endian, number_of, read

__all__ = ["ANQ", "Quantised"]

Array = NDArray[Any]


@checked
@dataclass(frozen=True)
class Quantised:
    """gsgd: numbers rounded at random to multiples of |x| / 2^(b-1), shrunk so that it contracts.

        floor(2^(b-1) x_i / |x| + u) |x| / (2^(b-1) tau)
        tau = 1 + min(n / 2^(2(b-1)), sqrt(n) / 2^(b-1))

    u is uniform, drawn with 16 bits: the mean of a rounding is right to 2^-17 of a level. The
    authors round the size of x_i and put its sign back; rounding x_i itself has the same
    distribution, up or down with the same chances, in fewer passes. Levels travel in b + 1 bits
    each, or in Elias codes where those are shorter, as they are for long rows. Reference: Alistarh
    et al., "QSGD", 2017, in the form of CHOCO's and BEER's authors.
    """

    word: int = 5
    fit: ClassVar[Fit] = "differences"
    per_link: ClassVar[bool] = False
    fixed_length: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 2 <= self.word <= 16:
            raise ConfigError(f"Quantised.word must be from 2 to 16 bits, found {self.word}.")

    def encode(self, rows: Tensor, envelope: Envelope) -> list[Body]:
        """Write the norm, then the levels. A negative norm announces Elias codes."""
        levels, norm = self._levels(rows, envelope)
        bodies, norms = list[Body](), little_endian(array_of(norm))
        most, elias = self._fixed_nbytes(rows.shape[1]), self._elias_nbytes(levels)
        for row, head, length in zip(array_of(levels), norms, elias, strict=True):
            finite = np.abs(row).max() <= self._furthest
            whole = (row if finite else np.zeros_like(row)).astype(np.int32)
            head = head if finite else np.full_like(head, np.nan)  # which a receiver refuses
            if length < most:
                bodies.append(joined(np.copysign(head, -1), _pack_levels(whole, whole < 0)))
            else:
                fixed = pack_fixed(whole + self._furthest, self.word + 1)
                bodies.append(joined(np.abs(head), fixed))
        return bodies

    def decode(
        self, bodies: Sequence[Body], n: int, dtype: torch.dtype, envelope: Envelope
    ) -> Decoded:
        """Read levels and multiply them by their size."""
        number = number_of(dtype)
        values = np.empty((len(bodies), n), number.newbyteorder("="))
        norm = np.empty((len(bodies), 1), values.dtype)
        for body, row, head in zip(bodies, values, norm, strict=True):
            head[:] = np.abs(read(body, number, 1))
            row[:] = self._unpack(body, number, n)
        return torch.from_numpy(values).mul_(self._size(torch.from_numpy(norm), n)), None

    def through(self, rows: Tensor, envelope: Envelope) -> Decoded:
        """Round to levels. What `nbytes` kept of them is used up."""
        levels, norm = self._levels(rows, envelope)
        del envelope.kept[self]
        return levels.mul_(self._size(norm, rows.shape[1])), None

    def nbytes(self, rows: Tensor, envelope: Envelope) -> NDArray[np.int64]:
        """Return the norm and the shorter of the two codes."""
        elias = self._elias_nbytes(self._levels(rows, envelope)[0])
        return rows.element_size() + np.minimum(elias, self._fixed_nbytes(rows.shape[1]))

    def longest(self, n: int, dtype: torch.dtype) -> int:
        """Return the norm, and b + 1 bits for each level."""
        return dtype.itemsize + self._fixed_nbytes(n)

    def paper_bits(self, n: int) -> int:
        """Return b bits each, and one 64-bit word."""
        return n * self.word + 64

    def check(self, body: Body, n: int, dtype: torch.dtype) -> None:
        """Judge length, levels, and that norm and values are finite."""
        norm = read(body, number_of(dtype), 1)
        check_finite(norm)
        levels = self._unpack(body, number_of(dtype), n)
        size = self._size(torch.from_numpy(np.abs(norm)), n)
        if not torch.isfinite(size * int(np.abs(levels).max(initial=0))).all():
            raise CodecError("not_finite")

    @property
    def _furthest(self) -> int:
        """The largest level: rounding may go one beyond 2^(b-1), on either side."""
        return (1 << self.word - 1) + 1

    def _fixed_nbytes(self, n: int) -> int:
        return -(-n * (self.word + 1) // 8)

    def _elias_nbytes(self, levels: Tensor) -> NDArray[np.int64]:
        return _elias_nbytes(array_of(levels), self._furthest)

    def _unpack(self, body: Body, number: np.dtype[Any], n: int) -> NDArray[np.int64]:
        elias, rest = np.signbit(read(body, number, 1)[0]), body[number.itemsize :]
        if not elias:
            levels = unpack_fixed(rest, n, self.word + 1) - self._furthest
        else:
            sizes, negative = _unpack_levels(rest, n)
            levels = np.where(negative, -sizes, sizes)
        if max(levels.max(), -levels.min()) > self._furthest:
            raise CodecError("wrong_levels", f"beyond {self._furthest}")
        return levels

    def _levels(self, rows: Tensor, envelope: Envelope) -> tuple[Tensor, Tensor]:
        """Return levels and norm; remembered for the next call.

        In place where it can be: more temporaries would cost more than the arithmetic.
        """
        known = envelope.kept.get(self)
        if known is None or known[0] is not rows:
            n = rows.shape[1]
            norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
            stream, count = f"quantised/{envelope.index}", (n + 3) // 4
            drawn = words(envelope.draws.seed, stream, envelope.t, envelope.sender, count)
            short = torch.from_numpy(drawn.astype("<u8", copy=False).view("<i2")[:, :n])
            u = torch.add(rows.new_tensor(0.5 + 2.0**-17), short.to(rows), alpha=2.0**-16)
            u.addcmul_(rows, 2 ** (self.word - 1) / torch.where(norm > 0, norm, 1.0))
            known = envelope.kept[self] = (rows, u.floor_(), norm)
        return known[1], known[2]

    def _size(self, norm: Tensor, n: int) -> Tensor:
        half = 2 ** (self.word - 1)
        tau = 1 + min(n / half**2, math.sqrt(n) / half)
        size: Tensor = norm / (half * tau)
        return size


@checked
@dataclass(frozen=True)
class ANQ:
    """The nearest of levels that grow geometrically and shrink with the rounds (ANQ-NIDS).

        q_l = sgn(l) (eta_k / omega) (((1 + omega) / (1 - omega))^|l| - 1)
        eta_k = eta sigma^k,   l = 0, +-1, +-2, ...

    k counts rounds. The error is at most omega |x| + eta_k, so that what is sent may shrink as fast
    as sigma lets it: choose sigma a little above the rate of the method. Levels travel in an Elias
    code of 2 + 2 floor(log2(1 + |l|)) bits, so that the length of a body depends on what it says.
    Reference: Michelusi, Scutari and Lee, "Finite-Bit Quantization For Distributed Algorithms With
    Linear Convergence", 2022.
    """

    omega: float = 0.1
    eta: float = 1.0
    sigma: float = 0.99
    fit: ClassVar[Fit] = "differences"
    per_link: ClassVar[bool] = False
    fixed_length: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not (0 < self.omega < 1 and self.eta > 0 and 0 < self.sigma <= 1):
            raise ConfigError(f"ANQ needs 0 < omega < 1, eta > 0 and 0 < sigma <= 1; found {self}.")

    def encode(self, rows: Tensor, envelope: Envelope) -> list[Body]:
        """Write signs and levels. A row that is not finite becomes bits that no decoder takes."""
        bodies, most = list[Body](), self._most(rows.dtype)
        levels = array_of(self._levels(rows, envelope))
        for row, size in zip(array_of(rows), levels, strict=True):
            if size.max() <= most:
                bodies.append(joined(_pack_levels(size.astype(np.int64), np.signbit(row))))
            else:
                bodies.append(joined(np.full(-(-2 * len(row) // 8), 255, np.uint8)))
        return bodies

    def decode(
        self, bodies: Sequence[Body], n: int, dtype: torch.dtype, envelope: Envelope
    ) -> Decoded:
        """Read levels as values."""
        shape, number = (len(bodies), n), number_of(dtype).newbyteorder("=")
        levels, negative = np.empty(shape, number), np.empty(shape, np.bool_)
        for body, row, sign in zip(bodies, levels, negative, strict=True):
            row[:], sign[:] = _unpack_levels(body, n)
        signs = torch.from_numpy(np.where(negative, number.type(-1), number.type(1)))
        return self._values(torch.from_numpy(levels), envelope).copysign_(signs), None

    def through(self, rows: Tensor, envelope: Envelope) -> Decoded:
        """Take the nearest levels. What `nbytes` kept of them is used up."""
        levels = self._levels(rows, envelope)
        del envelope.kept[self]
        return self._values(levels, envelope).copysign_(rows), None

    def nbytes(self, rows: Tensor, envelope: Envelope) -> NDArray[np.int64]:
        """Return an Elias code for each level."""
        return _elias_nbytes(array_of(self._levels(rows, envelope)), self._most(rows.dtype))

    def longest(self, n: int, dtype: torch.dtype) -> int:
        """Return the Elias codes of the largest levels whose value is finite."""
        digits = int(1 + self._most(dtype)).bit_length() - 1
        return -(-n * (2 + 2 * digits) // 8)

    def paper_bits(self, n: int) -> None:
        """The paper counts what travels."""
        return

    def check(self, body: Body, n: int, dtype: torch.dtype) -> None:
        """Judge length, and that levels are not too far out to be finite."""
        levels, _ = _unpack_levels(body, n)
        if levels.max() > self._most(dtype):
            raise CodecError("not_finite")

    def _most(self, dtype: torch.dtype) -> int:
        """The largest level whose value is finite in any round."""
        most = torch.finfo(dtype).max / max(1.0, self.eta / self.omega)
        return int(math.log(most) / math.log(self._ratio))

    @property
    def _ratio(self) -> float:
        return (1 + self.omega) / (1 - self.omega)

    def _levels(self, rows: Tensor, envelope: Envelope) -> Tensor:
        """Return the sizes of the levels; remembered for the next call.

        Between l - 1 and l the border is where (1 + omega) (1 + omega |x| / eta) is ratio^l.
        """
        known = envelope.kept.get(self)
        if known is None or known[0] is not rows:
            scale = (1 + self.omega) * self.omega / self._eta(envelope)
            size = rows.abs().mul_(scale).add_(1 + self.omega)
            levels = size.log_().mul_(1 / math.log(self._ratio)).floor_()
            known = envelope.kept[self] = (rows, levels)
        return known[1]

    def _values(self, levels: Tensor, envelope: Envelope) -> Tensor:
        size = levels.mul_(math.log(self._ratio)).expm1_()
        return size.mul_(self._eta(envelope) / self.omega)

    def _eta(self, envelope: Envelope) -> float:
        return self.eta * self.sigma**envelope.t


def _elias_nbytes(levels: Array, most: int) -> NDArray[np.int64]:
    """Return the bytes of signs and Elias codes of each row.

    A row with a level beyond `most`, or NaN, counts as zeros: its body has the least length.
    """
    low, high = levels.min(), levels.max()
    if not (-most <= low and high <= most):
        fits = np.abs(levels).max(axis=1) <= most
        levels = np.where(fits[:, None], levels, 0)
        low, high = levels.min(), levels.max()
    bits: NDArray[np.int64] = levels.shape[1] + elias_bits(levels, int(max(high, -low)))
    return -(-bits // 8)


def _pack_levels(levels: NDArray[Any], negative: NDArray[np.bool_]) -> Body:
    """Write signs, a zero's too, and then sizes."""
    return np.packbits(np.concatenate([negative.view(np.uint8), *pack_elias(np.abs(levels))]))


def _unpack_levels(body: Body, n: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Read sizes, and which are negative."""
    bits = np.unpackbits(body)
    if len(bits) < 2 * n:
        raise CodecError("wrong_shape", f"{len(body)} bytes are too few")
    sizes, end = unpack_elias(bits[n:], n)
    check_length(body, -(-(n + end) // 8))
    if bits[n + end :].any():
        raise CodecError("wrong_shape", "bits after the last one")
    return sizes, bits[:n].view(np.bool_)
