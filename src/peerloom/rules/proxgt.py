"""Proximal gradient tracking with several mixings: ProxGT, with less noise ProxGT-SR, PMGT-SVRG.

The latter two take a large batch now and then, and differences of gradients on one small batch in
between. The schedule says when: v_i = 1 in the rounds in which client i takes a large batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from torch import Tensor

from ..core import MEAN, ConfigError, Plan, Port, Requirements, rule

__all__ = ["PMGTSVRG", "ProxGT", "ProxGTSRE", "ProxGTSRO"]

_NEEDS = Requirements(
    symmetric=True,
    accepts=MEAN,
    prox=True,
    instead="Use a graph such as 'ring' or 'geometric', or a rule for directed graphs.",
)


class Tracked(NamedTuple):
    """The models, the trackers, the last gradients."""

    x: Tensor
    y: Tensor
    v: Tensor


class Recursive(NamedTuple):
    """The models, the trackers, the estimates of the gradients, the models of the round before."""

    x: Tensor
    y: Tensor
    v: Tensor
    before: Tensor


class Anchored(NamedTuple):
    """The models, trackers and estimates; where a whole gradient was taken last, and that one."""

    x: Tensor
    y: Tensor
    v: Tensor
    anchor: Tensor
    whole: Tensor


@rule("Xin et al. 2021", "z, y, K times", "regularised problems on undirected graphs")
@dataclass(frozen=True)
class ProxGT:
    """ProxGT-SA: proximal gradient tracking with several rounds of mixing in each.

        y <- W^K (y + v - old v),  v = g(x)     x <- W^K prox_h^{1/alpha}(x - alpha y)

    y and the old v start at zero. Each of the K mixings is a message. The original's acceleration,
    a Chebyshev polynomial of W in the place of W^K, is `Chebyshev(ProxGT(lr), K, modulus)`. Needs
    symmetric links.
    Reference: Xin, Das, Khan and Kar, "A Stochastic Proximal Gradient Framework for Decentralized
    Non-Convex Composite Optimization", 2021.
    """

    lr: float
    K: int = 1
    needs: ClassVar[Requirements] = _NEEDS
    plan: ClassVar[Plan] = Plan(nodes="always", links="always")

    def __post_init__(self) -> None:
        _check(self, self.lr, self.K)

    def init(self, x: Tensor, port: Port) -> Tracked:
        """Nothing tracked yet."""
        return Tracked(x, 0 * x, 0 * x)

    def step(self, s: Tracked, port: Port) -> Tracked:
        """Track, then step."""
        v = port.grad(s.x)
        x, y = _tracked(s.x, s.y + v - s.v, self.lr, self.K, port)
        return Tracked(x, y, v)


@rule("Xin et al. 2021", "z, y, K times", "noisy gradients from a stream of samples, regularised")
@dataclass(frozen=True)
class ProxGTSRO:
    """ProxGT-SR-O: ProxGT whose gradient is followed by differences, refreshed by large batches.

        v <- mean of g_1(x) ... g_large(x)           in rounds 1, q + 1, 2 q + 1, ...
        v <- v + g(x) - g(x of the round before)     in the others, both on the same batch
        y <- W^K (y + v - old v)     x <- W^K prox_h^{1/alpha}(x - alpha y)

    g_k is the gradient on the k-th batch of the round, so that `large` batches make the paper's B
    samples. y and the old v start at zero. `q` puts its own rounds in the place of the schedule's;
    without it v_i of the schedule says, client by client, who takes the large batch, and under
    `Always` everyone does in every round. A client that never took one adds nothing. Each of the
    K mixings is a message; the paper's accelerated W^K is `Chebyshev(ProxGTSRO(...), K, modulus)`.
    Needs symmetric links.

    Reference: Xin, Das, Khan and Kar, "A Stochastic Proximal Gradient Framework for Decentralized
    Non-Convex Composite Optimization: Topology-Independent Sample Complexity and Communication
    Efficiency", 2021: O is for online, samples that are never seen twice. The text was not at hand;
    this is SARAH's estimator in ProxGT as DEPOSITUM's baselines describe it.

    >>> import peerloom as pl
    >>> problem = pl.problems.Quadratic(A=[[[1.0]], [[1.0]]], b=[[1.0], [3.0]], noise=0.1)
    >>> rule = pl.rules.ProxGTSRO(lr=0.2, q=5, large=100)
    >>> exp = pl.Experiment(pl.graphs.complete(2), problem, rule, rounds=50, dtype="float64")
    >>> result = pl.simulate(exp)
    >>> bool(abs(result.x.mean() - 2) < 0.02), result.ledger.gradients
    (True, 2160)
    """

    lr: float
    q: int | None = None
    large: int = 10
    K: int = 1
    needs: ClassVar[Requirements] = _NEEDS

    def __post_init__(self) -> None:
        _check(self, self.lr, self.K, self.q)
        if self.large < 1:
            raise ConfigError(f"ProxGTSRO.large must be at least 1 batch, found {self.large}.")

    @property
    def plan(self) -> Plan:
        """All links in every round, large batches in every q-th."""
        return Plan(links="always", refresh=self.q)

    def init(self, x: Tensor, port: Port) -> Recursive:
        """Nothing tracked yet."""
        return Recursive(x, 0 * x, 0 * x, x)

    def step(self, s: Recursive, port: Port) -> Recursive:
        """Estimate, track, step."""
        fresh = port.active()
        v = port.grad(s.x, fresh)
        for k in range(1, self.large):
            v = v + port.grad(s.x, fresh, batch=k)
        v = v / self.large + _followed(s, 1 - fresh, port)
        x, y = _tracked(s.x, s.y + v - s.v, self.lr, self.K, port)
        return Recursive(x, y, v, s.x)


@rule("Xin et al. 2021", "z, y, K times", "regularised problems on a fixed set of samples")
@dataclass(frozen=True)
class ProxGTSRE:
    """ProxGT-SR-E: ProxGT whose gradient is followed by differences, refreshed on all samples.

        v <- gradient of f_i at x                    in rounds 1, q + 1, 2 q + 1, ...
        v <- v + g(x) - g(x of the round before)     in the others, both on the same batch
        y <- W^K (y + v - old v)     x <- W^K prox_h^{1/alpha}(x - alpha y)

    f_i's gradient is on all samples of client i, and is charged as so many batches. All else is as
    in `ProxGTSRO`. Without noise it is ProxGT.

    Reference: Xin, Das, Khan and Kar 2021, as for ProxGTSRO: E is for empirical risk. The refresh
    on all samples is also how DEEPSTORM's authors run it as a baseline (Mancino-Ball et al. 2023).
    """

    lr: float
    q: int | None = None
    K: int = 1
    needs: ClassVar[Requirements] = _NEEDS

    def __post_init__(self) -> None:
        _check(self, self.lr, self.K, self.q)

    @property
    def plan(self) -> Plan:
        """All links in every round, whole gradients in every q-th."""
        return Plan(links="always", refresh=self.q)

    def init(self, x: Tensor, port: Port) -> Recursive:
        """Nothing tracked yet."""
        return Recursive(x, 0 * x, 0 * x, x)

    def step(self, s: Recursive, port: Port) -> Recursive:
        """Estimate, track, step."""
        fresh = port.active()
        v = port.grad(s.x, fresh, batch="all") + _followed(s, 1 - fresh, port)
        x, y = _tracked(s.x, s.y + v - s.v, self.lr, self.K, port)
        return Recursive(x, y, v, s.x)


@rule("Ye et al. 2020", "z, y, K times", "exact optima by small batches, regularised")
@dataclass(frozen=True)
class PMGTSVRG:
    """PMGT-SVRG: proximal multi-consensus gradient tracking with SVRG's estimator.

        w <- x,  mu <- gradient of f_i at w          in rounds 1, q + 1, 2 q + 1, ...
        v = g(x) - g(w) + mu                         g(x) and g(w) on the same batch
        y <- W^K (y + v - old v)     x <- W^K prox_h^{1/alpha}(x - alpha y)

    The method that PaME's table I calls DMGT-SVRG: the paper it cites there has PMGT-SVRG. w is the
    model at which client i took its last gradient on all samples, mu that gradient. The noise of v
    vanishes as x and w meet, so that constant steps reach the optimum. `q`, the schedule, K and the
    start are those of `ProxGTSRO`; the paper's FastMix in the place of W^K is accelerated mixing,
    as `Chebyshev(PMGTSVRG(...), K, modulus)` is. Needs symmetric links.

    Reference: Ye, Xiong and Zhang, "PMGT-VR: A Decentralized Proximal-Gradient Algorithmic
    Framework with Variance Reduction", 2020; Liu and Low, "Decentralized Sum-of-Nonconvex
    Optimization", 2024. Their pseudocode was not at hand: this is SVRG's estimator, with w set
    at the start of a round, in the tracking that ProxGT has too.
    """

    lr: float
    q: int | None = None
    K: int = 1
    needs: ClassVar[Requirements] = _NEEDS

    def __post_init__(self) -> None:
        _check(self, self.lr, self.K, self.q)

    @property
    def plan(self) -> Plan:
        """All links in every round, whole gradients in every q-th."""
        return Plan(links="always", refresh=self.q)

    def init(self, x: Tensor, port: Port) -> Anchored:
        """Nothing tracked, and no gradient taken yet."""
        return Anchored(x, 0 * x, 0 * x, x, 0 * x)

    def step(self, s: Anchored, port: Port) -> Anchored:
        """Estimate, track, step."""
        fresh = port.active()
        w = fresh * s.x + (1 - fresh) * s.anchor
        mu = port.grad(s.x, fresh, batch="all") + (1 - fresh) * s.whole
        v = port.grad(s.x) - port.grad(w) + mu
        x, y = _tracked(s.x, s.y + v - s.v, self.lr, self.K, port)
        return Anchored(x, y, v, w, mu)


def _followed(s: Recursive, rows: Tensor, port: Port) -> Tensor:
    """v + g(x) - g(x of the round before) of the rows with 1, on one batch; 0 of the others."""
    return rows * s.v + port.grad(s.x, rows) - port.grad(s.before, rows)


def _tracked(x: Tensor, tracked: Tensor, lr: float, K: int, port: Port) -> tuple[Tensor, Tensor]:
    """The models and trackers after ProxGT's mixing and step."""
    y = _mixed(tracked, K, port)
    return _mixed(port.prox(x - lr * y, lr), K, port), y


def _mixed(x: Tensor, K: int, port: Port) -> Tensor:
    for _ in range(K):
        x = port.mix(x)
    return x


def _check(rule: object, lr: object, K: int, q: int | None = None) -> None:
    name = type(rule).__name__
    if not (isinstance(lr, float | int) and 0 < lr < math.inf and K >= 1):
        raise ConfigError(f"{name} needs lr > 0 and K >= 1; found {lr} and {K}.")
    if q is not None and q < 1:
        raise ConfigError(f"{name}.q must be at least 1 round, or left out; found {q}.")
