"""What a module does beside computing: draw at random, keep statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase as BatchNorm
from torch.nn.modules.dropout import _DropoutNd as Dropout

__all__ = ["BatchNorm", "draws_at_random", "has_dropout", "keeps_statistics", "seeded"]


def has_dropout(module: nn.Module) -> bool:
    """Whether some layer of the module drops numbers at random."""
    return any(isinstance(part, Dropout) and part.p > 0 for part in module.modules())


def draws_at_random(module: nn.Module, sample: Tensor) -> bool:
    """Whether training mode uses torch's generator, wherever in the module that is hidden."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        before = torch.get_rng_state()
        module.train()(torch.cat([sample, sample]))
        return not torch.equal(before, torch.get_rng_state())


def keeps_statistics(module: nn.Module) -> bool:
    """Whether some layer of the module keeps running statistics."""
    return any(
        isinstance(part, BatchNorm) and part.track_running_stats for part in module.modules()
    )


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed torch's generator, and put it back afterwards; do nothing where seed is None."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
