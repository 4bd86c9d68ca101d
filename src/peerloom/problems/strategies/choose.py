"""Which way to gradients is the fastest that fits a module."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ..losses import Loss
from .closed_form import ClosedForm, dense_layers
from .gradients import Gradients
from .modules import draws_at_random, has_dropout, keeps_statistics
from .row_loop import RowLoop
from .vmap import Vmap, vmap_works

__all__ = ["STRATEGIES", "choose"]

VMAP_BELOW = (
    50e6  # operations per client and round; above, a loop is faster (`bench --case gradients`)
)

STRATEGIES: dict[str, Callable[[nn.Module, Loss], Gradients]] = {
    "closed": ClosedForm,
    "vmap": Vmap,
    "loop": RowLoop,
}


def choose(
    strategy: str,
    module: nn.Module,
    loss: Loss,
    sample: Tensor,
    batch: int,
    label: Tensor | None = None,
) -> str:
    """The name of the fastest strategy that fits, where 'auto' was asked for.

    `sample` and `label` are a batch of one; labels are whole numbers where none is given.
    """
    if strategy != "auto":
        return strategy
    if dense_layers(module) and loss.slope is not None:
        return "closed"
    if has_dropout(module) or keeps_statistics(module) or draws_at_random(module, sample):
        return "loop"
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module.eval()(sample)
    small = 3 * batch * counter.get_total_flops() < VMAP_BELOW  # backward costs twice forward
    return "vmap" if small and vmap_works(module, loss, sample, label) else "loop"
