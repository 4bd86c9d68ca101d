"""What a module does beside computing: draw at random, keep statistics."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase as BatchNorm
from torch.nn.modules.dropout import _DropoutNd as Dropout

from ..generators import seeded

__all__ = ["BatchNorm", "draws_at_random", "has_dropout", "keeps_statistics"]


def has_dropout(module: nn.Module) -> bool:
    """Whether some layer of the module drops numbers at random."""
    return any(isinstance(part, Dropout) and part.p > 0 for part in module.modules())


def draws_at_random(module: nn.Module, sample: Tensor) -> bool:
    """Whether training mode uses torch's generator, wherever in the module that is hidden."""
    with seeded(0, sample.device), torch.no_grad():
        before = torch.get_rng_state()
        module.train()(torch.cat([sample, sample]))
        return not torch.equal(before, torch.get_rng_state())


def keeps_statistics(module: nn.Module) -> bool:
    """Whether some layer of the module keeps running statistics."""
    return any(
        isinstance(part, BatchNorm) and part.track_running_stats for part in module.modules()
    )
