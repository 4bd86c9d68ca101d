"""Learning from data on the rows that live here: batches, gradients, evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..core import ConfigError, Draws, Evaluation, Placement
from .batches import Batches, Some
from .metrics import columns, named_numbers
from .regularisers import Zero
from .strategies import STRATEGIES, BatchNorm, ClosedForm, LargeBatches, Seeds, choose

if TYPE_CHECKING:
    from .classification import Classification

__all__ = ["LocalClassification"]

Ids = NDArray[np.int64]

_METRICS = "Classification.metrics"


class LocalClassification:
    """The samples of the rows that live here.

    The data themselves are held once, whatever the number of rows.
    """

    # Samples of each client that batch norm takes its statistics from at evaluation.
    _CALIBRATION_SIZE = 256

    def __init__(self, problem: Classification, place: Placement, draws: Draws) -> None:
        self._problem, self._place, self._draws = problem, place, draws
        data, self._loss = problem.data, problem.loss_in_force
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
        sizes = problem.batch_sizes(place.of)
        mine = None if sizes is None else sizes[place.rows]
        self._batches = Batches(self.parts, mine, problem.replace, place, draws)
        module = problem.module(draws.seed).to(place.device, place.dtype)
        self._check(module, least=min(self._batches.sizes.tolist(), default=2))
        # By the largest batch of any client, wherever that lives, so that all choose alike.
        most = self._batches.sizes if sizes is None else sizes
        self.strategy = choose(
            problem.strategy,
            module,
            self._loss,
            self._inputs[:1],
            int(most.max(initial=1)),
            self._labels[:1],
        )
        self._gradients = STRATEGIES[self.strategy](module, self._loss)
        self._h = problem.h or Zero()
        self._large = self._large_batches()
        self._exact: LocalClassification | None = None  # itself, on all samples

    def grad(self, x: Tensor, on: Ids, t: int, batch: int = 0) -> Tensor:
        """The mean gradient over each row's batch of round t."""
        of = f"/{batch}" if batch else ""
        mine = x if len(on) == x.shape[0] else x[torch.from_numpy(on).to(x.device)]

        def seeds(only: Some) -> list[int]:
            drawn = self._draws(f"module{of}", t, self._place.rows)
            return [int(u * 2**53) for u in drawn[on[only], 0]]

        if self._large is not None and self._batches.whole:
            g = self._large.full(mine, on, self.parts)
        else:
            g = self._over_sizes(mine, self._batches(on, t, of), seeds)
        return g.add_(mine, alpha=self._problem.l2) if self._problem.l2 else g

    @property
    def batches(self) -> Ids:
        """How many batches the samples of each row fill."""
        samples = np.array([len(part) for part in self.parts], np.int64)
        return np.asarray(-(-samples // np.maximum(1, self._batches.sizes)))

    def whole_gradients(self, x: Tensor, on: Ids) -> Tensor:
        """The gradients of the rows `on` on all of their samples."""
        if self._exact is None:
            self._exact = self._problem.with_full_batches().bind(self._place, self._draws)
        return self._exact.grad(x, on, 0)

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The proximal step of h."""
        return self._h.prox(z, step)

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> Evaluation:
        """Test loss with l2 and h, accuracy where there are classes, and the user's metrics."""
        penalty, labels = self._penalty(x), self._test_labels
        losses, rates, own = [], [], []
        for scores in self._gradients.scores(x, self._test_inputs, self._calibration):
            losses.append(self._loss.value(scores, labels).mean())
            if self._loss.correct is not None:
                rates.append(self._loss.correct(scores, labels).double().mean())
            if self._problem.metrics is not None:
                own.append(named_numbers(self._problem.metrics(scores, labels), _METRICS))
        loss = (torch.stack(losses) + penalty).double().cpu().numpy()
        accuracy = torch.stack(rates).cpu().numpy() if rates else None
        more = columns(own, _METRICS)
        if "loss" in more:
            raise ConfigError(f"{_METRICS} names a loss, but that is measured already. Rename it.")
        return Evaluation(loss, more.pop("accuracy", accuracy), more)

    @torch.no_grad()
    def train_loss(self, x: Tensor, over: Literal["clients", "samples"]) -> NDArray[np.float64]:
        """The loss of each model on all samples dealt to rows here, with l2 and h.

        The mean over clients of their mean losses, or the mean over samples.
        """
        weight = np.zeros(len(self._labels))
        for part in self.parts:  # some partitions deal a sample twice
            share = len(self.parts) * len(part) if over == "clients" else sum(map(len, self.parts))
            np.add.at(weight, part, 1 / share)
        weights = torch.from_numpy(weight).to(x.device)
        losses = []
        for scores in self._gradients.scores(x, self._inputs, self._calibration):
            each = self._loss.value(scores, self._labels).double()
            if each.shape != weights.shape:
                raise ConfigError(
                    f"evaluate.train weighs samples, but loss '{self._loss.name}' gives one number "
                    "for all. Have it give one for each, or leave train out."
                )
            losses.append(weights @ each)
        found: NDArray[np.float64] = (torch.stack(losses) + self._penalty(x)).cpu().numpy()
        return found

    def _penalty(self, x: Tensor) -> Tensor:
        """What l2 and h add to the loss of each model."""
        return self._problem.l2 / 2 * x.square().sum(dim=1) + self._h.value(x)

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
        if self._loss.slope is None:
            self._check_own(module)
            return
        wanted = 1 if self._loss.one_output else self._problem.data.classes
        fits = len(found) == 2 and (found[1] == 1 if self._loss.one_output else found[1] >= wanted)
        if not fits:
            raise ConfigError(
                f"For one sample the model gives scores of shape {list(found)}, "
                f"but loss '{self._loss.name}' needs [1, {wanted}]."
            )

    def _check_own(self, module: nn.Module) -> None:
        """Refuse a loss of the user's own that gives neither one number nor one per sample."""
        inputs, labels = self._inputs[:2], self._labels[:2]
        with torch.no_grad():
            found = self._loss.value(module.eval()(inputs), labels)
        if not isinstance(found, Tensor) or found.shape not in ((), (len(labels),)):
            what = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ConfigError(
                f"Classification.loss '{self._loss.name}' gave {what} for {len(labels)} samples. "
                "It must give one number, their mean, or one number for each, as a tensor."
            )

    def _large_batches(self) -> LargeBatches | None:
        """The way for linear models and batches that do not fit the cache together."""
        closed = self._gradients
        if not isinstance(closed, ClosedForm) or not closed.one_layer:
            return None
        return LargeBatches(closed, self._inputs, self._labels)

    def _calibration(self) -> list[Tensor]:
        """Some samples of each client; one alone has no variance."""
        some = [part[: self._CALIBRATION_SIZE] for part in self.parts if len(part) > 1]
        return [self._inputs[torch.from_numpy(part)] for part in some]

    def _over_sizes(
        self,
        x: Tensor,
        batches: Iterable[tuple[Some, Ids]],
        seeds: Callable[[Some], list[int]],
    ) -> Tensor:
        """Gradients of the rows x, those with batches of one size at once."""
        g = None
        for which, picks in batches:
            if isinstance(which, slice):
                return self._of(x, picks, partial(seeds, which))
            g = torch.empty_like(x) if g is None else g
            at = torch.from_numpy(which).to(x.device)
            g[at] = self._of(x[at], picks, partial(seeds, which))
        return torch.empty_like(x) if g is None else g

    def _of(self, x: Tensor, picks: Ids, seeds: Seeds) -> Tensor:
        """Gradients on these samples, of all rows at once."""
        if self._large is not None and self._large.fits(picks.shape[1]):
            return self._large.drawn(x, picks)
        flat = torch.from_numpy(picks.reshape(-1)).to(x.device)
        inputs = self._inputs.index_select(0, flat).view(*picks.shape, *self._inputs.shape[1:])
        return self._gradients.gradients(
            x,
            inputs,
            self._labels.index_select(0, flat).view(*picks.shape, *self._labels.shape[1:]),
            seeds,
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
