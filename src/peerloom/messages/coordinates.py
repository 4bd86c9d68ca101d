"""Part of a row: random coordinates that both ends draw for themselves, so that no positions travel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import ConfigError, Fit, Trip
from .selection import places, random_subsets, spread

__all__ = ["Coordinates", "check_fraction", "count"]


@dataclass(frozen=True)
class Coordinates:
    """A share of the coordinates, drawn uniformly without replacement and anew for every message (PaME).

    The set is a function of seed, round, mixing and link; of the sender with `per_sender`, which gives all receivers of a
    row the same set; or of the two rows with `per_pair`, which gives both directions the same, so that symmetric mixing
    keeps the mean in every coordinate, as tracking on undirected graphs needs it. The receiver draws the set again, so only
    values travel; with `mask` the positions travel too, as n bits, for receivers that do not share the seed. A coordinate
    that was not carried counts as not delivered: `pull`, `push` and `average` treat it as a link that did not fire, so rows
    still sum to one and mass is conserved.
    """

    fraction: float
    per_sender: bool = False
    mask: bool = False
    per_pair: bool = False

    def __post_init__(self) -> None:
        check_fraction(self, self.fraction)
        if self.per_sender and self.per_pair:
            raise ConfigError("Coordinates cannot be drawn both per sender and per pair. Choose one.")

    @property
    def fit(self) -> Fit:
        """Some coordinates, exactly."""
        return "paired" if self.per_pair else "part"

    def count(self, n: int) -> int:
        """How many of n coordinates travel."""
        return count(self.fraction, n)

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """The values at the chosen coordinates; then those coordinates, where the mask travels."""
        at = self._chosen(values.shape[1], trip, values.device)
        carried = values.gather(1, at)
        return torch.cat([carried, at.to(values)], dim=1) if self.mask else carried

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Values back to their coordinates, and where they are."""
        if self.mask:
            packed, at = packed.tensor_split(2, dim=1)
            return spread(packed, at.long(), n), spread(torch.ones_like(packed), at.long(), n)
        at = self._chosen(n, trip, packed.device)
        return spread(packed, at, n), spread(torch.ones_like(packed), at, n)

    def through(self, values: Tensor, trip: Trip) -> Tensor:
        """The chosen ones."""
        at = self._chosen(values.shape[1], trip, values.device)
        return spread(values.gather(1, at), at, values.shape[1])

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """The values, and a bit for every coordinate where the mask travels."""
        return 8 * count(self.fraction, n) * dtype.itemsize + n * self.mask

    def paper_bits(self, n: int) -> int:
        """64-bit values and a mask of n bits, in which the values' own bits are not counted twice: 63 s + n."""
        return 63 * count(self.fraction, n) + n

    def _chosen(self, n: int, trip: Trip, device: torch.device) -> Tensor:
        key = (self, n)
        if key not in trip.drawn:
            pair = trip.link if trip.pair is None else trip.pair
            who = trip.sender if self.per_sender else pair if self.per_pair else trip.link
            k = count(self.fraction, n)
            trip.drawn[key] = places(random_subsets(trip, who, n, k), k).to(device)
        return trip.drawn[key]  # type: ignore[no-any-return]


def count(fraction: float, n: int) -> int:
    """How many of n coordinates travel: one at least."""
    return max(1, math.ceil(fraction * n - 1e-9))  # 0.1 * 30 is a hair above 3


def check_fraction(message: object, fraction: float) -> None:
    """A share of the coordinates is above nothing and at most all."""
    if not 0 < fraction <= 1:
        raise ConfigError(f"{type(message).__name__}.fraction must be above 0 and at most 1, found {fraction}.")
