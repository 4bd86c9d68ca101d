"""Local steps of torch.optim, on rows: AdamW and SGD with momentum, to torch's last bit.

Every row has its own step size and has taken its own number of steps.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..core import ConfigError, Port, Rates, check_rates, rates_at

__all__ = [
    "Moments", "adamw_steps", "check_adamw", "check_fraction", "check_moments", "check_steps",
    "column", "momentum_step", "own_rates",
]  # fmt: skip


class Moments(NamedTuple):
    """The models, Adam's two moments, and how many steps each row has taken, as a column."""

    x: Tensor
    m: Tensor
    v: Tensor
    k: Tensor


class TakesSteps(Protocol):
    """A rule that takes local steps."""

    @property
    def lr(self) -> Rates:
        """The step size of all clients, or of each."""

    @property
    def K(self) -> int:  # noqa: N802  (the papers' letter)
        """How many steps a round has, each on a batch of its own."""

    @property
    def weight_decay(self) -> float:
        """How strongly models are drawn to zero."""


class TakesAdamWSteps(TakesSteps, Protocol):
    """A rule whose local steps are AdamW's."""

    @property
    def betas(self) -> tuple[float, float]:
        """What the two moments keep in a step."""

    @property
    def eps(self) -> float:
        """What is added to the root of the second moment."""

    @property
    def clip(self) -> float | None:
        """The norm beyond which a gradient is shortened to it."""


def adamw_steps(rule: TakesAdamWSteps, s: Moments, port: Port) -> Moments:
    """K steps of AdamW of the rows that compute in this round; the others stay as they are.

    m <- b1 m + (1 - b1) g     v <- b2 v + (1 - b2) g^2     k <- k + 1
    x <- (1 - lr wd) x - lr (m / (1 - b1^k)) / (sqrt(v / (1 - b2^k)) + eps)
    """
    (b1, b2), on = rule.betas, port.active()
    lr, (x, m, v, k) = own_rates(rule.lr, port, len(s.x)), s
    keep = column(x, [1 - each * rule.weight_decay for each in lr])
    for batch in range(rule.K):
        g = _clipped(port.grad(x, on, batch=batch), rule.clip)
        m, v, k = torch.lerp(m, g, 1 - b1), torch.addcmul(v * b2, g, g, value=1 - b2), k + on
        # Numbers of Python, as torch has them: columns of the run's type would lose bits.
        taken = [max(count, 1.0) for count in k[:, 0].tolist()]
        step = column(x, [-(each / (1 - b1**count)) for each, count in zip(lr, taken, strict=True)])
        root = column(x, [(1 - b2**count) ** 0.5 for count in taken])
        x = x * keep + step * m / (v.sqrt() / root + rule.eps)
    x, m, v = (torch.where(on > 0, *both) for both in ((x, s.x), (m, s.m), (v, s.v)))
    return Moments(x, m, v, k)


def momentum_step(
    x: Tensor, b: Tensor, g: Tensor, lr: list[float], momentum: float, nesterov: bool
) -> tuple[Tensor, Tensor]:
    """A step of SGD with momentum, and the new buffers.

    b <- momentum b + g     x <- x - lr b, or with Nesterov's x <- x - lr (g + momentum b)
    """
    b = torch.add(b * momentum, g)
    along = torch.add(g, b, alpha=momentum) if nesterov else b
    if len(set(lr)) == 1:
        return torch.add(x, along, alpha=-lr[0]), b
    # Row by row: the product with a column is rounded before it is added, torch's is not.
    rows = zip(x, along, lr, strict=True)
    return torch.stack([torch.add(row, own, alpha=-each) for row, own, each in rows]), b


def own_rates(lr: Rates, port: Port, rows: int) -> list[float]:
    """The step size of each of the rows that live here, as numbers of Python."""
    found = rates_at(lr, port.t)
    if not isinstance(found, list):
        return [found] * rows
    which = port.constant(range(len(found)))
    return [found[int(client)] for client in which[:, 0].tolist()]


def column(like: Tensor, values: list[float]) -> Tensor:
    """A number per row, as a column."""
    return like.new_tensor(values)[:, None]


def check_steps(rule: TakesSteps) -> None:
    """Refuse local steps that cannot work."""
    check_rates(rule)
    name = type(rule).__name__
    if rule.K < 1:
        raise ConfigError(f"{name}.K must be at least 1 local step, found {rule.K}.")
    if not 0 <= rule.weight_decay < math.inf:
        raise ConfigError(
            f"{name}.weight_decay must be at least 0 and finite, found {rule.weight_decay}."
        )


def check_adamw(rule: TakesAdamWSteps) -> None:
    """Refuse steps of AdamW that cannot work."""
    check_steps(rule)
    check_moments(type(rule).__name__, rule.betas, rule.eps)
    if rule.clip is not None and not 0 < rule.clip < math.inf:
        raise ConfigError(
            f"{type(rule).__name__}.clip must be above 0, or left out, found {rule.clip}."
        )


def check_moments(name: str, betas: tuple[float, ...], eps: float) -> None:
    """Refuse moments that would never forget, and a root that may be zero."""
    if not all(0 <= beta < 1 for beta in betas):
        raise ConfigError(f"{name}.betas must be numbers from 0 to below 1, found {betas}.")
    if not 0 < eps < math.inf:
        raise ConfigError(f"{name}.eps must be above 0, found {eps}.")


def check_fraction(name: str, value: float) -> None:
    """Refuse what is not from 0 to below 1."""
    if not 0 <= value < 1:
        raise ConfigError(f"{name} must be from 0 to below 1, found {value}.")


def _clipped(g: Tensor, norm: float | None) -> Tensor:
    """Rows no longer than `norm`, as torch.nn.utils.clip_grad_norm_ has it."""
    if norm is None:
        return g
    length = torch.linalg.vector_norm(g, dim=1, keepdim=True)
    return g * torch.clamp(norm / (length + 1e-6), max=1.0)
