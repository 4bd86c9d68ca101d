"""What a way to compute gradients must offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from torch import Tensor

__all__ = ["Batches", "Gradients", "Seeds"]

Seeds = Callable[[], list[int]]  # both are asked for only by modules that need them
Batches = Callable[[], list[Tensor]]


class Gradients(Protocol):
    """Gradients and scores of many models of one module, each on a batch of its own.

    Models are rows x [k, n]; a row holds the module's parameters in the order torch lists them.
    """

    def gradients(self, x: Tensor, inputs: Tensor, labels: Tensor, seeds: Seeds) -> Tensor:
        """The gradient [k, n] of each model's mean loss.

        Model i has inputs[i] [batch, ...] and labels[i] [batch]. Seeds, one per model, feed random
        layers (dropout).
        """

    def scores(self, x: Tensor, inputs: Tensor, calibration: Batches) -> Iterator[Tensor]:
        """The scores of each model on the same inputs [samples, ...], model after model.

        Statistics of layers that keep some (batch norm) are taken from `calibration`.
        """
