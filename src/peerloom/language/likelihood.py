"""How well a model foretells the next token: the loss that is trained, and perplexity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import default_collate

from ..problems.reader import placed

__all__ = ["Perplexity", "next_token"]


def next_token(model: nn.Module, batch: Tensor) -> Tensor:
    """The mean of -log p(token given those before it), over windows [samples, length + 1].

    The model gives scores [samples, length, tokens] for whole numbers [samples, length].
    """
    scores = model(batch[:, :-1])
    return F.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())


@dataclass(frozen=True, eq=False)
class Perplexity:
    """Metrics of a task: the mean loss on held-out samples, and e to its power, by these names.

    A perplexity of p is as bad as a guess among p tokens that are equally likely. The samples come
    from `test`; the loss is the task's own, any that is a mean of -log p over tokens.

    test     () -> the data set, of windows that are equally long
    loss     (model, batch) -> the mean over the batch
    batch    windows that go through the model at once
    collate  makes a batch of a list of samples; by default torch's
    """

    test: Callable[[], Any]
    loss: Callable[[nn.Module, Any], Tensor] = next_token
    batch: int = 64
    collate: Callable[[list[Any]], Any] = default_collate
    _kept: list[tuple[int, Any]] = field(default_factory=list, init=False, repr=False)

    def __call__(self, model: nn.Module) -> dict[str, float]:
        """Judge a model where it lives."""
        device = next(model.parameters()).device
        total, samples = 0.0, 0
        for count, batch in self._batches():
            total += count * self.loss(model, placed(batch, device, None)).item()
            samples += count
        mean = torch.tensor(total / samples, dtype=torch.float64)
        return {"loss": mean.item(), "perplexity": mean.exp().item()}

    def _batches(self) -> list[tuple[int, Any]]:
        """All samples in batches, each with its size; they are read once."""
        if not self._kept:
            of = self.test()
            for start in range(0, len(of), self.batch):
                some = [of[k] for k in range(start, min(start + self.batch, len(of)))]
                self._kept.append((len(some), self.collate(some)))
        return self._kept
