"""Part of a row: random coordinates that both ends draw for themselves, so that no positions travel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import ConfigError, Trip, uniform

__all__ = ["Coordinates"]


@dataclass(frozen=True)
class Coordinates:
    """A share of the coordinates, drawn uniformly without replacement and anew for every message (PaME).

    The set is a function of seed, round, mixing and link, or of the sender with `per_sender`, which gives all receivers of a
    row the same set. The receiver draws it again, so only values travel; the papers' count adds a mask of n bits. A
    coordinate that was not carried counts as not delivered: `pull`, `push` and `average` treat it as a link that did not
    fire, coordinate by coordinate, so rows still sum to one and mass is conserved.
    """

    fraction: float
    per_sender: bool = False
    whole: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ConfigError(f"Coordinates.fraction must be above 0 and at most 1, found {self.fraction}.")

    def count(self, n: int) -> int:
        """How many of n coordinates travel: one at least."""
        return max(1, math.ceil(self.fraction * n - 1e-9))  # 0.1 * 30 is a hair above 3

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """The values at the chosen coordinates."""
        return values.gather(1, self._chosen(values.shape[1], trip, values.device))

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Values back to their coordinates, and where they are."""
        at = self._chosen(n, trip, packed.device)
        nothing = torch.zeros(len(packed), n, dtype=packed.dtype, device=packed.device)
        return nothing.scatter(1, at, packed), nothing.scatter(1, at, 1.0)

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """The values alone."""
        return 8 * self.count(n) * dtype.itemsize

    def paper_bits(self, n: int) -> int:
        """64-bit values and a mask of n bits, in which the values' own bits are not counted twice: 63 s + n."""
        return 63 * self.count(n) + n

    def _chosen(self, n: int, trip: Trip, device: torch.device) -> Tensor:
        who: NDArray[np.int64] = trip.sender if self.per_sender else trip.link
        if not len(who):
            return torch.empty(0, self.count(n), dtype=torch.int64, device=device)
        # The s least of n uniforms are a uniform set of s; sorted, so that both ends lay the values in one order.
        u = uniform(trip.draws.seed, f"coordinates/{trip.turn}", trip.t, who, lanes=n)
        least = np.argpartition(u, self.count(n) - 1, axis=1)[:, : self.count(n)]
        return torch.from_numpy(np.sort(least, axis=1)).to(device)
