"""Compressed differences from copies: CHOCO, DCD, BEER, SQuARM, ANQ-NIDS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..core import (
    DIFFERENCES,
    ConfigError,
    CyclePlan,
    HasRate,
    Plan,
    Port,
    Rate,
    Requirements,
    check_rate,
    drift,
    rate_at,
    rule,
)

__all__ = ["ANQNIDS", "BEER", "CHOCO", "DCD", "SQuARM"]

_SYMMETRIC = Requirements(
    symmetric=True,
    accepts=DIFFERENCES,
    links="all",
    instead="Use a rule for directed graphs, such as SpodGT with Coordinates.",
)
_ALL = Plan(nodes="always", links="always")


class Choco(NamedTuple):
    """The models, the copies of them that neighbours keep, and (W - I) of the copies."""

    x: Tensor
    copy: Tensor
    lag: Tensor


class Dcd(NamedTuple):
    """The models, and W of them, kept up by what arrives."""

    x: Tensor
    mixed: Tensor


class Beer(NamedTuple):
    """Models, trackers and gradients; copies of models and trackers, and (W - I) of both."""

    x: Tensor
    v: Tensor
    g: Tensor
    h: Tensor
    lag_h: Tensor
    gh: Tensor
    lag_gh: Tensor


class Squarm(NamedTuple):
    """The models, their momentum, the copies that neighbours keep, and (W - I) of the copies."""

    x: Tensor
    v: Tensor
    copy: Tensor
    lag: Tensor


class AnqNids(NamedTuple):
    """The models, the last local step p, the copy dhat of what was sent, and (W - I) dhat."""

    x: Tensor
    p: Tensor
    copy: Tensor
    lag: Tensor


@rule(
    "Koloskova et al. 2019", "difference of x", "compressed messages of any kind, by a plain rule"
)
@dataclass(frozen=True)
class CHOCO:
    """CHOCO-SGD: gossip on copies that are brought up to date by compressed differences.

        x' = x - eta g(x)     q = C(x' - xhat)     xhat <- xhat + q     x <- x' + gamma (W - I) xhat

    xhat starts at zero. A row keeps its own xhat and the sum (W - I) xhat, which it brings up to
    date by the q that arrive, so no row stores its neighbours' copies. C is the experiment's
    message: TopK, RandK, Quantised, Sign. Needs symmetric links, all of them in every round: a q
    that is lost would leave the copies apart.
    Reference: Koloskova, Stich and Jaggi, "Decentralized Stochastic Optimization and Gossip
    Algorithms with Compressed Communication", 2019.
    """

    lr: float | Rate
    gamma: float = 0.1
    needs: ClassVar[Requirements] = _SYMMETRIC
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, self.gamma)

    def init(self, x: Tensor, port: Port) -> Choco:
        """Copies of nothing."""
        return Choco(x, 0 * x, 0 * x)

    def step(self, s: Choco, port: Port) -> Choco:
        """Step, send the difference, gossip on the copies."""
        x = torch.sub(s.x, port.grad(s.x), alpha=rate_at(self.lr, port.t))
        q = port.compress(x - s.copy)
        lag = s.lag + port.mix(drift(q))
        return Choco(torch.add(x, lag, alpha=self.gamma), s.copy + q.value, lag)


@rule("Tang et al. 2018", "difference of x", "mild, unbiased compression")
@dataclass(frozen=True)
class DCD:
    """DCD-PSGD: every model moves by a compressed difference, so that its copies are exact.

        x' = W x - gamma g(x)     z = C(x' - x)     x <- x + z

    C is the experiment's message and should be unbiased and mild. Needs symmetric links, all of
    them in every round, and one common first model: W x then is x, and every later W x is known
    from the z that arrive.
    Reference: Tang et al., "Communication Compression for Decentralized Training", 2018.
    """

    lr: float | Rate
    needs: ClassVar[Requirements] = replace(_SYMMETRIC, common_start=True)
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        check_rate(self)

    def init(self, x: Tensor, port: Port) -> Dcd:
        """W of a common model is that model."""
        return Dcd(x, x)

    def step(self, s: Dcd, port: Port) -> Dcd:
        """Move by the compressed difference."""
        z = port.compress(torch.sub(s.mixed, port.grad(s.x), alpha=rate_at(self.lr, port.t)) - s.x)
        return Dcd(s.x + z.value, s.mixed + port.mix(z))


@rule("Zhao et al. 2022", "differences of x, v", "compressed messages and unequal data together")
@dataclass(frozen=True)
class BEER:
    """BEER: gradient tracking with compressed differences of models and trackers.

        x <- x + gamma (W - I) h - eta v                       h  <- h  + C(x - h)
        v <- v + gamma (W - I) gh + g(x) - g(old x)            gh <- gh + C(v - gh)

    v starts as the first gradient, h and gh at zero; both differences travel in one message. The
    mean of v is the mean of g. C is the experiment's message. Needs symmetric links, all of them in
    every round.
    Reference: Zhao, Li, Li, Richtarik and Chi, "BEER: Fast O(1/T) Rate for Decentralized Nonconvex
    Optimization with Communication Compression", 2022, Algorithm 1.
    """

    lr: float | Rate
    gamma: float = 0.1
    needs: ClassVar[Requirements] = _SYMMETRIC
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, self.gamma)

    def init(self, x: Tensor, port: Port) -> Beer:
        """The tracker starts as the first gradient; copies of nothing."""
        g = port.grad(x)
        return Beer(x, g, g, 0 * x, 0 * x, 0 * x, 0 * x)

    def step(self, s: Beer, port: Port) -> Beer:
        """Step, track, send both differences."""
        # Sums go on in place: with seven tensors of rows, each pass over memory counts.
        x = torch.add(s.x, s.lag_h, alpha=self.gamma).sub_(s.v, alpha=rate_at(self.lr, port.t))
        g = port.grad(x)
        v = torch.add(s.v, s.lag_gh, alpha=self.gamma).add_(g).sub_(s.g)
        q, p = port.compress(x - s.h), port.compress(v - s.gh)
        drift_h, drift_gh = port.mix(drift(q), drift(p))
        return Beer(x, v, g, s.h + q.value, s.lag_h + drift_h, s.gh + p.value, s.lag_gh + drift_gh)


@rule(
    "Singh et al. 2021",
    "difference of x, if it is large",
    "fewest messages: silence until something changed",
)
@dataclass(frozen=True)
class SQuARM:
    """SQuARM-SGD: momentum, H local steps, and messages only from rows that moved far enough.

        v <- beta v + g(x)     x' = x - eta (beta v + g)
        in every H-th round:  q = C(x' - xhat) if |x' - xhat|^2 > c_t eta^2, else silence
                              xhat <- xhat + q     x <- x' + gamma (W - I) xhat
        in the others:        x <- x'
        c_t = c t^growth

    v and xhat start at zero. C is the experiment's message, `SignTopK` in the paper. A silent row
    sends nothing and is charged nothing. A schedule that says itself when links fire is followed as
    it is; with it, leave H out. Needs symmetric links, which fire together or not at all.
    Reference: Singh, Data, George and Diggavi, "SQuARM-SGD: Communication-Efficient Momentum SGD
    for Decentralized Optimization", 2021, Algorithm 1.
    """

    lr: float | Rate
    gamma: float = 0.1
    beta: float = 0.9
    H: int = 1
    c: float = 0.0
    growth: float = 0.0
    needs: ClassVar[Requirements] = replace(_SYMMETRIC, links="together")

    def __post_init__(self) -> None:
        _check(self, self.gamma)
        if not (0 <= self.beta < 1 and self.H >= 1 and self.c >= 0 and self.growth >= 0):
            raise ConfigError(
                f"SQuARM needs 0 <= beta < 1, H >= 1, c >= 0 and growth >= 0; found {self}."
            )
        if self.growth and not self.c:
            raise ConfigError(
                f"SQuARM.growth = {self.growth:g} would have no effect: it is what the threshold c "
                "grows by, and c is 0. Give c, or leave growth out."
            )

    @property
    def plan(self) -> Plan:
        """All rows compute in every round; all links fire in every H-th."""
        return Plan(cycle=CyclePlan(self.H, sgd_while_aggregating=True, period="D"))

    def init(self, x: Tensor, port: Port) -> Squarm:
        """At rest, with copies of nothing."""
        return Squarm(x, 0 * x, 0 * x, 0 * x)

    def step(self, s: Squarm, port: Port) -> Squarm:
        """Step; where links fire, send what has changed enough and gossip on the copies."""
        eta, g, talks = rate_at(self.lr, port.t), port.grad(s.x), port.fires()
        v = torch.add(g, s.v, alpha=self.beta)
        x = torch.sub(s.x, torch.add(g, v, alpha=self.beta), alpha=eta)
        moved = (x - s.copy).square().sum(dim=1, keepdim=True)
        q = port.compress(x - s.copy, send=talks * (moved > self.c * port.t**self.growth * eta**2))
        lag = s.lag + port.mix(drift(q))
        return Squarm(x + self.gamma * talks * lag, v, s.copy + q.value, lag)


@rule("Michelusi et al. 2022", "difference of d", "exact optima with a few bits per coordinate")
@dataclass(frozen=True)
class ANQNIDS:
    """ANQ-NIDS: NIDS whose extrapolated models travel as quantised differences.

        p[k] = x[k] - alpha g(x[k])     x1 = p0
        d = x[k] + p[k] - p[k-1]     dhat <- dhat + Q_k(d - dhat)     x[k+1] = d - (I - W)/2 dhat

    which is d = 2 x[k] - x[k-1] - alpha (g[k] - g[k-1]). dhat starts at zero. Q_k is the
    experiment's message: `ANQ`, whose levels shrink with the rounds, keeps the linear rate; with
    `Dense` it is NIDS. The first step is taken in `init`, so that after round t the models are
    x[t+1]. Needs symmetric links, all of them in every round.
    Reference: Michelusi, Scutari and Lee, "Finite-Bit Quantization For Distributed Algorithms With
    Linear Convergence", 2022. How d is sent was worked out from its fixed-point scheme; the paper's
    own pseudocode was not at hand.
    """

    lr: float
    needs: ClassVar[Requirements] = _SYMMETRIC
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        if not 0 < self.lr < float("inf"):
            raise ConfigError(
                "ANQNIDS.lr must be a constant above 0: its memory of the last step counts on it; "
                f"found {self.lr}."
            )

    def init(self, x: Tensor, port: Port) -> AnqNids:
        """The first, local step."""
        p = torch.sub(x, port.grad(x), alpha=self.lr)
        return AnqNids(p, p, 0 * x, 0 * x)

    def step(self, s: AnqNids, port: Port) -> AnqNids:
        """One message: the quantised change of the extrapolated model."""
        p = torch.sub(s.x, port.grad(s.x), alpha=self.lr)
        d = s.x + p - s.p
        q = port.compress(d - s.copy)
        lag = s.lag + port.mix(drift(q))
        return AnqNids(torch.add(d, lag, alpha=0.5), p, s.copy + q.value, lag)


def _check(rule: HasRate, gamma: float) -> None:
    check_rate(rule)
    if not 0 < gamma <= 1:
        raise ConfigError(
            f"{type(rule).__name__}.gamma must be above 0 and at most 1, found {gamma}."
        )
