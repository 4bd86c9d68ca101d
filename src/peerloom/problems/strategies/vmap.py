"""Gradients of small networks by torch.func: grad of one model, vmap over all."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ...core import ConfigError
from ..layout import RowLayout
from ..losses import Loss
from .gradients import Batches, Seeds
from .modules import has_dropout, keeps_statistics
from .row_loop import RowLoop

__all__ = ["Vmap", "vmap_works"]


class Vmap:
    """All models at once, by torch.vmap.

    Faster than `RowLoop` for small work (`bench --case gradients`).
    """

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        if has_dropout(module) or keeps_statistics(module):
            raise ConfigError(
                "strategy 'vmap' cannot run dropout or batch norm with statistics. Use 'loop' or "
                "'auto'."
            )
        self._module, self._layout = module, RowLayout(module)

        def mean_loss(parameters: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
            return loss.value(functional_call(module, parameters, (inputs,)), labels).mean()

        self._gradients = vmap(grad(mean_loss))

    def gradients(self, x: Tensor, inputs: Tensor, labels: Tensor, seeds: Seeds) -> Tensor:
        """Parameters in as views of the rows, gradients back as rows."""
        self._module.train()
        return self._layout.rows(self._gradients(self._layout.views(x), inputs, labels))

    def scores(self, x: Tensor, inputs: Tensor, calibration: Batches) -> Iterator[Tensor]:
        """Model after model: evaluation is rare, and its batches are large already."""
        return RowLoop(self._module, None).scores(x, inputs, calibration)


def vmap_works(module: nn.Module, loss: Loss, sample: Tensor, label: Tensor | None = None) -> bool:
    """Whether torch can follow the module for several models at once.

    Control flow that depends on values, for one, it cannot follow.
    """
    with torch.no_grad():
        row = torch.cat([parameter.flatten() for parameter in module.parameters()])
        if label is None:
            label = torch.zeros(1, dtype=torch.int64, device=sample.device)
        twice = row.repeat(2, 1), sample.expand(2, *sample.shape), label.expand(2, *label.shape)
        try:
            Vmap(module, loss).gradients(*twice, list)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return False
    return True
