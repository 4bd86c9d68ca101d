"""Learning from data on the rows that live here: batches, gradients, evaluation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..core import ConfigError, Draws, Evaluation, Placement
from .losses import LOSSES
from .regularisers import Zero
from .strategies import STRATEGIES, BatchNorm, ClosedForm, LargeBatches, Seeds, choose

if TYPE_CHECKING:
    from .classification import Classification

__all__ = ["LocalClassification"]

Ids = NDArray[np.int64]


class LocalClassification:
    """The samples of the rows that live here.

    The data themselves are held once, whatever the number of rows.
    """

    # Samples of each client that batch norm takes its statistics from at evaluation.
    _CALIBRATION_SIZE = 256

    def __init__(self, problem: Classification, place: Placement, draws: Draws) -> None:
        self._problem, self._place, self._draws = problem, place, draws
        data, self._loss = problem.data, LOSSES[problem.loss_name]
        if not len(data.y) and len(place.rows):
            raise ConfigError(
                "The file leaves the data to every site (data 'own'), and none are here. At a "
                "site: peerloom peer start FILE --data SAMPLES. To simulate, name data in the "
                "file."
            )
        self._inputs, self._labels = self._tensors(data.x, data.y)
        judged = (
            (data.x, data.y)
            if data.test_x is None or data.test_y is None
            else (data.test_x, data.test_y)
        )
        self._test_inputs, self._test_labels = self._tensors(*judged)
        self.parts = self._deal()
        self._sizes = np.array([len(part) for part in self.parts], np.int64)
        self._flat = np.concatenate([np.zeros(0, np.int64), *self.parts])  # a hub has no part
        self._offsets = np.cumsum(self._sizes) - self._sizes
        module = problem.module(draws.seed).to(place.device, place.dtype)
        self._batch = problem.batch if isinstance(problem.batch, int) else None
        batch = self._batch or int(self._sizes.max(initial=1))
        self._check(module, least=self._batch or min(self._sizes.tolist(), default=2))
        self.strategy = choose(problem.strategy, module, self._loss, self._inputs[:1], batch)
        self._gradients = STRATEGIES[self.strategy](module, self._loss)
        self._h = problem.h or Zero()
        self._large = self._large_batches()
        self._exact: LocalClassification | None = None  # itself, on all samples

    def grad(self, x: Tensor, on: Ids, t: int, batch: int = 0) -> Tensor:
        """The mean gradient over each row's batch of round t."""
        of = f"/{batch}" if batch else ""
        mine = x if len(on) == x.shape[0] else x[torch.from_numpy(on).to(x.device)]

        def seeds(only: slice = slice(None)) -> list[int]:
            return [
                int(u * 2**53) for u in self._draws(f"module{of}", t, self._place.rows)[on[only], 0]
            ]

        if self._large is not None and self._batch is None:
            g = self._large.full(mine, on, self.parts)
        elif self._large is not None and self._batch is not None:
            g = self._large.drawn(mine, self._picks(on, t, of, self._batch))
        elif self._batch is not None:
            g = self._of(mine, self._picks(on, t, of, self._batch), seeds)
        elif len(set(self._sizes[on])) == 1:
            g = self._of(mine, np.stack([self.parts[i] for i in on]), seeds)
        else:  # all samples, of clients that hold different numbers of them
            each = [slice(k, k + 1) for k in range(len(on))]
            g = torch.cat(
                [self._of(mine[k], self.parts[on[k][0]][None], partial(seeds, k)) for k in each]
            )
        return g.add_(mine, alpha=self._problem.l2) if self._problem.l2 else g

    def whole_gradients(self, x: Tensor) -> Tensor:
        """Each row's gradient on all of its samples."""
        if self._exact is None:
            self._exact = self._problem.with_full_batches().bind(self._place, self._draws)
        return self._exact.grad(x, np.arange(len(x)), 0)

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The proximal step of h."""
        return self._h.prox(z, step)

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> Evaluation:
        """Test loss with l2 and h, and accuracy where there are classes."""
        penalty = self._problem.l2 / 2 * x.square().sum(dim=1) + self._h.value(x)
        losses, rates = [], []
        for scores in self._gradients.scores(x, self._test_inputs, self._calibration):
            losses.append(self._loss.value(scores, self._test_labels).mean())
            if self._loss.correct is not None:
                rates.append(self._loss.correct(scores, self._test_labels).double().mean())
        loss = (torch.stack(losses) + penalty).double().cpu().numpy()
        return Evaluation(loss, torch.stack(rates).cpu().numpy() if rates else None)

    def _check(self, module: nn.Module, least: int) -> None:
        """Refuse a module that does not fit the data, the loss or the batch.

        One sample must give one row of scores, wide enough for the loss; batch norm needs two
        samples.
        """
        if least < 2 and any(isinstance(part, BatchNorm) for part in module.modules()):
            raise ConfigError(
                "Batch norm cannot learn from one sample. Use a batch of 2 at least, or group norm."
            )
        shape = tuple(self._inputs.shape[1:])
        try:
            with torch.no_grad():
                found = tuple(module.eval()(self._inputs[:1]).shape)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            raise ConfigError(
                f"The model cannot take samples of shape {shape}: {error}."
            ) from error
        wanted = 1 if self._loss.one_output else self._problem.data.classes
        fits = len(found) == 2 and (found[1] == 1 if self._loss.one_output else found[1] >= wanted)
        if not fits:
            raise ConfigError(
                f"For one sample the model gives scores of shape {list(found)}, "
                f"but loss '{self._loss.name}' needs [1, {wanted}]."
            )

    def _large_batches(self) -> LargeBatches | None:
        """The way for linear models and batches that do not fit the cache together."""
        closed = self._gradients
        if not isinstance(closed, ClosedForm) or not closed.one_layer:
            return None
        if self._batch is not None and self._batch * self._inputs[:1].nbytes < LargeBatches.FROM:
            return None
        return LargeBatches(closed, self._inputs, self._labels)

    def _calibration(self) -> list[Tensor]:
        """Some samples of each client; one alone has no variance."""
        some = [part[: self._CALIBRATION_SIZE] for part in self.parts if len(part) > 1]
        return [self._inputs[torch.from_numpy(part)] for part in some]

    def _picks(self, on: Ids, t: int, of: str, batch: int) -> Ids:
        """The numbers of the samples in the batches of rows `on`, [k, batch]."""
        some = slice(None) if len(on) == len(self.parts) else on  # a slice copies nothing
        u = self._draws(f"batch{of}", t, self._place.rows, batch)[some]
        picks: Ids = self._flat[
            self._offsets[some, None] + (u * self._sizes[some, None]).astype(np.int64)
        ]
        return picks

    def _of(self, x: Tensor, picks: Ids, seeds: Seeds) -> Tensor:
        """Gradients on these samples, of all rows at once."""
        flat = torch.from_numpy(picks.reshape(-1)).to(x.device)
        inputs = self._inputs.index_select(0, flat).view(*picks.shape, *self._inputs.shape[1:])
        return self._gradients.gradients(
            x, inputs, self._labels.index_select(0, flat).view(picks.shape), seeds
        )

    def _deal(self) -> list[Ids]:
        """The samples of each row here; what a site has brought is all its own."""
        data = self._problem.data
        if data.of_site:
            return [np.arange(len(data.y)) for _ in self._place.rows]
        parts = self._problem.deal(self._place.of, self._draws)
        return [parts[i] for i in self._place.rows]

    def _tensors(self, x: NDArray[np.float32], y: NDArray[np.generic]) -> tuple[Tensor, Tensor]:
        whole = bool(self._problem.data.classes)
        inputs = torch.from_numpy(np.ascontiguousarray(x)).to(self._place.device, self._place.dtype)
        labels = torch.from_numpy(np.ascontiguousarray(y)).to(
            self._place.device, torch.int64 if whole else self._place.dtype
        )
        return inputs, labels
