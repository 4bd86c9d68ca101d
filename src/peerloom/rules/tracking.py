"""Gradient tracking with every client and every link, undirected and directed; push-sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..core import (
    MASS,
    MEAN,
    HasRate,
    Plan,
    Port,
    Rate,
    Requirements,
    check_rate,
    pull,
    push,
    rate_at,
    rule,
)

__all__ = ["AB", "DSGT", "SGP", "PushDIGing", "PushPull", "SubgradientPush"]

_ALL = Plan(nodes="always", links="always")


class Tracked(NamedTuple):
    """The models, the trackers, the last gradients."""

    x: Tensor
    y: Tensor
    g: Tensor


class PushTracked(NamedTuple):
    """The models u / w, the pushed sums and their weights, the trackers, the last gradients."""

    x: Tensor
    u: Tensor
    w: Tensor
    y: Tensor
    g: Tensor


class Pushed(NamedTuple):
    """The models u / w, the pushed sums and their weights."""

    x: Tensor
    u: Tensor
    w: Tensor


@rule("Pu and Nedic 2021", "x - alpha y, y", "unequal data on undirected graphs")
@dataclass(frozen=True)
class DSGT:
    """Distributed stochastic gradient tracking on an undirected graph.

        x <- W (x - alpha y)
        y <- W y + g(x) - g(old x)          form=6, the default
        y <- W (y + g(x) - g(old x))        form=8: two messages per round

    y starts as the first gradient; the mean of y is the mean of g. Needs symmetric links.
    Reference: Pu and Nedic 2021; the forms are those of DEPOSITUM's eqs. (6) and (8).
    """

    lr: float | Rate
    form: Literal[6, 8] = 6
    needs: ClassVar[Requirements] = Requirements(
        symmetric=True, accepts=MEAN, instead="Use AB or PushPull on directed graphs."
    )
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        check_rate(self)

    def init(self: HasRate, x: Tensor, port: Port) -> Tracked:
        """The tracker starts as the first gradient."""
        g = port.grad(x)
        return Tracked(x, g, g)

    def step(self, s: Tracked, port: Port) -> Tracked:
        """Mix the stepped models, track the change of the gradients."""
        stepped = torch.sub(s.x, s.y, alpha=rate_at(self.lr, port.t))
        if self.form == 6:
            x, y = port.mix(stepped, s.y)
            g = port.grad(x)
            return Tracked(x, y + g - s.g, g)
        x = port.mix(stepped)
        g = port.grad(x)
        return Tracked(x, port.mix(s.y + g - s.g), g)


@rule("Xin and Khan 2018", "x, y", "exact optima on directed graphs, with every link")
@dataclass(frozen=True)
class AB:
    """AB: gradient tracking that pulls the models and pushes the trackers.

        x <- A x - alpha y          y <- B y + g(x) - g(old x)

    A row-stochastic, B column-stochastic. The step takes the old tracker; tracker_in_step="mixed"
    takes B y, as Spod-GT does. Any strongly connected graph.
    Reference: Xin and Khan 2018; time-varying in Nedic et al. 2025.
    """

    lr: float | Rate
    tracker_in_step: Literal["old", "mixed"] = "old"
    needs: ClassVar[Requirements] = Requirements(accepts=MASS)
    plan: ClassVar[Plan] = _ALL

    init = DSGT.init

    def __post_init__(self) -> None:
        check_rate(self)

    def step(self, s: Tracked, port: Port) -> Tracked:
        """Mix both, step, track."""
        x, y = port.mix(pull(s.x), push(s.y))
        x = torch.sub(
            x, y if self.tracker_in_step == "mixed" else s.y, alpha=rate_at(self.lr, port.t)
        )
        g = port.grad(x)
        return Tracked(x, y + g - s.g, g)


@rule("Pu et al. 2021", "x - alpha y, y", "exact optima on directed graphs, with every link")
@dataclass(frozen=True)
class PushPull:
    """Push-Pull: the models are pulled after the step, the trackers are pushed.

        x <- R (x - alpha y)          y <- C y + g(x) - g(old x)

    R row-stochastic, C column-stochastic. Any strongly connected graph.
    Reference: Pu, Shi, Xu and Nedic, "Push-Pull Gradient Methods for Distributed Optimization in
    Networks", 2021.
    """

    lr: float | Rate
    needs: ClassVar[Requirements] = Requirements(accepts=MASS)
    plan: ClassVar[Plan] = _ALL

    init = DSGT.init

    def __post_init__(self) -> None:
        check_rate(self)

    def step(self, s: Tracked, port: Port) -> Tracked:
        """Mix both, track."""
        x, y = port.mix(pull(torch.sub(s.x, s.y, alpha=rate_at(self.lr, port.t))), push(s.y))
        g = port.grad(x)
        return Tracked(x, y + g - s.g, g)


@rule(
    "Nedic, Olshevsky and Shi 2017", "u, w, y", "directed graphs where only out-degrees are known"
)
@dataclass(frozen=True)
class PushDIGing:
    """Push-DIGing: gradient tracking with column-stochastic weights only, by push-sum.

        u <- C (u - alpha y)     w <- C w     x = u / w     y <- C y + g(x) - g(old x)

    w starts as ones. A sender needs to know its out-degree and nothing else. Any strongly connected
    graph. The averaged model is the mean of u, to which row i adds w_i x_i.
    Reference: Nedic, Olshevsky and Shi, "Achieving Geometric Convergence for Distributed
    Optimization over Time-Varying Graphs", 2017.
    """

    lr: float | Rate
    needs: ClassVar[Requirements] = Requirements(accepts=MASS)
    plan: ClassVar[Plan] = _ALL
    mass: ClassVar[str] = "w"

    def __post_init__(self) -> None:
        check_rate(self)

    def init(self, x: Tensor, port: Port) -> PushTracked:
        """Weights of one, the tracker starts as the first gradient."""
        g = port.grad(x)
        return PushTracked(x, x, torch.ones_like(x[:, :1]), g, g)

    def step(self, s: PushTracked, port: Port) -> PushTracked:
        """Push sums, weights and trackers in one message."""
        u, w, y = port.mix(
            push(torch.sub(s.u, s.y, alpha=rate_at(self.lr, port.t))), push(s.w), push(s.y)
        )
        x = u / w
        g = port.grad(x)
        return PushTracked(x, u, w, y + g - s.g, g)


@rule("Assran et al. 2019", "u, w", "directed graphs, without trackers")
@dataclass(frozen=True)
class SGP:
    """Stochastic gradient push: SGD whose models are push-sums.

        u <- P (u - gamma g(x))     w <- P w     x = u / w

    P column-stochastic, w starts as ones. Any strongly connected graph. The averaged model is the
    mean of u, to which row i adds w_i x_i: mixing preserves it.
    Reference: Assran et al., "Stochastic Gradient Push for Distributed Deep Learning", 2019.
    """

    lr: float | Rate
    needs: ClassVar[Requirements] = Requirements(accepts=MASS)
    plan: ClassVar[Plan] = _ALL
    mass: ClassVar[str] = "w"

    def __post_init__(self) -> None:
        check_rate(self)

    def init(self: HasRate, x: Tensor, port: Port) -> Pushed:
        """Weights of one."""
        return Pushed(x, x, torch.ones_like(x[:, :1]))

    def step(self: HasRate, s: Pushed, port: Port) -> Pushed:
        """Step, then push the sums and their weights."""
        u, w = port.mix(
            push(torch.sub(s.u, port.grad(s.x), alpha=rate_at(self.lr, port.t))), push(s.w)
        )
        return Pushed(u / w, u, w)


@rule("Nedic and Olshevsky 2015", "u, w", "losses with corners, on directed graphs")
@dataclass(frozen=True)
class SubgradientPush:
    """Subgradient-push: SGP with a step size that shrinks, which is what makes it exact.

    Reference: Nedic and Olshevsky, "Distributed Optimization over Time-Varying Directed Graphs",
    2015.
    """

    lr: Rate
    needs: ClassVar[Requirements] = Requirements(accepts=MASS)
    plan: ClassVar[Plan] = _ALL
    mass: ClassVar[str] = "w"

    init, step = SGP.init, SGP.step
