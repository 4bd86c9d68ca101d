"""DEPOSITUM: proximal gradient tracking with momentum and local steps; DSMT."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

from torch import Tensor

from ..core import MEAN, WHOLE, ConfigError, Plan, Port, Requirements, rule
from .chebyshev import check_modulus

__all__ = ["DSMT", "AcceleratedDSMT", "Depositum"]

_SYMMETRIC = Requirements(
    symmetric=True,
    accepts=MEAN,
    instead="Use a graph such as 'ring' or 'geometric', or a rule for directed graphs.",
)
_ALL = Plan(nodes="always", links="always")


class State(NamedTuple):
    """The models, the trackers, the last gradients, the momentum."""

    x: Tensor
    y: Tensor
    g: Tensor
    mu: Tensor


class Descent(NamedTuple):
    """How a rule descends: x <- prox_h(x - step * direction), directions following trackers."""

    tracker: Tensor
    direction: Tensor
    step: float


class Proximal(NamedTuple):
    """The models, the trackers, the last gradients."""

    x: Tensor
    y: Tensor
    v: Tensor


class TwoSteps(NamedTuple):
    """Models and trackers, both also as they were before the last mixing; the momentum."""

    x: Tensor
    x_before: Tensor
    y: Tensor
    y_before: Tensor
    v: Tensor


@rule("DEPOSITUM", "z, y", "sparse models: any regulariser, momentum and local steps")
@dataclass(frozen=True)
class Depositum:
    """Decentralized proximal SGD with tracking and momentum, for f plus a regulariser h.

        mu <- gamma mu + (1 - gamma) y
        nu  = mu  (Polyak),  or  gamma mu + (1 - gamma) y  (Nesterov)
        x <- W_t prox_h^{1/alpha}(x - alpha nu)
        y <- W_t (y + beta g(x) - beta g(old x))

    x model, y tracker of beta times the mean gradient, mu and nu momentum, g mini-batch gradient;
    mu, y and g start at zero. W_t is W every T0 rounds and the identity otherwise: give it the
    schedule `Every(T0)`, under which the first round never talks; `Always` is taken for `Every(1)`.
    Two messages per talking round. The mean of y is beta times that of g. Needs symmetric links.

    Its fixed points solve 0 in beta grad f + dh: it minimises f + h / beta. h_scale="beta" scales h
    along, so that f + h is minimised whatever beta is; without it a warning says so before the run.
    h need not be convex.

    Reference: Zhou et al., "Decentralized Nonconvex Composite Federated Learning with Gradient
    Tracking and Momentum" (DEPOSITUM), Algorithm 1; the errata of its analysis do not touch the
    algorithm.

    >>> import peerloom as pl
    >>> A, b, h = [[[1.0]], [[1.0]]], [[1.0], [3.0]], pl.problems.L1(0.5)
    >>> problem = pl.problems.Quadratic(A=A, b=b, h=h)
    >>> rule = pl.rules.Depositum(alpha=0.1, beta=1.0, gamma=0.5)
    >>> exp = pl.Experiment(pl.graphs.complete(2), problem, rule, dtype="float64")
    >>> pl.simulate(exp).x.flatten().round(decimals=6).tolist()
    [1.5, 1.5]
    """

    alpha: float
    beta: float = 1.0
    gamma: float = 0.0
    nesterov: bool = False
    h_scale: Literal["beta"] | None = None
    needs: ClassVar[Requirements] = replace(_SYMMETRIC, prox=True)
    family: ClassVar[str] = "DEPOSITUM"
    plan: ClassVar[Plan] = Plan(quiet_start=True)

    def __post_init__(self) -> None:
        if not (0 < self.alpha < math.inf and 0 < self.beta < math.inf and 0 <= self.gamma < 1):
            raise ConfigError(
                "Depositum needs alpha > 0, beta > 0 and 0 <= gamma < 1; "
                f"found {self.alpha}, {self.beta}, {self.gamma}."
            )

    def caution(self, regularised: bool) -> str | None:
        """What a user should know before a run with this problem."""
        if not regularised or self.beta == 1 or self.h_scale == "beta":
            return None
        return (
            f"Depositum with beta = {self.beta:g} minimises f + h / {self.beta:g}, not f + h. "
            'Use beta = 1, or h_scale="beta" to scale h along.'
        )

    def init(self, x: Tensor, port: Port) -> State:
        """All but the models at zero: the first round is a pure proximal step."""
        return State(x, 0 * x, 0 * x, 0 * x)

    def step(self, s: State, port: Port) -> State:
        """Momentum, proximal step, mix; gradient, track, mix."""
        mu, nu = self._momentum(s)
        h_step = self.alpha * self.beta if self.h_scale == "beta" else self.alpha
        x = port.mix(port.prox(s.x - self.alpha * nu, h_step))
        g = port.grad(x)
        y = port.mix(s.y + self.beta * (g - s.g))
        return State(x, y, g, mu)

    def descent(self, s: State) -> Descent:
        """What the next round will do, to be measured."""
        return Descent(s.y, self._momentum(s)[1], self.alpha)

    def _momentum(self, s: State) -> tuple[Tensor, Tensor]:
        mu = self.gamma * s.mu + (1 - self.gamma) * s.y
        return mu, self.gamma * mu + (1 - self.gamma) * s.y if self.nesterov else mu


@rule("Huang, Pu and Nedic", "x - alpha y, y", "noisy gradients: momentum is tracked")
@dataclass(frozen=True)
class DSMT:
    """Distributed stochastic momentum tracking, as DEPOSITUM quotes it.

        x <- W (x - alpha y)     nu <- gamma nu + (1 - gamma) g(x)     y <- W (y + nu - old nu)

    nu and y start as (1 - gamma) times the first gradient. The original accelerates W, which is
    `AcceleratedDSMT`. Needs symmetric links.
    Reference: Huang, Pu and Nedic, "An Accelerated Distributed Stochastic Gradient Method with
    Momentum"; DEPOSITUM, remark 2.
    """

    lr: float
    gamma: float = 0.9
    needs: ClassVar[Requirements] = _SYMMETRIC
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check_momentum("DSMT", self.lr, self.gamma)

    def init(self, x: Tensor, port: Port) -> Proximal:
        """The momentum of a zero past."""
        nu = (1 - self.gamma) * port.grad(x)
        return Proximal(x, nu, nu)

    def step(self, s: Proximal, port: Port) -> Proximal:
        """Step and mix, then track the momentum."""
        x = port.mix(s.x - self.lr * s.y)
        nu = self.gamma * s.v + (1 - self.gamma) * port.grad(x)
        return Proximal(x, port.mix(s.y + nu - s.v), nu)


@rule("Huang, Pu and Nedic", "x - alpha y, y", "noisy gradients on poor graphs, one mixing each")
@dataclass(frozen=True)
class AcceleratedDSMT:
    """DSMT with loopless Chebyshev acceleration: one mixing where `Chebyshev` has K.

        u = x - alpha y     u' = x' - alpha y'     x <- (1 + eta) W u - eta u'     x' <- u
        nu <- gamma nu + (1 - gamma) g(x)          d = nu - old nu
        p = y + d           p' = y' + d            y <- (1 + eta) W p - eta p'     y' <- p
        eta = (1 - sqrt(1 - modulus^2)) / (1 + sqrt(1 - modulus^2))

    that is DSMT on pairs (x, x') and (y, y') with the matrix [(1 + eta) W, -eta I; I, 0] in the
    place of W. Pairs start equal and take the same steps, so means are those of DSMT. `modulus` is
    the second largest |eigenvalue| of W (`theory.matrices.second_modulus`); the disagreement then
    shrinks by sqrt(eta) = modulus / (1 + sqrt(1 - modulus^2)) a round in the long run. With
    modulus 0 it is DSMT. Messages are DSMT's. Needs symmetric links that fire together, and rows
    that arrive whole: under a W that changes the pairs can grow without end.

    Reference: Huang, Pu and Nedic, "An Accelerated Distributed Stochastic Gradient Method with
    Momentum", 2024; the matrix is that of Liu and Morse, "Accelerated Linear Iterations for
    Distributed Averaging", 2011. The original's text was not at hand: that both parts of a pair
    take every step was worked out from what keeps the means.
    """

    lr: float
    modulus: float
    gamma: float = 0.9
    needs: ClassVar[Requirements] = replace(_SYMMETRIC, accepts=WHOLE, links="together")
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check_momentum("AcceleratedDSMT", self.lr, self.gamma)
        check_modulus("AcceleratedDSMT", self.modulus)

    def init(self, x: Tensor, port: Port) -> TwoSteps:
        """The momentum of a zero past, in equal pairs."""
        nu = (1 - self.gamma) * port.grad(x)
        return TwoSteps(x, x, nu, nu, nu)

    def step(self, s: TwoSteps, port: Port) -> TwoSteps:
        """DSMT's step, on pairs."""
        u, u_before = s.x - self.lr * s.y, s.x_before - self.lr * s.y_before
        x = self._mixed(u, u_before, port)
        nu = self.gamma * s.v + (1 - self.gamma) * port.grad(x)
        p, p_before = s.y + (nu - s.v), s.y_before + (nu - s.v)
        return TwoSteps(x, u, self._mixed(p, p_before, port), p, nu)

    def _mixed(self, now: Tensor, before: Tensor, port: Port) -> Tensor:
        root = math.sqrt(1 - self.modulus**2)
        eta = (1 - root) / (1 + root)
        return (1 + eta) * port.mix(now) - eta * before


def _check_momentum(name: str, lr: object, gamma: float) -> None:
    if not (isinstance(lr, float | int) and 0 < lr < math.inf and 0 <= gamma < 1):
        raise ConfigError(f"{name} needs lr > 0 and 0 <= gamma < 1; found {lr} and {gamma}.")
