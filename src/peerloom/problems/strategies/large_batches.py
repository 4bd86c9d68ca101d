"""Gradients of linear models on large batches, model after model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .closed_form import ClosedForm

__all__ = ["LargeBatches"]

Ids = NDArray[np.int64]


class LargeBatches:
    """One-layer models, each on its own batch while that is in the processor's cache.

    A batch is then still there when the second product reads it, and where all samples of a client
    are taken they lie in one block that is made once (`bench --case gradients`).
    """

    FROM = 1 << 18  # bytes of a batch from which on this is faster than all models together

    def __init__(self, closed: ClosedForm, inputs: Tensor, labels: Tensor) -> None:
        self._closed, self._labels, self._inputs = closed, labels, inputs.flatten(1)
        self._blocks: dict[int, tuple[Tensor, Tensor]] = {}

    def fits(self, batch: int) -> bool:
        """Whether this is faster for batches of so many samples."""
        return batch * self._inputs[:1].nbytes >= self.FROM

    def full(self, x: Tensor, rows: Ids, parts: Sequence[Ids]) -> Tensor:
        """The gradients of the models of these rows on all samples of each, parts[row]."""
        return self._gradients(x, (self._block(int(i), parts[i]) for i in rows))

    def drawn(self, x: Tensor, picks: Ids) -> Tensor:
        """The gradients on these samples, picks [k, batch]."""
        return self._gradients(x, self._gathered(picks))

    def _gradients(self, x: Tensor, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        ((weight, bias),) = self._closed.layers_of(x)
        g = torch.empty_like(x, memory_format=torch.contiguous_format)
        ((found, found_bias),) = self._closed.layers_of(g)
        for k, (inputs, labels) in enumerate(batches):
            scores = (
                inputs @ weight[k].T if bias is None else torch.addmm(bias[k], inputs, weight[k].T)
            )
            slope = self._closed.slope(scores, labels).div_(len(labels))
            torch.mm(slope.T, inputs, out=found[k])
            if found_bias is not None:
                torch.sum(slope, dim=0, out=found_bias[k])
        return g

    def _block(self, row: int, part: Ids) -> tuple[Tensor, Tensor]:
        if row not in self._blocks:
            at = torch.from_numpy(part).to(self._inputs.device)
            self._blocks[row] = self._inputs[at], self._labels[at]
        return self._blocks[row]

    def _gathered(self, picks: Ids) -> Iterator[tuple[Tensor, Tensor]]:
        """These samples, batch after batch, each in the memory of the one before."""
        at = torch.from_numpy(picks).to(self._inputs.device)
        labels = self._labels[at]
        held = self._inputs.new_empty(picks.shape[1], self._inputs.shape[1])
        for k, chosen in enumerate(at):
            yield torch.index_select(self._inputs, 0, chosen, out=held), labels[k]
