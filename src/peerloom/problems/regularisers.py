"""The part h of the objective that has an easy proximal step.

prox(z) = argmin_x h(x) + |x - z|^2 / (2 step)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ..arguments import checked
from ..core import ConfigError

__all__ = [
    "L1",
    "L2",
    "MCP",
    "REGULARISERS",
    "SCAD",
    "Box",
    "Regulariser",
    "Zero",
    "weak_convexity",
]


@runtime_checkable
class Regulariser(Protocol):
    """A function of each row with an easy prox."""

    def prox(self, z: Tensor, step: float) -> Tensor:
        """argmin_x h(x) + |x - z|^2 / (2 step), row by row."""

    def value(self, x: Tensor) -> Tensor:
        """h of each row."""


def weak_convexity(h: Regulariser | None) -> float:
    """The least rho for which h(x) + rho/2 |x|^2 is convex; 0 where h does not say otherwise."""
    return float(getattr(h, "weak_convexity", 0.0))


@checked
@dataclass(frozen=True)
class Zero:
    """h = 0."""

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The point itself."""
        return z

    def value(self, x: Tensor) -> Tensor:
        """Nothing."""
        return x.new_zeros(len(x))


@checked
@dataclass(frozen=True)
class L1:
    """h(x) = lam |x|_1: few coordinates that are not zero.

    >>> L1(1.0).prox(torch.tensor([[3.0, -0.5]]), step=1.0).tolist()
    [[2.0, -0.0]]
    """

    lam: float

    def __post_init__(self) -> None:
        _not_negative("L1.lam", self.lam)

    def prox(self, z: Tensor, step: float) -> Tensor:
        """Soft threshold at step * lam."""
        return _soft(z, step * self.lam)

    def value(self, x: Tensor) -> Tensor:
        """Lam |x|_1."""
        return self.lam * x.abs().sum(dim=1)


@checked
@dataclass(frozen=True)
class L2:
    """h(x) = lam / 2 |x|^2: ridge."""

    lam: float

    def __post_init__(self) -> None:
        _not_negative("L2.lam", self.lam)

    def prox(self, z: Tensor, step: float) -> Tensor:
        """Shrink by a factor."""
        return z / (1 + step * self.lam)

    def value(self, x: Tensor) -> Tensor:
        """Lam / 2 |x|^2."""
        return self.lam / 2 * x.square().sum(dim=1)


@checked
@dataclass(frozen=True)
class MCP:
    """The minimax concave penalty: lam |t| - t^2 / (2 theta) up to theta lam, constant beyond.

    1/theta-weakly convex.
    """

    lam: float
    theta: float

    def __post_init__(self) -> None:
        _not_negative("MCP.lam", self.lam)
        if self.theta <= 0:
            raise ConfigError(f"MCP.theta must be above 0, found {self.theta}.")

    @property
    def weak_convexity(self) -> float:
        """1 / theta."""
        return 1 / self.theta

    def prox(self, z: Tensor, step: float) -> Tensor:
        """Soft threshold, stretched back to meet the identity at theta lam."""
        _step_below("MCP", step, self.theta, "theta")
        inner = _soft(z, step * self.lam) / (1 - step / self.theta)
        return torch.where(z.abs() <= self.theta * self.lam, inner, z)

    def value(self, x: Tensor) -> Tensor:
        """Summed over coordinates."""
        t = x.abs()
        rising = self.lam * t - t.square() / (2 * self.theta)
        return torch.where(t <= self.theta * self.lam, rising, self.theta * self.lam**2 / 2).sum(
            dim=1
        )


@checked
@dataclass(frozen=True)
class SCAD:
    """The smoothly clipped absolute deviation: like l1 near zero, constant beyond theta lam.

    1/(theta-1)-weakly convex.
    """

    lam: float
    theta: float = 3.7

    def __post_init__(self) -> None:
        _not_negative("SCAD.lam", self.lam)
        if self.theta <= 2:
            raise ConfigError(f"SCAD.theta must be above 2, found {self.theta}.")

    @property
    def weak_convexity(self) -> float:
        """1 / (theta - 1)."""
        return 1 / (self.theta - 1)

    def prox(self, z: Tensor, step: float) -> Tensor:
        """Three pieces, continuous at (1 + step) lam and at theta lam."""
        _step_below("SCAD", step, self.theta - 1, "theta - 1")
        size = z.abs()
        middle = ((self.theta - 1) * z - z.sign() * step * self.theta * self.lam) / (
            self.theta - 1 - step
        )
        outer = torch.where(size <= self.theta * self.lam, middle, z)
        return torch.where(size <= (1 + step) * self.lam, _soft(z, step * self.lam), outer)

    def value(self, x: Tensor) -> Tensor:
        """Summed over coordinates."""
        t, lam, theta = x.abs(), self.lam, self.theta
        middle = (2 * theta * lam * t - t.square() - lam**2) / (2 * (theta - 1))
        outer = torch.where(t <= theta * lam, middle, (theta + 1) * lam**2 / 2)
        return torch.where(t <= lam, lam * t, outer).sum(dim=1)


@checked
@dataclass(frozen=True)
class Box:
    """h is 0 inside lo <= x <= hi and infinite outside: a constraint."""

    lo: float
    hi: float

    def __post_init__(self) -> None:
        if self.lo > self.hi:
            raise ConfigError(f"Box needs lo <= hi, found {self.lo} and {self.hi}.")

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The nearest point inside."""
        return z.clamp(self.lo, self.hi)

    def value(self, x: Tensor) -> Tensor:
        """0 or infinity.

        Averages of points inside may leave the box by rounding, hence the slack.
        """
        slack = 1e-6 * max(1.0, abs(self.lo), abs(self.hi))
        outside = ((x < self.lo - slack) | (x > self.hi + slack)).any(dim=1)
        return torch.where(outside, torch.inf, 0.0).to(x)


def _soft(z: Tensor, threshold: float) -> Tensor:
    return z.sign() * (z.abs() - threshold).clamp_min(0)


def _not_negative(what: str, value: float) -> None:
    if value < 0:
        raise ConfigError(f"{what} must not be negative, found {value}.")


def _step_below(name: str, step: float, limit: float, what: str) -> None:
    if step >= limit:
        raise ConfigError(
            f"{name}: the step {step:g} must be below {what} = {limit:g}, or its proximal step "
            "has no unique answer. Use a smaller step or a larger theta."
        )


REGULARISERS: dict[str, type[Regulariser]] = {
    "Box": Box,
    "L1": L1,
    "L2": L2,
    "MCP": MCP,
    "SCAD": SCAD,
    "Zero": Zero,
}
