"""Mini-batches: on which samples every client's gradient of a round is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError, Draws, Placement

__all__ = ["Batches", "different"]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Some = Ids | slice


class Batches:
    """The batches of the rows that live here, pure functions of (seed, round, client).

    `sizes` has that of every row; None stands for all samples of each. With `replace` a sample may
    be in a batch several times, without it once at the most.
    """

    def __init__(
        self,
        parts: Sequence[Ids],
        sizes: Ids | None,
        replace: bool,
        place: Placement,
        draws: Draws,
        whose: str = "Classification",
    ) -> None:
        self._parts, self._place, self._draws, self._replace = parts, place, draws, replace
        self._held = np.array([len(part) for part in parts], np.int64)
        self._flat = np.concatenate([np.zeros(0, np.int64), *parts])
        self._offsets = np.cumsum(self._held) - self._held
        self.whole, self.sizes = sizes is None, self._held if sizes is None else sizes
        few = self.sizes > self._held
        if not replace and few.any():
            first = int(np.flatnonzero(few)[0])
            raise ConfigError(
                f"{whose}.batch: client {place.rows[first]} holds {self._held[first]} "
                f"samples, too few for a batch of {self.sizes[first]} without replacement. Give a "
                "smaller batch, or one for each client, or replace = true."
            )

    def __call__(self, on: Ids, t: int, of: str = "") -> Iterator[tuple[Some, Ids]]:
        """The batches of the rows `on` in round t, those of one size together.

        For each size, which of the rows have it, and the numbers of their samples [k, size]. `of`
        tells several batches of a round apart.
        """
        sizes = self.sizes[on]
        every = np.unique(sizes).tolist()
        for size in every:
            which = slice(None) if len(every) == 1 else np.flatnonzero(sizes == size)
            rows = on[which]
            if self.whole:
                yield which, np.stack([self._parts[i] for i in rows])
            else:
                yield which, self._drawn(rows, t, of, size)

    def _drawn(self, rows: Ids, t: int, of: str, size: int) -> Ids:
        # As many draws for all, so that they are made together; those of a row come first to last.
        lanes = int(self.sizes.max())
        some = slice(None) if len(rows) == len(self._parts) else rows  # a slice copies nothing
        u = self._draws(f"batch{of}", t, self._place.rows, lanes)[some, :size]
        held = self._held[some, None]
        at = (u * held).astype(np.int64) if self._replace else different(u, held)
        return np.asarray(self._flat[self._offsets[some, None] + at])


def different(u: Floats, held: Ids) -> Ids:
    """Different whole numbers below `held` [k, 1], as many as there are uniforms u [k, B] of a row.

    Each set of B numbers is as likely (Floyd's algorithm: of the j-th number from the last B, take
    one up to it, or itself where that one is taken already).
    """
    size = u.shape[1]
    tops = held - size + np.arange(size)
    found: Ids = (u * (tops + 1)).astype(np.int64)
    # Where all numbers of a row are different already, none was ever taken.
    ordered = np.sort(found, axis=1)
    rows = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if not len(rows):
        return found
    taken, each = np.zeros((len(rows), int(held.max())), bool), np.arange(len(rows))
    for j in range(size):
        tried = found[rows, j]
        chosen = np.where(taken[each, tried], tops[rows, j], tried)
        taken[each, chosen] = True
        found[rows, j] = chosen
    return found
