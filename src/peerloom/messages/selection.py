"""Exactly k of n coordinates of each row: the largest, or random ones that both ends of a link agree on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Trip, words

__all__ = ["largest", "places", "random_subsets", "spread"]

Bools = NDArray[np.bool_]
Ids = NDArray[np.int64]


def largest(values: Tensor, k: int) -> Bools:
    """Which k numbers of each row are largest in size; of equals the first are taken."""
    n = values.shape[1]
    size = values.abs().cpu().numpy()
    # The bits of floats that are not negative order as the floats do, and whole numbers are partitioned much faster.
    bits = size.view({4: np.int32, 8: np.int64}[size.itemsize])
    border = np.partition(bits, n - k, axis=1)[:, n - k, None]
    return _exactly(k, bits >= border, bits, border, lambda row, tied, many: tied[-many:])


def random_subsets(trip: Trip, who: Ids, n: int, k: int) -> Bools:
    """Which k of n places each of `who` draws, uniformly without replacement.

    The k least of n random numbers are a uniform set. 16 bits of each number are drawn at first, and more only where two are
    equal at the border between in and out, so that the law is exact and the two ends never disagree on what is least.
    """
    stream = f"coordinates/{trip.turn}"
    short = words(trip.draws.seed, stream, trip.t, who, (n + 3) // 4).astype("<u8", copy=False).view("<u2")[:, :n]

    def drop(row: int, tied: Ids, many: int) -> Ids:
        more = words(trip.draws.seed, f"{stream}/ties", trip.t, who[row : row + 1], len(tied))[0]
        return tied[np.argsort(more, kind="stable")[:many]]

    border = np.partition(short, k - 1, axis=1)[:, k - 1, None]
    return _exactly(k, short <= border, short, border, drop)


def places(chosen: Bools, k: int) -> Tensor:
    """Where the k chosen ones of each row are, in rising order, [rows, k]."""
    rows, n = chosen.shape
    return torch.from_numpy(np.flatnonzero(chosen).reshape(rows, k) - n * np.arange(rows)[:, None])


def spread(values: Tensor, at: Tensor, n: int) -> Tensor:
    """Rows of n with these values at those places, and zeros elsewhere."""
    return torch.zeros(len(values), n, dtype=values.dtype, device=values.device).scatter_(1, at, values)


def _exactly(k: int, chosen: Bools, keys: NDArray[Any], border: NDArray[Any], drop: Callable[[int, Ids, int], Ids]) -> Bools:
    """Without those that are equal to the border and too many; `drop` says which of them."""
    excess = np.array([np.count_nonzero(row) for row in chosen]) - k  # along an axis it takes three times as long
    for row in np.flatnonzero(excess):
        tied = np.flatnonzero(keys[row] == border[row])
        chosen[row, drop(int(row), tied, int(excess[row]))] = False
    return chosen
