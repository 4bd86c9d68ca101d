"""Mixing weights, and the checks that say which row is wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import ConfigError

__all__ = [
    "check_column_stochastic",
    "check_row_stochastic",
    "check_symmetric",
    "metropolis",
    "uniform",
]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


def metropolis(rows: int, src: Ids, dst: Ids) -> tuple[Floats, Floats]:
    """Metropolis weights: symmetric and doubly stochastic.

        r_ij = 1 / (1 + max(|N_i|, |N_j|)), with the degrees of the fixed graph

    Two neighbours need only each other's degree. Returns (a, b), which are equal here.
    """
    degree = np.bincount(dst, minlength=rows)
    r = 1 / (1 + np.maximum(degree[src], degree[dst]))
    return r, r


def uniform(rows: int, src: Ids, dst: Ids) -> tuple[Floats, Floats]:
    """Weights for directed graphs, which each end of a link can know alone: (a, b).

    a_ij = 1 / (1 + in-degree of i)     b_ij = 1 / (1 + out-degree of j)
    """
    into, out = np.bincount(dst, minlength=rows), np.bincount(src, minlength=rows)
    return 1 / (1 + into[dst]), 1 / (1 + out[src])


def check_row_stochastic(W: ArrayLike, name: str = "W") -> Floats:
    """Check that rows of W sum to one and nothing is negative; names the first bad row."""
    return _check(np.asarray(W, np.float64), name, "row")


def check_column_stochastic(W: ArrayLike, name: str = "W") -> Floats:
    """Check that columns of W sum to one and nothing is negative; names the first bad column."""
    return _check(np.asarray(W, np.float64).T, name, "column").T


def check_symmetric(W: ArrayLike, name: str = "W") -> Floats:
    """Check that W equals its transpose; names the first pair that differs."""
    W = np.asarray(W, np.float64)
    uneven = np.argwhere(~np.isclose(W, W.T, rtol=0, atol=1e-9))
    if len(uneven):
        i, j = uneven[0]
        raise ConfigError(
            f"{name}[{i}, {j}] is {W[i, j]:.6g}, but {name}[{j}, {i}] is {W[j, i]:.6g}. "
            "Make the matrix symmetric, or use a rule for directed graphs."
        )
    return W


def _check(W: Floats, name: str, side: str) -> Floats:
    if W.ndim != 2 or W.shape[0] != W.shape[1]:
        raise ConfigError(
            f"{name} has shape {W.shape}. A mixing matrix is square: one row per client."
        )
    for k, row in enumerate(W):
        if not np.isfinite(row).all() or (row < 0).any():
            raise ConfigError(
                f"{name}, {side} {k}: entries must be finite and not negative; "
                f"the least is {row.min():.6g}."
            )
        if abs(row.sum() - 1) > 1e-9:
            raise ConfigError(
                f"{name}, {side} {k} sums to {row.sum():.9g}, not to 1. "
                "Put what is missing on the diagonal, or rescale."
            )
    return W
