"""Part of a row: random coordinates that both ends draw, so that no positions travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Body, ConfigError, Decoded, Envelope, Fit
from ..errors import CodecError
from .bits import bitmap_nbytes, joined, unpack_bitmap
from .floats import array_of, check_finite, check_length, fixed, little_endian, number_of, read
from .selection import check_fraction, count, masked, random_subsets

__all__ = ["Coordinates", "RandK"]

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Coordinates:
    """A share of the coordinates, drawn uniformly without replacement for every message (PaME).

    The set is a function of seed, round, mixing and link; of the sender with `per_sender`, which
    gives all receivers of a row the same set; or of the two rows with `per_pair`, which gives both
    directions the same, so that symmetric mixing keeps the mean in every coordinate, as tracking on
    undirected graphs needs it. The receiver draws the set again, so only values travel; with `mask`
    the positions travel too, as n bits, for receivers that do not share the seed. A coordinate that
    was not carried counts as not delivered: `pull`, `push` and `average` treat it as a link that
    did not fire, so rows still sum to one and mass is conserved.
    """

    fraction: float
    per_sender: bool = False
    mask: bool = False
    per_pair: bool = False
    fixed_length: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction(self, self.fraction)
        if self.per_sender and self.per_pair:
            raise ConfigError(
                "Coordinates cannot be drawn both per sender and per pair. Choose one."
            )

    @property
    def fit(self) -> Fit:
        """Some coordinates, exactly."""
        return "paired" if self.per_pair else "part"

    @property
    def per_link(self) -> bool:
        """Every link has a set of its own, unless the sender has."""
        return not self.per_sender

    def count(self, n: int) -> int:
        """Return how many of n coordinates travel."""
        return count(self.fraction, n)

    def encode(self, rows: Tensor, envelope: Envelope) -> list[Body]:
        """Write the chosen values; then the mask, where it travels."""
        chosen, values = self._chosen(rows.shape[1], envelope), little_endian(array_of(rows))
        return [
            joined(row.take(np.flatnonzero(here)), *([np.packbits(here)] if self.mask else []))
            for row, here in zip(values, chosen, strict=True)
        ]

    def decode(
        self, bodies: Sequence[Body], n: int, dtype: torch.dtype, envelope: Envelope
    ) -> Decoded:
        """Read the values and put them where they were chosen."""
        number, k = number_of(dtype), count(self.fraction, n)
        for body in bodies:
            check_length(body, self.longest(n, dtype))
        if self.mask:
            chosen = np.stack([self._mask(body, n, k * number.itemsize) for body in bodies])
        else:
            chosen = self._chosen(n, envelope)
        values = np.zeros(chosen.size, number.newbyteorder("="))
        values[np.flatnonzero(chosen)] = np.concatenate([read(body, number, k) for body in bodies])
        return torch.from_numpy(values.reshape(chosen.shape)), torch.from_numpy(chosen)

    def through(self, rows: Tensor, envelope: Envelope) -> Decoded:
        """Keep the chosen ones."""
        chosen = torch.from_numpy(self._chosen(rows.shape[1], envelope)).to(rows.device)
        return masked(rows, chosen), chosen

    def nbytes(self, rows: Tensor, envelope: Envelope) -> NDArray[np.int64]:
        """Return the length that all bodies have."""
        return fixed(rows, self.longest(rows.shape[1], rows.dtype))

    def longest(self, n: int, dtype: torch.dtype) -> int:
        """Return the values, and a bit for every coordinate where the mask travels."""
        return count(self.fraction, n) * dtype.itemsize + self.mask * bitmap_nbytes(n)

    def paper_bits(self, n: int) -> int:
        """Return 63 s + n: s values of 64 bits and a mask, no bit counted twice."""
        return 63 * count(self.fraction, n) + n

    def check(self, body: Body, n: int, dtype: torch.dtype) -> None:
        """Judge length, mask, and that all is finite."""
        check_length(body, self.longest(n, dtype))
        number, k = number_of(dtype), count(self.fraction, n)
        check_finite(read(body, number, k))
        if self.mask:
            self._mask(body, n, k * number.itemsize)

    def _mask(self, body: Body, n: int, start: int) -> Bools:
        chosen = unpack_bitmap(body[start:], n)
        if np.count_nonzero(chosen) != (k := count(self.fraction, n)):
            raise CodecError("wrong_positions", f"{np.count_nonzero(chosen)} in place of {k}")
        return chosen

    def _chosen(self, n: int, envelope: Envelope) -> Bools:
        key = (self.fraction, self.per_sender, self.per_pair, n)
        if key not in envelope.kept:
            pair = envelope.link if envelope.pair is None else envelope.pair
            ids = envelope.sender if self.per_sender else pair if self.per_pair else envelope.link
            envelope.kept[key] = random_subsets(envelope, ids, n, count(self.fraction, n))
        return envelope.kept[key]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RandK:
    """Random coordinates, the same for all receivers.

    With `unbiased` they are scaled by n / k, so that the mean is right.
    """

    fraction: float
    unbiased: bool = False
    per_link: ClassVar[bool] = False
    fixed_length: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction(self, self.fraction)

    @property
    def fit(self) -> Fit:
        """Scaled numbers are not the sender's."""
        return "differences" if self.unbiased else "part"

    def encode(self, rows: Tensor, envelope: Envelope) -> list[Body]:
        """Write the chosen values alone: the receiver draws the positions again."""
        return self._drawn.encode(self._scaled(rows), envelope)

    def decode(
        self, bodies: Sequence[Body], n: int, dtype: torch.dtype, envelope: Envelope
    ) -> Decoded:
        """Read the values and put them where they were chosen."""
        return self._drawn.decode(bodies, n, dtype, envelope)

    def through(self, rows: Tensor, envelope: Envelope) -> Decoded:
        """Keep the chosen ones, scaled."""
        return self._drawn.through(self._scaled(rows), envelope)

    def nbytes(self, rows: Tensor, envelope: Envelope) -> NDArray[np.int64]:
        """Return the length that all bodies have."""
        return self._drawn.nbytes(rows, envelope)

    def longest(self, n: int, dtype: torch.dtype) -> int:
        """Return the values alone."""
        return self._drawn.longest(n, dtype)

    def paper_bits(self, n: int) -> int:
        """Return 64-bit values and a mask."""
        return self._drawn.paper_bits(n)

    def check(self, body: Body, n: int, dtype: torch.dtype) -> None:
        """Judge length, and that all is finite."""
        self._drawn.check(body, n, dtype)

    @property
    def _drawn(self) -> Coordinates:
        return Coordinates(self.fraction, per_sender=True)

    def _scaled(self, rows: Tensor) -> Tensor:
        n = rows.shape[1]
        return n / count(self.fraction, n) * rows if self.unbiased else rows
