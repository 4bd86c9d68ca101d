"""Losses of scores against labels, each with its derivative in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

__all__ = ["LOSSES", "Loss", "own_loss"]


@dataclass(frozen=True)
class Loss:
    """A loss per sample. Scores have shape [..., outputs], labels [...]."""

    name: str
    value: Callable[[Tensor, Tensor], Tensor]  # the loss of each sample, [...]
    # Its derivative by the scores, [..., outputs]; not known of a loss of the user's own.
    slope: Callable[[Tensor, Tensor], Tensor] | None
    correct: Callable[[Tensor, Tensor], Tensor] | None  # whether each sample is classified rightly
    one_output: bool = False
    curvature: float = math.inf  # the largest second derivative by the scores
    quadratic: bool = False  # whether the second derivative is the same everywhere


def _cross_entropy(s: Tensor, y: Tensor) -> Tensor:
    return torch.logsumexp(s, dim=-1) - s.gather(-1, y.unsqueeze(-1)).squeeze(-1)


def _cross_entropy_slope(s: Tensor, y: Tensor) -> Tensor:
    # Over an outer dimension, torch's softmax of a few classes is ten times faster, and
    # ClosedForm's scores lie that way.
    p = torch.softmax(s.transpose(-1, -2), dim=-2).transpose(-1, -2)
    return p.scatter_add_(-1, y.unsqueeze(-1), torch.full_like(p[..., :1], -1.0))


def _hinge(s: Tensor, y: Tensor) -> Tensor:
    # The sample's own class contributes max(0, 1) = 1.
    return (_margins(s, y).clamp_min(0).sum(dim=-1) - 1) / s.shape[-1]


def _hinge_slope(s: Tensor, y: Tensor) -> Tensor:
    violated = (_margins(s, y) > 0).to(s.dtype)
    # The sample's own class is among them; its slope is minus the number of the others.
    count = violated.sum(dim=-1, keepdim=True)
    return violated.scatter_(-1, y.unsqueeze(-1), 1 - count).div_(s.shape[-1])


def _margins(s: Tensor, y: Tensor) -> Tensor:
    return 1 + s - s.gather(-1, y.unsqueeze(-1))


def _logistic(s: Tensor, y: Tensor) -> Tensor:
    return softplus((1 - 2 * y).to(s.dtype) * s[..., 0])


def _logistic_slope(s: Tensor, y: Tensor) -> Tensor:
    return torch.sigmoid(s) - y.unsqueeze(-1).to(s.dtype)


def _squared(s: Tensor, y: Tensor) -> Tensor:
    return 0.5 * (s[..., 0] - y.to(s.dtype)).square()


def _squared_slope(s: Tensor, y: Tensor) -> Tensor:
    return s - y.unsqueeze(-1).to(s.dtype)


def _largest(s: Tensor, y: Tensor) -> Tensor:
    # As argmax, but faster where classes lie in blocks, as ClosedForm's do.
    return s.max(dim=-1).indices == y


def _positive(s: Tensor, y: Tensor) -> Tensor:
    return (s[..., 0] > 0) == (y > 0)


def own_loss(value: Callable[[Tensor, Tensor], Tensor], classified: bool) -> Loss:
    """A loss of (scores, labels): one number, the mean over the batch, or one for each sample.

    Samples that have one label each are `classified`, rightly or not.
    """
    name = getattr(value, "__name__", type(value).__name__)
    return Loss(name, value, None, _rightly if classified else None)


def _rightly(s: Tensor, y: Tensor) -> Tensor:
    return (_positive if s.shape[-1] == 1 else _largest)(s, y)


LOSSES: dict[str, Loss] = {
    "cross_entropy": Loss(
        "cross_entropy", _cross_entropy, _cross_entropy_slope, _largest, curvature=0.5
    ),
    # (1/C) sum over c != y of max(0, 1 - s_y + s_c): the multi-class margin of DSpodFL's and
    # Spod-GT's "SVM".
    "hinge": Loss("hinge", _hinge, _hinge_slope, _largest),
    # labels 0 and 1, one score
    "logistic": Loss(
        "logistic", _logistic, _logistic_slope, _positive, one_output=True, curvature=0.25
    ),
    # 1/2 (s - y)^2, one score, real targets
    "squared": Loss(
        "squared", _squared, _squared_slope, None, one_output=True, curvature=1.0, quadratic=True
    ),
}
