"""Closed forms for models of one linear layer.

Their losses as quadratics, and bounds of curvature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import nn

from .losses import Loss
from .properties import Curvature, Quadratics

__all__ = ["design", "linear_curvature", "linear_layer", "linear_quadratics"]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


def linear_layer(module: nn.Module) -> nn.Linear | None:
    """The only layer of a module that is a linear one; None where there is more, or another."""
    layers = [part for part in module.modules() if not isinstance(part, nn.Sequential | nn.Flatten)]
    if len(layers) == 1 and isinstance(layers[0], nn.Linear):
        return layers[0]
    return None


def design(layer: nn.Linear, x: NDArray[np.float32], parts: Sequence[Ids]) -> list[Floats]:
    """Every client's inputs as a matrix, with a column of ones where the layer has a bias."""
    flat = x.reshape(len(x), -1).astype(np.float64)
    if layer.bias is not None:
        flat = np.concatenate([flat, np.ones((len(flat), 1))], axis=1)
    return [flat[part] for part in parts]


def linear_quadratics(sides: Sequence[Floats], targets: Sequence[Floats], l2: float) -> Quadratics:
    """Least squares on every client's inputs."""
    ridge = l2 * np.eye(sides[0].shape[1])
    A = np.stack([X.T @ X / len(X) + ridge for X in sides])
    return Quadratics(A, np.stack([X.T @ y / len(X) for X, y in zip(sides, targets, strict=True)]))


def linear_curvature(sides: Sequence[Floats], loss: Loss, l2: float) -> Curvature:
    """Bounds for any loss of a linear layer's scores; exact for the squared one."""
    note = "l2" if l2 else "no l2 term"
    if math.isinf(loss.curvature):
        return Curvature(l2, math.inf, True, note, f"the {loss.name} has kinks")
    top = max(float(np.linalg.eigvalsh(_gram(X))[-1]) for X in sides)
    least, exact = l2, loss.quadratic
    if exact:
        least += min(_least_eigenvalue(X) for X in sides)
    largest = loss.curvature * top + l2
    return Curvature(max(least, 0.0), largest, exact, note, "largest curvature anywhere")


def _least_eigenvalue(X: Floats) -> float:
    return float(np.linalg.eigvalsh(_gram(X))[0]) if len(X) >= X.shape[1] else 0.0


def _gram(X: Floats) -> Floats:
    """The smaller of X'X / N and XX' / N: their positive eigenvalues are the same."""
    return np.asarray((X.T @ X if len(X) >= X.shape[1] else X @ X.T) / len(X))
