"""A task on the rows that live here: one module for all of them, one row after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import ConfigError, DataError, DivergedError, Draws, Evaluation, Placement
from .batches import Batches
from .buffers import Buffers
from .generators import all_seeded
from .layout import RowLayout, trainable
from .metrics import columns, named_numbers
from .reader import Part, Reader, placed
from .strategies.modules import BatchNorm

if TYPE_CHECKING:
    from .task import Task

__all__ = ["LocalTask"]

T = TypeVar("T")
Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

_SHOWN = 8  # numbers of samples that an error shows


class LocalTask:
    """The clients that live here, and the module into which one row after the other is loaded."""

    # Samples of each client that batch norm takes its statistics from at evaluation.
    _CALIBRATION_SIZE = 256
    _KEPT = 1 << 26  # bytes of batches on which models are judged, kept from one to the next

    def __init__(self, task: Task, place: Placement, draws: Draws) -> None:
        self._task, self._place, self._draws = task, place, draws
        self._dtype = {"run": place.dtype, "bfloat16": torch.float32}.get(task.precision)
        self.module = task.module(draws.seed).to(place.device, self._dtype)
        self._layout = RowLayout(self.module)
        self._parameters = list(trainable(self.module).values())
        self._buffers = Buffers(self.module)
        given, rows = task.data, place.rows.tolist()
        self._sets = [given(i) if callable(given) else given[i] for i in rows]
        self._parts = [
            np.arange(_length(of, f"Task.data of client {i}"))
            for i, of in zip(rows, self._sets, strict=True)
        ]
        sizes = task.batch_sizes(place.of)
        mine = None if sizes is None else sizes[place.rows]
        self._batches = Batches(self._parts, mine, task.replace, place, draws, "Task")
        self._reader = Reader(self._sets, task.collate, task.ahead, self._KEPT)
        self._test: tuple[Reader, Ids] | None = None  # loaded when models are judged
        # Samples that surely go through the model together, where no gradient is taken.
        self._block = -(-int(self._batches.sizes.max(initial=1)) // task.accumulate)

    def grad(self, x: Tensor, on: Ids, t: int, batch: int = 0) -> Tensor:
        """The gradient over each row's batch of round t."""
        of = f"/{batch}" if batch else ""
        seeds = self._seeds(f"module{of}", t)
        g = torch.zeros(len(on), x.shape[1], dtype=x.dtype, device=x.device)
        for at, parts in enumerate(self._drawn(on, t, of)):
            k = int(on[at])
            where = _Where(self._place, k, t, batch)
            self._mean_gradient(x[k], parts, seeds[k], where, out=g[at])
            if self._task.clip is not None:
                # Not more than 1, and NaN stays NaN: then the run is refused, with its row.
                g[at] *= (self._task.clip / g[at].norm()).clamp(max=1.0)
        self._reader.expect(lambda: chain(*self._drawn(on, t + 1, of)), of)
        return g

    @property
    def batches(self) -> Ids:
        """How many batches the samples of each row fill."""
        samples = np.array([len(part) for part in self._parts], np.int64)
        return np.asarray(-(-samples // np.maximum(1, self._batches.sizes)))

    def whole_gradients(self, x: Tensor, on: Ids) -> Tensor:
        """The gradients of the rows `on` on all of their samples; these are not clipped."""
        seeds, g = self._seeds("module/all", 0), torch.zeros_like(x[: len(on)])
        for at, k in enumerate(on.tolist()):
            parts = self._blocks(k, self._parts[k], "augment/all")
            where = _Where(self._place, k, 0, "all")
            self._mean_gradient(x[k], parts, seeds[k], where, out=g[at])
        return g

    def prox(self, z: Tensor, step: float) -> Tensor:
        """No h: z itself. What a loss adds of its own is smooth to the rules."""
        return z

    @torch.no_grad()
    def evaluate(self, x: Tensor) -> Evaluation:
        """The user's metrics of each model; the loss on test samples unless they have one."""
        found = [self._judging(row, self._judged) for row in x]
        named = columns(found, "Task.metrics")
        loss = named.pop("loss", np.zeros(0))
        return Evaluation(loss, named.pop("accuracy", None), named)

    @torch.no_grad()
    def train_loss(self, x: Tensor, over: Literal["clients", "samples"]) -> Floats:
        """The loss of each model on all samples of clients here, in evaluation mode.

        The mean over clients of their mean losses, or the mean over samples.
        """
        held = np.array([len(part) for part in self._parts], float)
        weights = held / held.sum() if over == "samples" else np.full(len(held), 1 / len(held))
        return np.array([self._judging(row, lambda: self._own_loss(weights)) for row in x])

    def _judged(self) -> dict[str, float]:
        """The numbers by which one model is judged; "loss" is always among them."""
        task, numbers = self._task, dict[str, float]()
        if task.metrics is not None:
            with self._autocast():
                numbers = named_numbers(task.metrics(self.module), "Task.metrics")
            self.module.eval()  # whatever they did
        return numbers if "loss" in numbers else {"loss": self._test_loss(), **numbers}

    def _test_loss(self) -> float:
        if self._task.test is None:
            return self._own_loss(np.full(len(self._parts), 1 / len(self._parts)))
        if self._test is None:
            of = self._task.test()
            self._test = (
                Reader([of], self._task.collate, keep=self._KEPT),
                np.arange(_length(of, "Task.test")),
            )
        reader, samples = self._test
        return self._loss_over(reader, 0, samples)

    def _own_loss(self, weights: Floats) -> float:
        """The losses on what each client here holds, weighed."""
        losses = [self._loss_over(self._reader, k, part) for k, part in enumerate(self._parts)]
        return float(weights @ losses)

    def _loss_over(self, reader: Reader, place: int, samples: Ids) -> float:
        """The mean loss over these samples, block after block."""
        # Without gradients little is kept of a pass, so more samples fit.
        parts = [Part(place, some, 0) for some in _cut(samples, 4 * self._block)]
        losses = [len(part.samples) * float(self._loss_of(part, reader)) for part in parts]
        return sum(losses) / len(samples)

    def _loss_of(self, part: Part, reader: Reader) -> Tensor:
        """The loss of the model as it is on these samples, without a gradient."""
        with self._autocast():
            return self._task.loss(self.module, self._placed(reader.read_again(part)))

    def _judging(self, row: Tensor, judge: Callable[[], T]) -> T:
        """What `judge` finds of a model, in evaluation mode and with statistics of its own."""
        self._layout.load(row, self._parameters)
        self.module.train()
        # Layers that keep to evaluation mode train with their statistics as they are.
        kept: list[Any] = [part for part in self.module.modules() if _takes_statistics(part)]
        before = [layer.momentum for layer in kept]
        for layer in kept:
            layer.reset_running_stats()
            layer.momentum = None  # a plain mean over the batches that follow
        with all_seeded(0, self._place.device):
            for k, part in enumerate(self._parts if kept else []):
                for some in _cut(part[: self._CALIBRATION_SIZE], max(2, self._block)):
                    if len(some) > 1:  # one sample alone has no variance
                        self._loss_of(Part(k, some, 0), self._reader)
            for layer, momentum in zip(kept, before, strict=True):
                layer.momentum = momentum
            self.module.eval()
            found = judge()
        self._buffers.put_back()
        return found

    def _mean_gradient(
        self, row: Tensor, parts: Sequence[Part], seed: int, where: _Where, out: Tensor
    ) -> None:
        """Write the gradient at a row over these parts of a batch, each counting by its samples."""
        self._layout.load(row, self._parameters)
        self.module.train()
        samples = sum(len(part.samples) for part in parts)
        for j, part in enumerate(parts):
            batch = self._placed(self._reader.read(part))
            with all_seeded(seed + j, self._place.device), torch.enable_grad():
                with self._autocast():
                    loss = self._task.loss(self.module, batch)
                where.check(loss, part)
                found = torch.autograd.grad(
                    loss, self._parameters, allow_unused=True, materialize_grads=True
                )
            flat = [each.flatten().to(out.dtype) for each in found]
            if len(parts) == 1:
                torch.cat(flat, out=out)
            else:
                out.add_(torch.cat(flat), alpha=len(part.samples) / samples)
            self._buffers.put_back()

    def _drawn(self, on: Ids, t: int, of: str) -> list[list[Part]]:
        """The batches of the rows `on` in round t, each in parts."""
        found: dict[int, list[Part]] = {}
        seeds = self._seeds(f"augment{of}", t)
        for which, picks in self._batches(on, t, of):
            for k, samples in zip(on[which].tolist(), picks, strict=True):
                cut = np.array_split(samples, min(self._task.accumulate, len(samples)))
                found[k] = [Part(k, part, seeds[k] + j) for j, part in enumerate(cut)]
        return [found[k] for k in on.tolist()]

    def _blocks(self, k: int, samples: Ids, stream: str) -> list[Part]:
        seed = self._seeds(stream, 0)[k]
        return [Part(k, some, seed + j) for j, some in enumerate(_cut(samples, self._block))]

    def _seeds(self, stream: str, t: int) -> list[int]:
        drawn = self._draws(stream, t, self._place.rows)[:, 0]
        return [int(u * 2**53) for u in drawn]

    def _placed(self, batch: Any) -> Any:
        return placed(batch, self._place.device, self._dtype)

    def _autocast(self) -> AbstractContextManager[Any]:
        if self._task.precision != "bfloat16":
            return nullcontext()
        return torch.autocast(self._place.device.type, torch.bfloat16)


class _Where:
    """Whose gradient it is, of which round and batch: what an error must say."""

    def __init__(self, place: Placement, k: int, t: int, batch: int | str) -> None:
        self._client, self._t, self._batch = int(place.rows[k]), t, batch

    def check(self, loss: Any, part: Part) -> None:
        """Refuse a loss that is not one number, has no gradient, or is not finite."""
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            found = (
                f"a tensor of shape {list(loss.shape)}"
                if isinstance(loss, Tensor)
                else type(loss).__name__
            )
            raise ConfigError(
                f"Task.loss gave {found}, but it must give one number: the mean over the batch, as "
                "a scalar tensor."
            )
        if not loss.requires_grad:
            raise ConfigError(
                "Task.loss gave a number that depends on no trainable parameter. Compute it from "
                "the model that it is given, with gradients on."
            )
        if not bool(torch.isfinite(loss)):
            shown = ", ".join(map(str, part.samples[:_SHOWN]))
            more = ", ..." if len(part.samples) > _SHOWN else ""
            raise DivergedError(
                f"The loss of client {self._client} is {loss.item():g} in round {self._t}, on its "
                f"batch {self._batch}, samples {shown}{more}. Look at these samples, or try "
                "smaller steps.",
                round=self._t,
                row=self._client,
            )


def _length(of: Any, whose: str) -> int:
    """The samples of a data set; refuses one that has none, or does not say."""
    if not hasattr(of, "__len__") or not hasattr(of, "__getitem__"):
        raise ConfigError(
            f"{whose} is {type(of).__name__}, which has no length or no items by "
            "number. Give a map-style data set: __len__ and __getitem__."
        )
    if not len(of):
        raise DataError(
            f"{whose} is a data set of length 0. Give every client one sample at "
            "least, or leave it out of the graph."
        )
    return len(of)


def _cut(samples: Ids, size: int) -> Iterator[Ids]:
    return (samples[at : at + size] for at in range(0, len(samples), size))


def _takes_statistics(part: torch.nn.Module) -> bool:
    return isinstance(part, BatchNorm) and part.training and part.track_running_stats
