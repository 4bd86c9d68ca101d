"""Three ways to the same gradients: in closed form, by vmap, or row by row.

All take models x [k, n] and one batch per model, inputs [k, batch, ...] and labels [k, batch], and give [k, n]. A row holds
the module's parameters in the order torch lists them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _NormBase as BatchNorm
from torch.nn.modules.dropout import _DropoutNd as Dropout
from torch.utils.flop_counter import FlopCounterMode

from ..core import ConfigError
from .losses import Loss

__all__ = ["STRATEGIES", "BatchNorm", "ClosedForm", "Gradients", "RowLoop", "Vmap", "choose", "parameter_count"]

VMAP_BELOW = 50e6  # floating-point operations per client and round; above it a loop is faster (measured on two cores)


Seeds = Callable[[], list[int]]  # both are asked for only by modules that need them
Batches = Callable[[], list[Tensor]]


class Gradients(Protocol):
    """A way to compute gradients and scores."""

    def gradients(self, x: Tensor, inputs: Tensor, labels: Tensor, seeds: Seeds) -> Tensor:
        """The gradient of each model's mean loss on its batch; seeds, one per model, feed random layers (dropout)."""

    def scores(self, x: Tensor, inputs: Tensor, calibration: Batches) -> Iterator[Tensor]:
        """The scores of each model on the same inputs [samples, ...]; calibration sets statistics (batch norm)."""


