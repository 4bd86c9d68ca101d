"""Gradients row by row, by autograd: the readable way, which every module can go."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ..generators import seeded
from ..layout import RowLayout
from ..losses import Loss
from .gradients import Batches, Seeds
from .modules import BatchNorm, keeps_statistics

__all__ = ["RowLoop"]

_JUDGED = 1000  # samples per pass of `scores`


class RowLoop:
    """Any nn.Module: one model after the other, its parameters being views of its row.

    Images are laid out with channels last, as convolutions want them (`bench --case cnn-10`).
    """

    def __init__(self, module: nn.Module, loss: Loss | None) -> None:
        self._module, self._loss, self._layout = module, loss, RowLayout(module)
        self._statistics = keeps_statistics(module)
        self._images = any(isinstance(part, nn.Conv2d) for part in module.modules())

    def gradients(self, x: Tensor, inputs: Tensor, labels: Tensor, seeds: Seeds) -> Tensor:
        """Forward and backward for each row."""
        assert self._loss is not None
        g = torch.empty_like(x, memory_format=torch.contiguous_format)
        self._module.train()
        parameters = list(self._module.parameters())
        every_seed = seeds()
        for k in range(len(x)):
            self._layout.place(x[k], self._module)
            # Always seeded: a module may draw anywhere in its forward, not only in random layers.
            with seeded(every_seed[k], x.device), torch.enable_grad():
                scores = self._module(self._laid_out(inputs[k]))
                loss = self._loss.value(scores, labels[k]).mean()
                found = torch.autograd.grad(
                    loss, parameters, allow_unused=True, materialize_grads=True
                )
            torch.cat([part.flatten() for part in found], out=g[k])
        return g

    @torch.no_grad()
    def scores(self, x: Tensor, inputs: Tensor, calibration: Batches) -> Iterator[Tensor]:
        """In evaluation mode, some samples at a time."""
        for row in x:
            self._layout.place(row, self._module)
            if self._statistics:
                self._calibrate(calibration)
            self._module.eval()
            some = torch.split(inputs, _JUDGED)
            yield torch.cat([self._module(self._laid_out(part)) for part in some])

    def _calibrate(self, calibration: Batches) -> None:
        """Set running statistics anew: a function of model and data, no part of the state."""
        for part in self._module.modules():
            if isinstance(part, BatchNorm):
                part.reset_running_stats()
                part.momentum = None  # a plain mean over the batches that follow
        self._module.train()
        for batch in calibration():
            with seeded(0, batch.device):
                self._module(self._laid_out(batch))

    def _laid_out(self, inputs: Tensor) -> Tensor:
        if self._images and inputs.ndim == 4:
            return inputs.contiguous(memory_format=torch.channels_last)
        return inputs
