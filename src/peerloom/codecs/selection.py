"""Exactly k of n coordinates of each row: the largest, or random ones that both ends agree on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import ConfigError, Envelope, is_number, words

__all__ = ["check_fraction", "count", "is_share", "largest", "masked", "random_subsets"]

Bools = NDArray[np.bool_]
Ids = NDArray[np.int64]
_RAW = {4: torch.int32, 8: torch.int64}


def count(fraction: float, n: int) -> int:
    """Return how many of n coordinates travel: one at least."""
    return max(1, math.ceil(fraction * n - 1e-9))  # 0.1 * 30 is a hair above 3


def check_fraction(codec: object, fraction: float) -> None:
    """Refuse a share of the coordinates that is not above nothing and at most all."""
    if not is_share(fraction):
        name = type(codec).__name__
        raise ConfigError(f"{name}.fraction must be above 0 and at most 1, found {fraction!r}.")


def is_share(fraction: object) -> bool:
    """Whether it is a number above 0 and at most 1."""
    return is_number(fraction, most=1) and fraction > 0  # type: ignore[operator]  # a number


def largest(values: Tensor, k: int) -> Bools:
    """Tell which k numbers of each row are largest in size; of equals the first are taken."""
    n = values.shape[1]
    size = values.abs().cpu().numpy()
    # The bits of floats that are not negative order as the floats do, and whole numbers are
    # partitioned much faster.
    bits = size.view({4: np.int32, 8: np.int64}[size.itemsize])
    border = np.partition(bits, n - k, axis=1)[:, n - k, None]
    return _exactly(k, bits >= border, bits, border, lambda row, tied, many: tied[-many:])


def random_subsets(envelope: Envelope, ids: Ids, n: int, k: int | Ids) -> Bools:
    """Tell which k of n coordinates each id draws, uniformly without replacement.

    `k` is one number for all ids, or one for each.

    The k least of n random numbers are a uniform set. 16 bits of each number are drawn at first,
    and more only where two are equal at the border between in and out, so that the distribution is
    exact and the two ends never disagree on what is least.
    """
    seed, t, stream = envelope.draws.seed, envelope.t, f"coordinates/{envelope.index}"
    drawn = words(seed, stream, t, ids, (n + 3) // 4)
    short = drawn.astype("<u8", copy=False).view("<u2")[:, :n]

    def drop(row: int, tied: Ids, many: int) -> Ids:
        more = words(seed, f"{stream}/ties", t, ids[row : row + 1], len(tied))[0]
        return tied[np.argsort(more, kind="stable")[:many]]

    border = _least(short, k)
    return _exactly(k, short <= border, short, border, drop)


def masked(values: Tensor, chosen: Tensor) -> Tensor:
    """Return the values that were chosen, and 0.0 elsewhere.

    A product of bits: choosing by `where` takes several times as long, as which way it goes cannot
    be foreseen, and a product of the numbers would leave -0.0 and NaN.
    """
    raw = _RAW[values.element_size()]
    return (values.contiguous().view(raw) * chosen).view(values.dtype)


def _least(keys: NDArray[Any], k: int | Ids) -> NDArray[Any]:
    """Return the k-th least of each row, as a column."""
    if isinstance(k, int):
        return np.partition(keys, k - 1, axis=1)[:, k - 1, None]
    found = np.empty((len(keys), 1), keys.dtype)
    for one in np.unique(k).tolist():
        found[k == one] = _least(keys[k == one], one)
    return found


def _exactly(
    k: int | Ids,
    chosen: Bools,
    keys: NDArray[Any],
    border: NDArray[Any],
    drop: Callable[[int, Ids, int], Ids],
) -> Bools:
    """Leave out those that are equal to the border and too many; `drop` says which of them."""
    # Row by row: along an axis it takes three times as long.
    excess = np.array([np.count_nonzero(row) for row in chosen]) - k
    for row in np.flatnonzero(excess):
        tied = np.flatnonzero(keys[row] == border[row])
        chosen[row, drop(int(row), tied, int(excess[row]))] = False
    return chosen
