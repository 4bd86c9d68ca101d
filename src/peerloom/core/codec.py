"""Codecs: what a link carries of a row, as bytes, and what those bytes mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .draw import Draws

__all__ = ["Body", "Codec", "Decoded", "Envelope", "Fit", "WordCodec", "envelope_of_rows"]

Body = NDArray[np.uint8]  # one dimension, read-only
Decoded = tuple[Tensor, Tensor | None]
Ids = NDArray[np.int64]

Fit = Literal["whole", "paired", "part", "rounded", "differences"]
"""How rows arrive, and so what a codec may carry.

    whole        as they were sent
    paired       some coordinates as they were sent, the same in both directions of a link:
                 symmetric mixing keeps the mean
    part         some coordinates as they were sent
    rounded      all coordinates, nearly as they were sent
    differences  too coarsely for anything but differences from a copy, which make good later what
                 is left out now
"""


@dataclass(frozen=True, eq=False)
class Envelope:
    """What both ends of a link know of some rows without being told, and can therefore draw by."""

    draws: Draws
    t: int  # the round
    index: int  # which mixing of the round, or which compression
    link: Ids  # a number for each link, receiver and sender together
    sender: Ids
    pair: Ids | None = None  # a number for each two rows, whichever of them sends
    kept: dict[object, Any] = field(default_factory=dict)  # results that several calls share


@runtime_checkable
class Codec(Protocol):
    """What a link carries of a row.

    Four laws hold for every codec (`peerloom.testing.check_codec`). `decode(encode(x))` has the
    bits of `through(x)` wherever that is finite. `len(encode(x)[i])` is `nbytes(x)[i]` and at most
    `longest`. A row is encoded alike alone and among others. Any bytes decode to values, or raise
    CodecError.

    Values have a mask, bool [rows, n], that says which of them were carried; None stands for all.
    Values that were not carried are zero.
    """

    @property
    def fit(self) -> Fit:
        """How rows arrive; where they arrive whole, mixing is a matrix product."""

    @property
    def per_link(self) -> bool:
        """Whether a body depends on its link; if not, a row is encoded once for all receivers."""

    @property
    def fixed_length(self) -> bool:
        """Whether all bodies of one n and dtype have the same length, which is `longest`."""

    def encode(self, rows: Tensor, envelope: Envelope) -> list[Body]:
        """Encode rows [k, n] as one body each. They share no memory with the rows."""

    def decode(
        self, bodies: Sequence[Body], n: int, dtype: torch.dtype, envelope: Envelope
    ) -> Decoded:
        """Decode bodies to values [k, n] and their mask. Raises CodecError."""

    def through(self, rows: Tensor, envelope: Envelope) -> Decoded:
        """Return what `decode` makes of what `encode` makes of the rows, without the bytes."""

    def nbytes(self, rows: Tensor, envelope: Envelope) -> Ids:
        """Return the length of each body without encoding it."""

    def longest(self, n: int, dtype: torch.dtype) -> int:
        """Return the most bytes that a body of n numbers can have."""

    def paper_bits(self, n: int) -> int | Ids | None:
        """Return the bits of a row as the papers count them; None where they count what travels.

        One number, or one for each row that sends.
        """

    def check(self, body: Body, n: int, dtype: torch.dtype) -> None:
        """Judge a body from elsewhere: its length, its content, and that all is finite.

        Raises CodecError, whose `reason` is a word for counting.
        """


@runtime_checkable
class WordCodec(Codec, Protocol):
    """A codec that writes one word per coordinate, in their order, and draws nothing.

    So any run of coordinates can be encoded, checked and decoded by itself: rows that are large
    are never worked on as a whole.
    """

    def word_bytes(self, dtype: torch.dtype) -> int:
        """Return the bytes of one word, for rows of this type."""


def envelope_of_rows(draws: Draws, t: int, index: int, rows: Ids) -> Envelope:
    """Draw by the sender alone, so that all its receivers decode the same."""
    return Envelope(draws, t, index, rows, rows)
