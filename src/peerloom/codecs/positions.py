"""Positions that only the sender knows: k of n, in the shortest code or as plain numbers."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..core import Body
from ..errors import CodecError
from .bits import (
    bitmap_nbytes,
    elias_fano_nbytes,
    pack_elias_fano,
    pack_fixed,
    position_width,
    unpack_bitmap,
    unpack_elias_fano,
    unpack_fixed,
)

__all__ = ["Positions", "pack_positions", "positions_nbytes", "unpack_positions"]

Ids = NDArray[np.int64]
Positions = Literal["shortest", "index"]


def positions_nbytes(how: Positions, n: int, k: int) -> int:
    """Return the length of k positions below n, which is the same for every set of them."""
    return min(_lengths(how, n, k).values())


def pack_positions(how: Positions, at: Ids, n: int) -> list[Body]:
    """Write rising positions below n, as runs of bytes."""
    code = _code(how, n, len(at))
    if code == "bitmap":
        chosen = np.zeros(n, np.uint8)
        chosen[at] = 1
        return [np.packbits(chosen)]
    return pack_elias_fano(at, n) if code == "elias-fano" else [pack_fixed(at, position_width(n))]


def unpack_positions(how: Positions, body: Body, n: int, k: int) -> Ids:
    """Read k rising positions below n."""
    code = _code(how, n, k)
    if code == "bitmap":
        at = np.flatnonzero(unpack_bitmap(body, n))
    elif code == "elias-fano":
        at = unpack_elias_fano(body, n, k)
    else:
        at = unpack_fixed(body, k, position_width(n))
    if len(at) != k or at[-1] >= n or (at[1:] <= at[:-1]).any():
        raise CodecError("wrong_positions", f"{k} of {n} must rise")
    return at


def _code(how: Positions, n: int, k: int) -> str:
    lengths = _lengths(how, n, k)
    return min(lengths, key=lambda code: lengths[code])


def _lengths(how: Positions, n: int, k: int) -> dict[str, int]:
    """Return the bytes of every code that may be used; of equals the first is taken."""
    index = {"index": -(-k * position_width(n) // 8)}
    if how == "index":
        return index
    return {"bitmap": bitmap_nbytes(n), "elias-fano": elias_fano_nbytes(n, k)} | index
