"""A problem without slope or data: what is left of a rule is how it mixes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..core import Draws, Evaluation, Placement

__all__ = ["Flat"]


class Flat:
    """Zero gradients, and a proximal step that leaves a point where it is.

    `kick` [clients, n] are gradients of the first round only: they part the models of rules that
    want all of them to start from one.
    """

    # For a problem whose rows have another length: settings that are for that length stay unused.
    stands_in: ClassVar[bool] = True

    def __init__(self, n: int, kick: ArrayLike | None = None, rows: int = 0) -> None:
        self.n, self.batches = n, np.ones(rows, np.int64)  # all data of a row are one batch
        self._kick = None if kick is None else torch.from_numpy(np.array(kick, np.float64))

    def start(self, seed: int) -> Tensor:
        """Zero."""
        return torch.zeros(self.n, dtype=torch.float64)

    def bind(self, place: Placement, draws: Draws) -> Flat:
        """The same, with the kicks of the rows that live there."""
        rows = torch.from_numpy(place.rows)
        return Flat(self.n, None if self._kick is None else self._kick[rows].numpy(), len(rows))

    def grad(self, x: Tensor, on: NDArray[np.int64], t: int, batch: int = 0) -> Tensor:
        """Zero, but for the kick."""
        rows = torch.from_numpy(on)
        if self._kick is None or t != 1:
            return torch.zeros_like(x[rows])
        return self._kick[rows].to(x)

    def whole_gradients(self, x: Tensor, on: NDArray[np.int64]) -> Tensor:
        """Zero."""
        return torch.zeros_like(x[torch.from_numpy(on)])

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The point itself."""
        return z

    def evaluate(self, x: Tensor) -> Evaluation:
        """Nothing to judge."""
        return Evaluation(np.zeros(len(x)), None)
