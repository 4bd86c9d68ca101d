"""Wires: all that an engine supplies. They carry rows, or the bytes of rows, along links."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .codec import Body, Decoded
from .network import Links
from .offers import Compressed, Part

__all__ = [
    "ByteDelivery",
    "ByteWire",
    "Carried",
    "Delivery",
    "LateBody",
    "LateRow",
    "Lengths",
    "Part",
    "RowWire",
    "Rows",
    "Tag",
    "columns_of",
    "is_wide",
    "runs_of",
]

Bools = NDArray[np.bool_]
Ids = NDArray[np.int64]
Lengths = int | Ids  # bytes: one number for all links, or one for each
Tag = tuple[int, int]  # the round, and which mixing of it
_NUMBERS = 1 << 18  # of the rows of one run of links: few enough to stay in cache
_PIECE = 1 << 21  # bytes of a row that are worked on together, where rows are wide


def runs_of(links: int, width: int) -> Iterator[slice]:
    """Cut links whose rows have this width into runs that are worked on together."""
    size = max(1, _NUMBERS // width)
    return (slice(first, min(first + size, links)) for first in range(0, links, size))


def is_wide(rows: Tensor) -> bool:
    """Whether rows are so wide that work on them is cut into runs of coordinates."""
    return rows.shape[1] * rows.element_size() > _PIECE


def columns_of(rows: Tensor) -> Iterator[slice]:
    """Cut the coordinates of rows into runs that are worked on together."""
    width, size = rows.shape[1], _PIECE // rows.element_size()
    return (slice(first, min(first + size, width)) for first in range(0, width, size))


class Carried(Protocol):
    """Rows that links carried, in link order; decoded when asked for, so that few are in memory."""

    def __getitem__(self, links: slice, /) -> Decoded:
        """Return the values and the mask of a run of links."""

    def columns(self, columns: slice, /) -> Carried | None:
        """Return a run of coordinates of them; None where rows can only be decoded whole."""


class Rows:
    """Rows that are there as they are."""

    def __init__(self, values: Tensor, mask: Tensor | None = None) -> None:
        self._values, self._mask = values, mask

    def __getitem__(self, links: slice, /) -> Decoded:
        """Return a run of them."""
        return self._values[links], None if self._mask is None else self._mask[links]

    def columns(self, columns: slice, /) -> Rows:
        """Return a run of coordinates of them."""
        mask = None if self._mask is None else self._mask[:, columns]
        return Rows(self._values[:, columns], mask)


class LateRow(NamedTuple):
    """A row that was sent for an earlier mixing and has only come now: one tensor for each part.

    `own` is what its receiver sent the other way then, where what one end gains the other must
    lose.
    """

    tag: Tag  # of the mixing it was sent for
    link: int
    row: Sequence[Tensor]
    own: Sequence[Tensor] | None = None


class Delivery(NamedTuple):
    """What a wire brought.

    Late rows matter to offers that are pushed: their mass left the sender then, and is added now.
    Beside what the receiver sent the other way they matter to pulled ones, too: a (x_j - x_i) of
    that time, which the sender moved the other way, is moved now. To all others a row that was not
    there in time is a link that did not fire.
    """

    parts: Sequence[Carried]  # of each part, the rows that arrived
    sent: Sequence[Carried]  # of each part, the rows that were sent, as their receivers decode them
    lengths: Sequence[Lengths]  # of each part, the bytes of the rows that were sent
    arrived: Bools  # of the links in
    acked: Bools  # of the links out: it was sent, and will arrive sooner or later
    late: tuple[LateRow, ...] = ()


class RowWire(Protocol):
    """Delivers rows along links, and reports what arrived and what was sent."""

    def exchange(
        self,
        tag: Tag,
        links: Links,
        out: Ids,
        rows: Sequence[Tensor | Compressed],
        into: Ids,
        parts: tuple[Part, ...],
    ) -> Delivery:
        """Send the rows of their senders along the links `out`; return what came along `into`.

        `rows` are, for each part, all rows that live here.
        """


class LateBody(NamedTuple):
    """Bytes that were sent for an earlier mixing and have only come now; see `LateRow`."""

    tag: Tag
    link: int
    body: Body
    own: Body | None = None


class ByteDelivery(NamedTuple):
    """What a wire between processes brought; see `Delivery`."""

    bodies: list[Body]  # of the links that arrived
    arrived: Bools
    acked: Bools
    late: tuple[LateBody, ...] = ()


class ByteWire(Protocol):
    """Delivers bytes along links, each to the process of its receiver."""

    def exchange(
        self, tag: Tag, links: Links, out: Ids, bodies: Sequence[Body], into: Ids
    ) -> ByteDelivery:
        """Send a body along each of the links `out`; return what came along the links `into`.

        The bodies are the wire's from then on: nobody changes them any more. The same object stands
        for the same bytes.
        """
