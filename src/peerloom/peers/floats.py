"""Rows of floats as the bodies of parcels: little-endian numbers, checked on arrival."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..transport import Body, Channel, RefusedError

__all__ = ["FloatCheck", "float_channel", "from_body", "to_body"]

_PIECE = 1 << 18  # bytes looked at together: they stay in the cache


def to_body(row: NDArray[np.floating]) -> Body:
    """The bytes of a row: without a copy where nobody can change it."""
    row = np.ascontiguousarray(row, row.dtype.newbyteorder("<"))
    body = row.view(np.uint8)
    if row.flags.writeable:
        body = body.copy()
        body.flags.writeable = False
    return body


def from_body(body: Body, dtype: str) -> NDArray[Any]:
    """The row in a body, without a copy."""
    return body.view(np.dtype(dtype).newbyteorder("<"))


def float_channel(
    dtype: str,
    lengths: Iterable[int],
    largest_norm: float | None = None,
    mix_index: int | None = None,
    judged: Sequence[tuple[int, int]] | None = None,
) -> Channel:
    """A channel for rows of one dtype whose length is one of these.

    `judged` are the places (first, end) of the vectors whose norm is limited, by default the row.
    """
    number, agreed = np.dtype(dtype), sorted(set(lengths))
    check = FloatCheck(dtype, agreed, largest_norm, judged)
    return Channel(
        number.itemsize * agreed[-1], check, f"{dtype} {' '.join(map(str, agreed))}", mix_index
    )


class FloatCheck:
    """Refuses wrong lengths, NaN, infinities and, with a bound, vectors whose norm exceeds it."""

    def __init__(
        self,
        dtype: str,
        lengths: Iterable[int],
        largest_norm: float | None = None,
        judged: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self._number = np.dtype(dtype).newbyteorder("<")
        self._sizes = frozenset(length * self._number.itemsize for length in lengths)
        self._largest_norm, self._judged = largest_norm, judged

    def __call__(self, body: memoryview) -> None:
        """Check the whole body of a parcel."""
        if len(body) not in self._sizes:
            raise RefusedError("wrong_shape")
        with np.errstate(all="ignore"):  # a neighbour's numbers may be anything
            for at in range(0, len(body), _PIECE):
                values = np.frombuffer(body[at : at + _PIECE], self._number)
                # All are finite exactly if the largest and the least are, since NaN outdoes both.
                if not (math.isfinite(values.max()) and math.isfinite(values.min())):
                    raise RefusedError("not_finite")
            if self._largest_norm is not None:
                width = self._number.itemsize
                whole = [(0, len(body) // width)]
                for first, end in whole if self._judged is None else self._judged:
                    if not self._norm(body[first * width : end * width]) <= self._largest_norm:
                        raise RefusedError("norm")

    def _norm(self, vector: memoryview) -> float:
        """The Euclidean norm, of numbers whose squares may be infinite."""
        squares = 0.0
        for at in range(0, len(vector), _PIECE):
            values = np.frombuffer(vector[at : at + _PIECE], self._number)
            squares += float(np.square(values, dtype=np.float64).sum())
        return math.sqrt(squares)
