"""Several local steps, each on a batch of its own, then mixing: DFedAvgM, DFedSAM, K-GT."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..core import (
    MEAN,
    ConfigError,
    HasRate,
    Plan,
    Port,
    Rate,
    Requirements,
    check_rate,
    rate_at,
    rule,
)

__all__ = ["KGT", "DFedAvgM", "DFedSAM"]

_SYMMETRIC = Requirements(
    symmetric=True,
    instead="Use a graph such as 'ring' or 'geometric', or a rule for directed graphs.",
)
_ALL = Plan(nodes="always", links="always")


class State(NamedTuple):
    """The models."""

    x: Tensor


class Corrected(NamedTuple):
    """The models, and what corrects their local steps."""

    x: Tensor
    c: Tensor


@rule("Sun et al. 2022", "x", "several local steps with momentum in each round")
@dataclass(frozen=True)
class DFedAvgM:
    """DFedAvgM: K local steps with heavy-ball momentum, then mixing.

        y[k+1] = y[k] - eta g(y[k]) + theta (y[k] - y[k-1]),   y[0] = y[-1] = x,   k = 0 ... K-1
        x <- W y[K]

    theta = 0 is DFedAvg as Sun et al. mean it; DSpodFL means a cycle of rounds by that name, which
    is `DFedAvg`. A round is K steps, each on a batch of its own. Needs symmetric links.
    Reference: Sun, Li and Wang, "Decentralized Federated Averaging", 2022.
    """

    lr: float | Rate
    K: int = 5
    theta: float = 0.9
    needs: ClassVar[Requirements] = _SYMMETRIC
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, self.K)
        if not 0 <= self.theta < 1:
            raise ConfigError(f"DFedAvgM.theta must be from 0 to below 1, found {self.theta}.")

    def init(self, x: Tensor, port: Port) -> State:
        """One common start."""
        return State(x)

    def step(self, s: State, port: Port) -> State:
        """Local steps, then mixing."""
        eta, before, y = rate_at(self.lr, port.t), s.x, s.x
        for k in range(self.K):
            before, y = y, y - eta * port.grad(y, batch=k) + self.theta * (y - before)
        return State(port.mix(y))


@rule("Shi et al. 2023", "x", "models that generalise: local steps towards flat minima")
@dataclass(frozen=True)
class DFedSAM:
    """DFedSAM: K local steps that look uphill first, towards flat minima, then mixing.

        K times, from y = x:  eps = rho g(y) / |g(y)|,   y <- y - eta g(y + eps) on the same batch
        x <- W^Q y

    Two gradients per local step. Q > 1 mixings per round are its MGS variant. Needs symmetric
    links.
    Reference: Shi et al., "Improving the Model Consistency of Decentralized Federated Learning",
    2023.
    """

    lr: float | Rate
    rho: float = 0.01
    K: int = 5
    Q: int = 1
    needs: ClassVar[Requirements] = _SYMMETRIC
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, self.K)
        if self.rho < 0 or self.Q < 1:
            raise ConfigError(f"DFedSAM needs rho >= 0 and Q >= 1; found {self.rho} and {self.Q}.")

    def init(self, x: Tensor, port: Port) -> State:
        """One common start."""
        return State(x)

    def step(self, s: State, port: Port) -> State:
        """Local steps, then mixing."""
        eta, y = rate_at(self.lr, port.t), s.x
        for k in range(self.K):
            g = port.grad(y, batch=k)
            norm = torch.linalg.vector_norm(g, dim=1, keepdim=True)
            eps = self.rho * g / torch.where(norm > 0, norm, 1.0)
            y = torch.sub(y, port.grad(y + eps, batch=k), alpha=eta)
        for _ in range(self.Q):
            y = port.mix(y)
        return State(y)


@rule("Liu et al. 2023", "x, z", "several local steps on unequal data")
@dataclass(frozen=True)
class KGT:
    """K-GT: local steps whose drift is corrected by tracking.

        K times, from x:  y <- y - eta_c (g(y) + c);     z = (x - y) / (K eta_c)
        c <- c - z + W z;     x <- W (x - K eta_c eta_s z)

    c starts at zero, as in the authors' code, and always sums to zero over the clients. Spod-GT
    means another method by this name, which is `PeriodicGT`. Needs symmetric links.
    Reference: Liu, Lin, Koloskova and Stich, "Decentralized Gradient Tracking with Local Steps",
    2023.
    """

    lr: float
    K: int = 5
    server_lr: float = 1.0
    needs: ClassVar[Requirements] = replace(_SYMMETRIC, accepts=MEAN)
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, self.K)
        if self.server_lr <= 0:
            raise ConfigError(f"KGT.server_lr must be above 0, found {self.server_lr}.")

    def init(self, x: Tensor, port: Port) -> Corrected:
        """Nothing to correct yet."""
        return Corrected(x, 0 * x)

    def step(self, s: Corrected, port: Port) -> Corrected:
        """Local steps, then both in one message."""
        y = s.x
        for k in range(self.K):
            y = y - self.lr * (port.grad(y, batch=k) + s.c)
        z = (s.x - y) / (self.K * self.lr)
        mixed, x = port.mix(z, s.x - self.K * self.lr * self.server_lr * z)
        return Corrected(x, s.c - z + mixed)


def _check(rule: HasRate, K: int) -> None:
    check_rate(rule)
    if K < 1:
        raise ConfigError(f"{type(rule).__name__}.K must be at least 1 local step, found {K}.")
