"""Methods that send compressed differences from copies which every neighbour keeps: CHOCO-SGD, DCD-PSGD, BEER."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..core import ConfigError, HasRate, Needs, Net, Plan, Rate, check_rate, rate_at

__all__ = ["BEER", "CHOCO", "DCD"]

_SYMMETRIC = Needs(symmetric=True, instead="Use a rule for directed graphs, such as SpodGT with Coordinates.")
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


@dataclass(frozen=True)
class CHOCO:
    """CHOCO-SGD: gossip on copies that are brought up to date by compressed differences.

        x' = x - eta g(x)     q = C(x' - xhat)     xhat <- xhat + q     x <- x' + gamma (W - I) xhat

    xhat starts at zero. A row keeps its own xhat and the sum (W - I) xhat, which it brings up to date by the q that arrive,
    so no row stores its neighbours' copies. C is the experiment's message: TopK, RandK, Quantised, Sign. Needs symmetric
    links, all of them in every round: a q that is lost would leave the copies apart.
    Reference: Koloskova, Stich and Jaggi, "Decentralized Stochastic Optimization and Gossip Algorithms with Compressed
    Communication", 2019.
    """

    lr: float | Rate
    gamma: float = 0.1
    needs: ClassVar[Needs] = _SYMMETRIC
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, self.gamma)

    def init(self, x: Tensor, net: Net) -> Choco:
        """Copies of nothing."""
        return Choco(x, 0 * x, 0 * x)

    def step(self, s: Choco, net: Net) -> Choco:
        """Step, send the difference, gossip on the copies."""
        x = torch.sub(s.x, net.grad(s.x), alpha=rate_at(self.lr, net.t))
        q = net.compress(x - s.copy)
        lag = s.lag + net.mix(q) - q.value
        return Choco(torch.add(x, lag, alpha=self.gamma), s.copy + q.value, lag)


@dataclass(frozen=True)
class DCD:
    """DCD-PSGD: D-PSGD in which every model moves by a compressed difference, so that neighbours' copies are exact.

        x' = W x - gamma g(x)     z = C(x' - x)     x <- x + z

    C is the experiment's message and should be unbiased and mild. Needs symmetric links, all of them in every round, and one
    common first model: W x then is x, and every later W x is known from the z that arrive.
    Reference: Tang et al., "Communication Compression for Decentralized Training", 2018.
    """

    lr: float | Rate
    needs: ClassVar[Needs] = Needs(symmetric=True, common_start=True, instead=_SYMMETRIC.instead)
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        check_rate(self)

    def init(self, x: Tensor, net: Net) -> Dcd:
        """W of a common model is that model."""
        return Dcd(x, x)

    def step(self, s: Dcd, net: Net) -> Dcd:
        """Move by the compressed difference."""
        z = net.compress(torch.sub(s.mixed, net.grad(s.x), alpha=rate_at(self.lr, net.t)) - s.x)
        return Dcd(s.x + z.value, s.mixed + net.mix(z))


@dataclass(frozen=True)
class BEER:
    """BEER: gradient tracking in which models and trackers both travel as compressed differences.

        x <- x + gamma (W - I) h - eta v                       h  <- h  + C(x - h)
        v <- v + gamma (W - I) gh + g(x) - g(old x)            gh <- gh + C(v - gh)

    v starts as the first gradient, h and gh at zero; both differences travel in one message. The mean of v is the mean of g.
    C is the experiment's message. Needs symmetric links, all of them in every round.
    Reference: Zhao, Li, Li, Richtarik and Chi, "BEER: Fast O(1/T) Rate for Decentralized Nonconvex Optimization with
    Communication Compression", 2022, Algorithm 1.
    """

    lr: float | Rate
    gamma: float = 0.1
    needs: ClassVar[Needs] = _SYMMETRIC
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, self.gamma)

    def init(self, x: Tensor, net: Net) -> Beer:
        """The tracker starts as the first gradient; copies of nothing."""
        g = net.grad(x)
        return Beer(x, g, g, 0 * x, 0 * x, 0 * x, 0 * x)

    def step(self, s: Beer, net: Net) -> Beer:
        """Step, track, send both differences."""
        x = torch.sub(torch.add(s.x, s.lag_h, alpha=self.gamma), s.v, alpha=rate_at(self.lr, net.t))
        g = net.grad(x)
        v = torch.add(s.v, s.lag_gh, alpha=self.gamma) + g - s.g
        q, p = net.compress(x - s.h), net.compress(v - s.gh)
        mixed_q, mixed_p = net.mix(q, p)
        lag_h, lag_gh = s.lag_h + mixed_q - q.value, s.lag_gh + mixed_p - p.value
        return Beer(x, v, g, s.h + q.value, lag_h, s.gh + p.value, lag_gh)


def _check(rule: HasRate, gamma: float) -> None:
    check_rate(rule)
    if not 0 < gamma <= 1:
        raise ConfigError(f"{type(rule).__name__}.gamma must be above 0 and at most 1, found {gamma}.")
