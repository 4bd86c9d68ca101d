"""Part of a row: random coordinates that both ends draw, so that no positions travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arguments import checked
from ..core import Body, ConfigError, Decoded, Envelope, Fit, check_entries
from ..errors import CodecError
from .bits import bitmap_nbytes, joined, unpack_bitmap
from .floats import array_of, check_finite, little_endian, number_of, read
from .selection import check_fraction, count, is_share, masked, random_subsets

__all__ = ["Coordinates", "RandK"]

Bools = NDArray[np.bool_]
Ids = NDArray[np.int64]


@checked
@dataclass(frozen=True)
class Coordinates:
    """A share of the coordinates, drawn uniformly without replacement for every message (PaME).

    `fraction` is the same for all clients, or one for each that sends (PaME's s_i); how many
    coordinates a body carries then follows from its length.

    The set is a function of seed, round, mixing and link; of the sender with `per_sender`, which
    gives all receivers of a row the same set; or of the two rows with `per_pair`, which gives both
    directions the same, so that symmetric mixing keeps the mean in every coordinate, as tracking on
    undirected graphs needs it. The receiver draws the set again, so only values travel; with `mask`
    the positions travel too, as n bits, for receivers that do not share the seed. A coordinate that
    was not carried counts as not delivered: `pull`, `push` and `average` treat it as a link that
    did not fire, so rows still sum to one and mass is conserved.
    """

    fraction: float | tuple[float, ...]
    per_sender: bool = False
    mask: bool = False
    per_pair: bool = False
    per_client: ClassVar[tuple[str, ...]] = ("fraction",)

    def __post_init__(self) -> None:
        check_entries(self, "fraction", is_share, "above 0 and at most 1")
        if self.per_sender and self.per_pair:
            raise ConfigError(
                "Coordinates cannot be drawn both per sender and per pair. Choose one."
            )
        if self.per_pair and not self.fixed_length:
            raise ConfigError(
                "Coordinates(..., per_pair=True) carries the same coordinates in both directions, "
                "so all clients have one fraction. Give one number."
            )

    @property
    def fit(self) -> Fit:
        """Some coordinates, exactly."""
        return "paired" if self.per_pair else "part"

    @property
    def per_link(self) -> bool:
        """Every link has a set of its own, unless the sender has."""
        return not self.per_sender

    @property
    def fixed_length(self) -> bool:
        """All bodies are as long, unless clients have fractions of their own."""
        return not isinstance(self.fraction, tuple)

    def count(self, n: int) -> int | Ids:
        """Return how many of n coordinates travel: one number, or one for each client."""
        if isinstance(self.fraction, tuple):
            return np.array([count(fraction, n) for fraction in self.fraction], np.int64)
        return count(self.fraction, n)

    def encode(self, rows: Tensor, envelope: Envelope) -> list[Body]:
        """Write the chosen values; then the mask, where it travels."""
        n, values = rows.shape[1], little_endian(array_of(rows))
        chosen = self._chosen(n, envelope, self._sent(n, envelope))
        return [
            joined(row.take(np.flatnonzero(here)), *([np.packbits(here)] if self.mask else []))
            for row, here in zip(values, chosen, strict=True)
        ]

    def decode(
        self, bodies: Sequence[Body], n: int, dtype: torch.dtype, envelope: Envelope
    ) -> Decoded:
        """Read the values and put them where they were chosen."""
        number, known = number_of(dtype), self._counts_by_length(n, dtype)
        counts = [_count_of(body, known) for body in bodies]
        each = list(zip(bodies, counts, strict=True))
        if self.mask:
            chosen = np.stack([_mask(body, k, n, number) for body, k in each])
        else:
            chosen = self._chosen(n, envelope, counts[0] if self.fixed_length else np.array(counts))
        values = np.zeros(chosen.size, number.newbyteorder("="))
        values[np.flatnonzero(chosen)] = np.concatenate([read(body, number, k) for body, k in each])
        return torch.from_numpy(values.reshape(chosen.shape)), torch.from_numpy(chosen)

    def through(self, rows: Tensor, envelope: Envelope) -> Decoded:
        """Keep the chosen ones."""
        n = rows.shape[1]
        here = torch.from_numpy(self._chosen(n, envelope, self._sent(n, envelope)))
        chosen = here.to(rows.device)
        return masked(rows, chosen), chosen

    def nbytes(self, rows: Tensor, envelope: Envelope) -> NDArray[np.int64]:
        """Return the length that all bodies have, or that of each sender's."""
        n = rows.shape[1]
        each = self._sent(n, envelope) * rows.dtype.itemsize + self._mask_nbytes(n)
        return np.broadcast_to(np.asarray(each, np.int64), len(rows))

    def longest(self, n: int, dtype: torch.dtype) -> int:
        """Return the values, and a bit for every coordinate where the mask travels."""
        return int(np.max(self.count(n))) * dtype.itemsize + self._mask_nbytes(n)

    def paper_bits(self, n: int) -> int | Ids:
        """Return 63 s + n: s values of 64 bits and a mask, no bit counted twice."""
        return 63 * self.count(n) + n

    def check(self, body: Body, n: int, dtype: torch.dtype) -> None:
        """Judge length, mask, and that all is finite."""
        k, number = _count_of(body, self._counts_by_length(n, dtype)), number_of(dtype)
        check_finite(read(body, number, k))
        if self.mask:
            _mask(body, k, n, number)

    def _mask_nbytes(self, n: int) -> int:
        return bitmap_nbytes(n) if self.mask else 0

    def _sent(self, n: int, envelope: Envelope) -> int | Ids:
        """How many coordinates travel: one number, or one for each sender."""
        counts = self.count(n)
        return counts if isinstance(counts, int) else counts[envelope.sender]

    def _counts_by_length(self, n: int, dtype: torch.dtype) -> dict[int, int]:
        """How many coordinates a body carries, by its length: as many as some client sends.

        A receiver judges a body before it knows whose it is, so no sender is asked for.
        """
        counts = np.unique(self.count(n)).tolist()
        return {k * dtype.itemsize + self._mask_nbytes(n): k for k in counts}

    def _chosen(self, n: int, envelope: Envelope, counts: int | Ids) -> Bools:
        """Tell which coordinates travel, `counts` of them, by what both ends know."""
        many = counts if isinstance(counts, int) else counts.tobytes()
        key = (many, self.per_sender, self.per_pair, n)
        if key not in envelope.kept:
            pair = envelope.link if envelope.pair is None else envelope.pair
            ids = envelope.sender if self.per_sender else pair if self.per_pair else envelope.link
            envelope.kept[key] = random_subsets(envelope, ids, n, counts)
        return envelope.kept[key]  # type: ignore[no-any-return]


def _count_of(body: Body, known: dict[int, int]) -> int:
    if len(body) not in known:
        lengths = " or ".join(map(str, dict.fromkeys((min(known), max(known)))))
        raise CodecError("wrong_shape", f"{len(body)} bytes in place of {lengths}")
    return known[len(body)]


def _mask(body: Body, k: int, n: int, number: np.dtype[Any]) -> Bools:
    """The positions that travel after k values."""
    chosen = unpack_bitmap(body[k * number.itemsize :], n)
    if np.count_nonzero(chosen) != k:
        raise CodecError("wrong_positions", f"{np.count_nonzero(chosen)} in place of {k}")
    return chosen


@checked
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

    def paper_bits(self, n: int) -> int | Ids:
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
