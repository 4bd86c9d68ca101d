"""Models by name. Each builds an ordinary nn.Module; any factory of your own does as well."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Protocol, runtime_checkable

from torch import nn

from ..arguments import checked
from .convnets import CNN, MLLCNN, VGG11, CifarResNet, LeNet, ResNet18

__all__ = ["MLP", "MODELS", "Linear", "Model"]


@runtime_checkable
class Model(Protocol):
    """A recipe for a module, and the loss it is meant for."""

    @property
    def loss(self) -> str:
        """The name of the loss."""

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """A module for samples of this shape."""


@checked
@dataclass(frozen=True)
class Linear:
    """One linear layer: softmax, SVM, logistic or least-squares regression, by its loss.

    784 -> 10 with bias has 7,850 parameters. `zero` starts it at 0, as the papers do with convex
    problems.
    """

    loss: str = "cross_entropy"
    bias: bool = True
    zero: bool = False

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Flatten, then the layer."""
        layer = nn.Linear(math.prod(shape), outputs, bias=self.bias)
        if self.zero:
            for parameter in layer.parameters():
                nn.init.zeros_(parameter)
        return nn.Sequential(nn.Flatten(), layer)


@checked
@dataclass(frozen=True)
class MLP:
    """Fully connected layers with ReLU.

    DEPOSITUM's has 128 and 64 hidden units (109,386 parameters on 28 x 28).
    """

    hidden: tuple[int, ...] = (128, 64)
    loss: str = "cross_entropy"

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Flatten, hidden layers, scores."""
        widths = [math.prod(shape), *self.hidden]
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


MODELS: dict[str, Callable[..., Model]] = {
    "cnn": CNN,
    "least_squares": partial(Linear, loss="squared"),
    "lenet": LeNet,
    "linear": Linear,
    "logistic": partial(Linear, loss="logistic"),
    "mll_cnn": MLLCNN,
    "mlp": MLP,
    "resnet18": ResNet18,
    "resnet20": CifarResNet,
    "softmax": partial(Linear, loss="cross_entropy"),
    "svm": partial(Linear, loss="hinge"),
    "vgg11": VGG11,
}
