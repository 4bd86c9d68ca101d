"""Models by name. Each builds an ordinary nn.Module; any factory of your own does as well."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ..core import ConfigError

__all__ = ["CNN", "MLP", "MODELS", "Linear", "Model"]


@runtime_checkable
class Model(Protocol):
    """A recipe for a module, and the loss it is meant for."""

    @property
    def loss(self) -> str:
        """The name of the loss."""

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """A module for samples of this shape."""


@dataclass(frozen=True)
class Linear:
    """One linear layer: softmax, SVM, logistic or least-squares regression, by its loss.

    784 -> 10 with bias has 7,850 parameters.
    """

    loss: str = "cross_entropy"
    bias: bool = True

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Flatten, then the layer."""
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs, bias=self.bias))


@dataclass(frozen=True)
class MLP:
    """Fully connected layers with ReLU: DEPOSITUM's has 128 and 64 hidden units (109,386 parameters on 28 x 28)."""

    hidden: tuple[int, ...] = (128, 64)
    loss: str = "cross_entropy"

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Flatten, hidden layers, scores."""
        widths = [math.prod(shape), *self.hidden]
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


@dataclass(frozen=True)
class CNN:
    """DEPOSITUM's network: two 3 x 3 convolutions (16, 32) with pooling, then 128 hidden units.

    Its parameter counts (268,362 on grey images) need an 8 x 8 map before the dense layers, hence images are zero-padded to
    32 x 32. Samples have shape [height, width] or [channels, height, width].
    """

    SIDE: ClassVar[int] = 32
    loss: str = "cross_entropy"

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Pad, convolve, score."""
        if len(shape) == 1 and math.isqrt(shape[0]) ** 2 == shape[0]:
            shape = (math.isqrt(shape[0]),) * 2  # flattened square images
        channels, height, width = (1, *shape) if len(shape) == 2 else shape if len(shape) == 3 else (0, 0, 0)
        if not channels or max(height, width) > self.SIDE:
            raise ConfigError(f"CNN needs images of at most {self.SIDE} x {self.SIDE} pixels; samples have shape {shape}.")
        return nn.Sequential(
            _Frame(channels, height, width, self.SIDE),
            nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 8 * 8, 128), nn.ReLU(), nn.Linear(128, outputs),
        )  # fmt: skip


class _Frame(nn.Module):
    """Samples as images [batch, channels, side, side], with zeros around them."""

    def __init__(self, channels: int, height: int, width: int, side: int) -> None:
        super().__init__()
        self.size = (channels, height, width)
        top, left = (side - height) // 2, (side - width) // 2
        self.pad = (left, side - width - left, top, side - height - top)

    def forward(self, x: Tensor) -> Tensor:
        """Reshape and pad."""
        return torch.nn.functional.pad(x.reshape(-1, *self.size), self.pad)


MODELS: dict[str, Callable[..., Model]] = {
    "cnn": CNN,
    "least_squares": partial(Linear, loss="squared"),
    "linear": Linear,
    "logistic": partial(Linear, loss="logistic"),
    "mlp": MLP,
    "softmax": partial(Linear, loss="cross_entropy"),
    "svm": partial(Linear, loss="hinge"),
}