class ClosedForm:
    """Linear layers with or without ReLU: a few batched matrix products for all models, written straight into the rows.

    Everything between is kept as [k, width, batch]: products and softmax are up to ten times faster than the other way
    round, because a batch is longer than the number of classes.
    """

    # Into a target that is not one block of memory, as the weights in the rows are, torch multiplies model after model.
    # For fewer weights per model than this, the calls cost more than one product into a block and a copy (two cores).
    COPY_BELOW = 1 << 15
    JUDGED_TOGETHER = 64  # models per product of `scores`: more make it no faster, only its result larger

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        layers = _dense_layers(module)
        if not layers:
            raise ConfigError(
                "strategy 'closed' needs linear layers and ReLU, but the model has more. Use 'vmap', 'loop' or 'auto'."
            )
        self._module, self._loss = module, loss
        self._relu = [relu for _, relu in layers]
        self._shapes = [(layer.out_features, layer.in_features, layer.bias is not None) for layer, _ in layers]

    def gradients(self, x: Tensor, inputs: Tensor, labels: Tensor, seeds: Seeds) -> Tensor:
        """Scores forward, slopes of the scores backward."""
        if labels.shape == (1, 1):  # one matrix times one column goes another way through torch, to other roundings
            x, inputs, labels = (part.expand(2, *part.shape[1:]) for part in (x, inputs, labels))
            return self.gradients(x, inputs, labels, seeds)[:1]
        layers = self._split(x)
        kept = [inputs.flatten(2).transpose(1, 2)]
        for (weight, bias), relu in zip(layers, self._relu, strict=True):
            out = torch.bmm(weight, kept[-1]) if bias is None else torch.baddbmm(bias.unsqueeze(2), weight, kept[-1])
            kept.append(out.relu_() if relu else out)
        slope = self._loss.slope(kept[-1].transpose(1, 2), labels).div_(labels.shape[1]).transpose(1, 2)
        g = torch.empty_like(x, memory_format=torch.contiguous_format)
        found = self._split(g)
        for k in reversed(range(len(layers))):
            if self._relu[k]:
                slope *= kept[k + 1] > 0
            weight, bias = found[k]
            if weight[0].numel() < self.COPY_BELOW:
                weight.copy_(torch.bmm(slope, kept[k].transpose(1, 2)))
            else:
                torch.bmm(slope, kept[k].transpose(1, 2), out=weight)
            if bias is not None:
                torch.sum(slope, dim=2, out=bias)
            if k:
                slope = torch.bmm(layers[k][0].transpose(1, 2), slope)
        return g

    @property
    def one_layer(self) -> bool:
        """Whether `one_by_one` is there."""
        return self._relu == [False]

    def one_by_one(self, x: Tensor, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
        """Gradients of models of one layer, each on its own inputs [any number, features] and labels.

        For large batches this is up to three times as fast as `gradients`: a batch is still in the cache when the second
        product reads it, and where the samples lie in one block nothing is gathered at all.
        """
        ((weight, bias),) = self._split(x)
        g = torch.empty_like(x, memory_format=torch.contiguous_format)
        ((found, found_bias),) = self._split(g)
        for k, (inputs, labels) in enumerate(batches):
            scores = inputs @ weight[k].T if bias is None else torch.addmm(bias[k], inputs, weight[k].T)
            slope = self._loss.slope(scores, labels).div_(len(labels))
            torch.mm(slope.T, inputs, out=found[k])
            if found_bias is not None:
                torch.sum(slope, dim=0, out=found_bias[k])
        return g

    def scores(self, x: Tensor, inputs: Tensor, calibration: Batches) -> Iterator[Tensor]:
        """One matrix product for many linear models; deeper ones model after model."""
        if len(self._shapes) > 1:
            yield from RowLoop(self._module, None).scores(x, inputs, calibration)
            return
        flat = inputs.flatten(1)
        for some in torch.split(x, self.JUDGED_TOGETHER):
            ((weight, bias),) = self._split(some)
            together = (weight.reshape(-1, flat.shape[1]) @ flat.T).view(len(some), -1, len(flat))
            for k, scores in enumerate(together):  # each class in one block: losses and the best class are then faster
                yield (scores if bias is None else scores + bias[k, :, None]).T

    def _split(self, x: Tensor) -> list[tuple[Tensor, Tensor | None]]:
        parts, at = [], 0
        for outputs, features, biased in self._shapes:
            weight = x[:, at : at + outputs * features].view(x.shape[0], outputs, features)
            at += outputs * features
            parts.append((weight, x[:, at : at + outputs] if biased else None))
            at += outputs * biased
        return parts


class Vmap:
    """Small networks: torch.func differentiates one model's loss, vmap does all models at once."""

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        if _is_random(module) or _keeps_statistics(module):
            raise ConfigError("strategy 'vmap' cannot run dropout or batch norm with statistics. Use 'loop' or 'auto'.")
        self._module, self._layout = module, _layout(module)

        def mean_loss(parameters: dict[str, Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
            return loss.value(functional_call(module, parameters, (inputs,)), labels).mean()

        self._gradients = vmap(grad(mean_loss))

    def gradients(self, x: Tensor, inputs: Tensor, labels: Tensor, seeds: Seeds) -> Tensor:
        """Parameters in as views of the rows, gradients back as rows."""
        self._module.train()
        found = self._gradients(_named(x, self._layout), inputs, labels)
        return torch.cat([found[name].flatten(1) for name, _ in self._layout], dim=1)

    def scores(self, x: Tensor, inputs: Tensor, calibration: Batches) -> Iterator[Tensor]:
        """Model after model: evaluation is rare, and its batches are large already."""
        return RowLoop(self._module, None).scores(x, inputs, calibration)


class RowLoop:
    """Any nn.Module: one model after the other, with parameters that are views of its row."""

    def __init__(self, module: nn.Module, loss: Loss | None) -> None:
        self._module, self._loss, self._layout = module, loss, _layout(module)
        self._random, self._statistics = _is_random(module), _keeps_statistics(module)
        self._images = any(isinstance(part, nn.Conv2d) for part in module.modules())

    def gradients(self, x: Tensor, inputs: Tensor, labels: Tensor, seeds: Seeds) -> Tensor:
        """Forward and backward for each row."""
        assert self._loss is not None
        g = torch.empty_like(x, memory_format=torch.contiguous_format)
        self._module.train()
        parameters = list(self._module.parameters())
        dice = seeds()
        for k in range(len(x)):
            # Always seeded: a module may draw at random anywhere in its forward, not only in layers that say so.
            with self._as_row(x[k]), _seeded(dice[k]), torch.enable_grad():
                loss = self._loss.value(self._module(self._laid_out(inputs[k])), labels[k]).mean()
                found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
            torch.cat([part.flatten() for part in found], out=g[k])
        return g

    def scores(self, x: Tensor, inputs: Tensor, calibration: Batches) -> Iterator[Tensor]:
        """In evaluation mode, a thousand samples at a time; batch norm's statistics come from `calibration`."""
        for row in x:
            with torch.no_grad(), self._as_row(row):
                if self._statistics:
                    self._calibrate(calibration)
                self._module.eval()
                yield torch.cat([self._module(self._laid_out(part)) for part in torch.split(inputs, 1000)])

    def _calibrate(self, calibration: Batches) -> None:
        """Running statistics are a function of the model and the data, so they need not be part of the state."""
        for part in self._module.modules():
            if isinstance(part, BatchNorm):
                part.reset_running_stats()
                part.momentum = None  # a plain mean over the batches that follow
        self._module.train()
        for batch in calibration():
            with _seeded(0 if self._random else None):
                self._module(self._laid_out(batch))

    def _laid_out(self, inputs: Tensor) -> Tensor:
        return inputs.contiguous(memory_format=torch.channels_last) if self._images and inputs.ndim == 4 else inputs

    @contextmanager
    def _as_row(self, row: Tensor) -> Iterator[None]:
        views = _named(row.unsqueeze(0), self._layout)
        for name, parameter in self._module.named_parameters():
            parameter.data = views[name][0]
        yield


STRATEGIES: dict[str, Callable[[nn.Module, Loss], Gradients]] = {"closed": ClosedForm, "vmap": Vmap, "loop": RowLoop}


def choose(strategy: str, module: nn.Module, loss: Loss, sample: Tensor, batch: int) -> str:
    """The name of the fastest strategy that fits, where 'auto' was asked for."""
    if strategy != "auto":
        return strategy
    if _dense_layers(module):
        return "closed"
    if _is_random(module) or _keeps_statistics(module) or _draws_at_random(module, sample):
        return "loop"
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module.eval()(sample)
    small = 3 * batch * counter.get_total_flops() < VMAP_BELOW  # backward costs twice forward
    return "vmap" if small and _vmap_works(module, loss, sample) else "loop"


def _vmap_works(module: nn.Module, loss: Loss, sample: Tensor) -> bool:
    """Whether torch can follow the module for several models at once; control flow on values, for one, it cannot."""
    with torch.no_grad():
        row = torch.cat([parameter.flatten() for parameter in module.parameters()])
        labels = torch.zeros(2, 1, dtype=torch.int64, device=sample.device)
        try:
            Vmap(module, loss).gradients(row.repeat(2, 1), sample.expand(2, *sample.shape), labels, list)
        except (RuntimeError, NotImplementedError):
            return False
    return True


def parameter_count(module: nn.Module) -> int:
    """The length of a row."""
    return sum(parameter.numel() for parameter in module.parameters())


def _layout(module: nn.Module) -> list[tuple[str, torch.Size]]:
    return [(name, parameter.shape) for name, parameter in module.named_parameters()]


def _named(x: Tensor, layout: list[tuple[str, torch.Size]]) -> dict[str, Tensor]:
    parts = torch.split(x, [math.prod(shape) for _, shape in layout], dim=1)
    return {name: part.view(len(x), *shape) for (name, shape), part in zip(layout, parts, strict=True)}


def _dense_layers(module: nn.Module) -> list[tuple[nn.Linear, bool]]:
    """The linear layers in order, each with whether ReLU follows; none at all if the module has any other part."""
    layers: list[tuple[nn.Linear, bool]] = []
    for _, part in module.named_modules(remove_duplicate=False):  # one ReLU may stand in several places
        if type(part) is nn.Linear and all(part is not layer for layer, _ in layers):
            layers.append((part, False))
        elif type(part) is nn.ReLU and layers:
            layers[-1] = (layers[-1][0], True)
        elif type(part) is not nn.Sequential and not (type(part) is nn.Flatten and part.start_dim == 1):
            return []
    return layers


def _is_random(module: nn.Module) -> bool:
    return any(isinstance(part, Dropout) and part.p > 0 for part in module.modules())


def _draws_at_random(module: nn.Module, sample: Tensor) -> bool:
    """Whether training mode uses torch's generator, wherever in the module that is hidden."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        before = torch.get_rng_state()
        module.train()(torch.cat([sample, sample]))
        return not torch.equal(before, torch.get_rng_state())


def _keeps_statistics(module: nn.Module) -> bool:
    return any(isinstance(part, BatchNorm) and part.track_running_stats for part in module.modules())


@contextmanager
def _seeded(seed: int | None) -> Iterator[Any]:
    """Torch's own generator with a seed of ours, put back as it was afterwards; nothing at all where seed is None."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
