"""Several local steps, each on a batch of its own, then mixing: DFedAvgM, DFedSAM, K-GT.

DFedAvgM also in its quantised form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..core import (
    DIFFERENCES,
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

__all__ = ["KGT", "DFedAvgM", "DFedSAM", "QuantisedDFedAvgM"]

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
        _check_momentum(self, self.K, self.theta)

    def init(self, x: Tensor, port: Port) -> State:
        """One common start."""
        return State(x)

    def step(self, s: State, port: Port) -> State:
        """Local steps, then mixing."""
        return State(port.mix(_heavy_ball(s.x, self.lr, self.K, self.theta, port)))


@rule("Sun et al. 2022", "difference of x", "DFedAvgM with a few bits per coordinate")
@dataclass(frozen=True)
class QuantisedDFedAvgM:
    """Quantised DFedAvgM: what K local steps changed is sent in a few bits, and added.

        y[k+1] = y[k] - eta g(y[k]) + theta (y[k] - y[k-1]),   y[0] = y[-1] = x,   k = 0 ... K-1
        x <- x + W Q(y[K] - x)

    Q is the experiment's message, such as `Quantised`; a row adds its own change quantised too, so
    that the mean of x moves by the mean of what was sent. No copies of neighbours are kept, and
    models themselves are never averaged: what sets them apart stays, unless gradients draw it in.
    So all start from one model, and none of their differences is smaller than the noise of Q. Needs
    symmetric links.
    Reference: Sun, Li and Wang, "Decentralized Federated Averaging", 2022, Algorithm 2. Written
    from notes on it, not from its text.
    """

    lr: float | Rate
    K: int = 5
    theta: float = 0.9
    needs: ClassVar[Requirements] = replace(_SYMMETRIC, accepts=DIFFERENCES, common_start=True)
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check_momentum(self, self.K, self.theta)

    def init(self, x: Tensor, port: Port) -> State:
        """One common start."""
        return State(x)

    def step(self, s: State, port: Port) -> State:
        """Local steps, then the mixing of what they changed."""
        y = _heavy_ball(s.x, self.lr, self.K, self.theta, port)
        return State(s.x + port.mix(port.compress(y - s.x)))


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

    c always sums to zero over the clients. It starts at zero, as in the authors' code. The paper
    starts it from the first gradients, c_i = -g_i(x0) + mean of g_j(x0), which start="gradients"
    does as far as neighbours can: the first round takes no local step, sends z = g(x0) and so ends
    with c = -g(x0) + W g(x0), the paper's on a complete graph with equal weights. Spod-GT means
    another method by this name, which is `PeriodicGT`. Needs symmetric links.
    Reference: Liu, Lin, Koloskova and Stich, "Decentralized Gradient Tracking with Local Steps",
    2023, Algorithm 1.
    """

    lr: float
    K: int = 5
    server_lr: float = 1.0
    start: Literal["zero", "gradients"] = "zero"
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
        if port.t == 1 and self.start == "gradients":
            z = port.grad(s.x)
            mixed, x = port.mix(z, s.x)
            return Corrected(x, mixed - z)
        y = s.x
        for k in range(self.K):
            y = y - self.lr * (port.grad(y, batch=k) + s.c)
        z = (s.x - y) / (self.K * self.lr)
        mixed, x = port.mix(z, s.x - self.K * self.lr * self.server_lr * z)
        return Corrected(x, s.c - z + mixed)


def _heavy_ball(x: Tensor, lr: float | Rate, K: int, theta: float, port: Port) -> Tensor:
    """K local steps with momentum from x, each on a batch of its own."""
    eta, before, y = rate_at(lr, port.t), x, x
    for k in range(K):
        before, y = y, y - eta * port.grad(y, batch=k) + theta * (y - before)
    return y


def _check_momentum(rule: HasRate, K: int, theta: float) -> None:
    _check(rule, K)
    if not 0 <= theta < 1:
        name = type(rule).__name__
        raise ConfigError(f"{name}.theta must be from 0 to below 1, found {theta}.")


def _check(rule: HasRate, K: int) -> None:
    check_rate(rule)
    if K < 1:
        raise ConfigError(f"{type(rule).__name__}.K must be at least 1 local step, found {K}.")
