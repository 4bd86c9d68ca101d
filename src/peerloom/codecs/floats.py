"""Floating-point numbers in bodies: little-endian, of the rows' own type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Body
from ..errors import CodecError

__all__ = [
    "array_of",
    "check_finite",
    "check_length",
    "fixed",
    "little_endian",
    "number_of",
    "read",
]

Array = NDArray[Any]
_NUMBERS: dict[torch.dtype, np.dtype[Any]] = {
    torch.float32: np.dtype("<f4"),
    torch.float64: np.dtype("<f8"),
}


def number_of(dtype: torch.dtype) -> np.dtype[Any]:
    """Return the type of one number as it travels."""
    return _NUMBERS[dtype]


def array_of(rows: Tensor) -> Array:
    """Return rows as an array in this machine's memory; a view where they are there already."""
    return rows.detach().cpu().contiguous().numpy()


def little_endian(values: Array) -> Array:
    """Return the numbers as they travel; the same array on all but a few machines."""
    return values.astype(values.dtype.newbyteorder("<"), copy=False)


def read(body: Body, number: np.dtype[Any], count: int) -> Array:
    """Read the first numbers of a body, without a copy."""
    if len(body) < count * number.itemsize:
        raise CodecError("wrong_shape", f"{len(body)} bytes are too few")
    return np.frombuffer(body, number, count)


def check_length(body: Body, length: int) -> None:
    """Refuse a body of another length."""
    if len(body) != length:
        raise CodecError("wrong_shape", f"{len(body)} bytes in place of {length}")


def check_finite(values: Array) -> None:
    """Refuse NaN and infinities: all are finite exactly if the largest and the least are."""
    with np.errstate(all="ignore"):  # somebody else's numbers may be anything
        if len(values) and not (math.isfinite(values.max()) and math.isfinite(values.min())):
            raise CodecError("not_finite")


def fixed(rows: Tensor, length: int) -> NDArray[np.int64]:
    """Return one length for all rows."""
    return np.full(len(rows), length, np.int64)
