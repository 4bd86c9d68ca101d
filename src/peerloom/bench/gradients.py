"""Every fast way to gradients against the readable one: what it is there for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ..problems.layout import RowLayout
from ..problems.losses import LOSSES
from ..problems.models import MLP, Linear
from ..problems.strategies import STRATEGIES, ClosedForm, LargeBatches, RowLoop
from .timing import interleaved

__all__ = ["Workload", "fast_gradients", "workloads"]

_FEATURES, _CLASSES = 784, 10


@dataclass(frozen=True)
class Workload:
    """Models of one module, and a batch for each."""

    module: nn.Module
    models: int
    batch: int

    def contenders(self, fast: str) -> dict[str, Callable[[], object]]:
        """The gradients of all models, by this strategy and by its readable twin."""
        loss, dice = LOSSES["cross_entropy"], torch.Generator().manual_seed(0)
        x = 0.1 * torch.randn(self.models, RowLayout(self.module).n, generator=dice)
        inputs = torch.rand(self.models, self.batch, _FEATURES, generator=dice)
        labels = torch.randint(0, _CLASSES, (self.models, self.batch), generator=dice)
        seeds = [0] * self.models
        loop = RowLoop(self.module, loss)
        if fast == "large batches":
            closed = ClosedForm(self.module, loss)
            samples = inputs.flatten(0, 1), labels.flatten()
            large = LargeBatches(closed, *samples)
            picks = np.arange(len(samples[0])).reshape(labels.shape)
            return {
                "fast": lambda: large.full(x, np.arange(self.models), list(picks)),
                "twin": lambda: closed.gradients(
                    x, samples[0][torch.from_numpy(picks)], labels, lambda: seeds
                ),
            }
        strategy = STRATEGIES[fast](self.module, loss)
        return {
            "fast": lambda: strategy.gradients(x, inputs, labels, lambda: seeds),
            "twin": lambda: loop.gradients(x, inputs, labels, lambda: seeds),
        }


def _bent() -> nn.Module:
    """A small network that has no closed form here."""
    return nn.Sequential(nn.Linear(_FEATURES, 32), nn.Tanh(), nn.Linear(32, _CLASSES))


def workloads() -> dict[str, tuple[Workload, str]]:
    """What each fast path is for, by what is measured of it."""
    linear = Linear().build((_FEATURES,), _CLASSES)
    layers = MLP().build((_FEATURES,), _CLASSES)
    return {
        "closed form, 100 linear models: times a loop": (Workload(linear, 100, 16), "closed"),
        "closed form, 10 MLPs: times a loop": (Workload(layers, 10, 16), "closed"),
        "vmap, 100 small networks: times a loop": (Workload(_bent(), 100, 16), "vmap"),
        "linear models one by one, on all of 6,000 samples: times all together": (
            Workload(linear, 10, 6000),
            "large batches",
        ),
    }


@torch.no_grad()
def fast_gradients(seconds: float) -> dict[str, float]:
    """How many times faster than its readable twin each fast path is, on what it is for.

    With one thread, as runs of small models have it.
    """
    threads, found = torch.get_num_threads(), {}
    torch.set_num_threads(1)
    try:
        for what, (workload, fast) in workloads().items():
            ms = interleaved(workload.contenders(fast), seconds)
            found[what] = ms["twin"] / ms["fast"]
    finally:
        torch.set_num_threads(threads)
    return found
