"""Methods with a server, which is a hub: FedMiD, FedDualAvg, FedDR, FedADMM.

The server only averages; what it would compute from the average, each worker computes for itself,
with the same result. Every worker takes part in every round, but in FedDR and FedADMM those whom
the schedule lets: the others keep what they have, and the server what they sent last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from torch import Tensor

from ..core import STEADY, WHOLE, ConfigError, Plan, Port, Requirements, rule

__all__ = ["FedADMM", "FedDR", "FedDualAvg", "FedMiD"]

_SERVER = Requirements(
    layers=("up", "down"),
    one_hub=True,
    prox=True,
    accepts=STEADY,
    links="all",
    instead="Use graphs.hubs with a single hub.",
)
# What is added up must arrive, exactly, and start from what the server has.
_SOME = replace(_SERVER, accepts=WHOLE, links="scheduled", common_start=True)
_ALL = Plan(nodes="always", links="always")


class Model(NamedTuple):
    """The server's model, which everyone has."""

    x: Tensor


class Dual(NamedTuple):
    """The model, and the dual state it is the proximal point of."""

    x: Tensor
    y: Tensor


class Split(NamedTuple):
    """The server's model; each worker's own, and its second variable; the server's mean."""

    x: Tensor
    own: Tensor
    y: Tensor
    mean: Tensor


@rule(
    "Yuan et al. 2021",
    "x, to and from a server",
    "regularised problems, by the simplest rule with a server",
)
@dataclass(frozen=True)
class FedMiD:
    """Federated mirror descent: proximal steps at the workers, then one of the mean.

        K times, from w = x:  w <- prox_{eta_c h}(w - eta_c g(w))
        x <- prox_{eta_s eta_c K h}(x + eta_s (mean w - x))

    For `graphs.hubs` with a single hub; schedule `Always`. The prox parameter is the step size
    gathered so far.
    Reference: Yuan, Zaheer and Reddi, "Federated Composite Optimization", 2021, Algorithm 2.
    """

    lr: float
    K: int = 5
    server_lr: float = 1.0
    needs: ClassVar[Requirements] = _SERVER
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, lr=self.lr, K=self.K, server_lr=self.server_lr)

    def init(self, x: Tensor, port: Port) -> Model:
        """One common start."""
        return Model(x)

    def step(self, s: Model, port: Port) -> Model:
        """Local proximal steps, then the server's."""
        w = s.x
        for k in range(self.K):
            w = port.prox(w - self.lr * port.grad(w, batch=k), self.lr)
        return Model(
            port.prox(
                s.x + self.server_lr * (_mean(w, port) - s.x), self.server_lr * self.lr * self.K
            )
        )


@rule(
    "Yuan et al. 2021",
    "dual y, to and from a server",
    "sparse models that stay sparse under averaging",
)
@dataclass(frozen=True)
class FedDualAvg:
    """Federated dual averaging: gradients add up in the dual, one proximal step maps back.

        k = 0 ... K-1, from y_i = y:  w = prox_{eta h}(y_i),   eta = eta_s eta_c K r + eta_c k
                                      y_i <- y_i - eta_c g(w)
        y <- y + eta_s (mean y_i - y);     x = prox_{eta_s eta_c K (r + 1) h}(y)

    Rounds r count from 0, so the first step has eta = 0 and w = y. For `graphs.hubs` with a
    single hub.
    Reference: Yuan, Zaheer and Reddi, "Federated Composite Optimization", 2021, Algorithm 3.
    """

    lr: float
    K: int = 5
    server_lr: float = 1.0
    needs: ClassVar[Requirements] = _SERVER
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, lr=self.lr, K=self.K, server_lr=self.server_lr)

    def init(self, x: Tensor, port: Port) -> Dual:
        """The dual starts as the model."""
        return Dual(x, x)

    def step(self, s: Dual, port: Port) -> Dual:
        """Local dual steps, then the server's."""
        r, whole = port.t - 1, self.server_lr * self.lr * self.K
        y = s.y
        for k in range(self.K):
            eta = whole * r + self.lr * k
            w = port.prox(y, eta) if eta else y
            y = y - self.lr * port.grad(w, batch=k)
        y = s.y + self.server_lr * (_mean(y, port) - s.y)
        return Dual(port.prox(y, whole * (r + 1)), y)


@rule(
    "Tran Dinh et al. 2021", "2 x - y, to and from a server", "regularised problems, with a server"
)
@dataclass(frozen=True)
class FedDR:
    """Federated Douglas-Rachford splitting.

        who takes part:  y_i <- y_i + alpha (x - x_i);     x_i ~ prox_{eta f_i}(y_i)
        the server:      x <- prox_{eta h}(mean of 2 x_i - y_i)

    The inner problem, f_i(w) + |w - y_i|^2 / (2 eta), is solved by K gradient steps from x_i. The
    mean is over all workers: those who take part send what changed of 2 x_i - y_i, which the server
    adds to its mean. A worker takes part where it computes and its link up fires: all do, unless
    the schedule is one such as `Participation(share)`. For `graphs.hubs` with a single hub, and
    one common first model.
    Reference: Tran-Dinh, Pham, Phan and Nguyen, "FedDR - Randomized Douglas-Rachford Splitting
    Algorithms for Nonconvex Federated Composite Optimization", 2021.
    """

    lr: float
    eta: float = 1.0
    alpha: float = 1.0
    K: int = 5
    needs: ClassVar[Requirements] = _SOME
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, lr=self.lr, K=self.K, eta=self.eta, alpha=self.alpha)

    def init(self, x: Tensor, port: Port) -> Split:
        """All start as the model."""
        return Split(x, x, x, x)

    def step(self, s: Split, port: Port) -> Split:
        """Reflect, solve nearby, average the reflections."""
        v = _part(port)
        y, own = s.y + self.alpha * v * (s.x - s.own), s.own
        for k in range(self.K):
            own = own - self.lr * (port.grad(own, v, batch=k) + v * (own - y) / self.eta)
        mean = _moved(s.mean, (2 * own - y) - (2 * s.own - s.y), port)
        return Split(port.prox(mean, self.eta), own, y, mean)


@rule(
    "Wang, Marella and Anderson 2022",
    "x + z/eta, to and from a server",
    "regularised problems, with a server",
)
@dataclass(frozen=True)
class FedADMM:
    """Federated ADMM: the same splitting in its multiplier form.

        who takes part:  x_i ~ argmin f_i(w) + <z_i, w - x> + eta/2 |w - x|^2
                         z_i <- z_i + eta (x_i - x)
        the server:      x <- prox_{h / eta}(mean of x_i + z_i / eta)

    The inner problem is solved by K gradient steps from x_i. Equals FedDR with alpha = 1 and
    eta_DR = 1 / eta, where all take part. The mean is over all workers, and who takes part is said
    as in `FedDR`. For `graphs.hubs` with a single hub, and one common first model. The state's y
    is the multiplier z.
    Reference: Wang, Marella and Anderson, "FedADMM: A Federated Primal-Dual Algorithm Allowing
    Partial Participation", 2022.
    """

    lr: float
    eta: float = 1.0
    K: int = 5
    needs: ClassVar[Requirements] = _SOME
    plan: ClassVar[Plan] = _ALL

    def __post_init__(self) -> None:
        _check(self, lr=self.lr, K=self.K, eta=self.eta)

    def init(self, x: Tensor, port: Port) -> Split:
        """Multipliers of zero."""
        return Split(x, x, 0 * x, x)

    def step(self, s: Split, port: Port) -> Split:
        """Solve nearby, update the multipliers, average."""
        v, own = _part(port), s.own
        for k in range(self.K):
            own = own - self.lr * (port.grad(own, v, batch=k) + v * (s.y + self.eta * (own - s.x)))
        z = s.y + self.eta * v * (own - s.x)
        mean = _moved(s.mean, (own + z / self.eta) - (s.own + s.y / self.eta), port)
        return Split(port.prox(mean, 1 / self.eta), own, z, mean)


def _part(port: Port) -> Tensor:
    """Who takes part: the workers that compute and reach the server."""
    return port.active() * port.fires("up")


def _moved(mean: Tensor, change: Tensor, port: Port) -> Tensor:
    """The server's mean after what workers sent has been added, at all whom it reaches.

    A worker that is not reached keeps the mean that it knew.
    """
    # Nobody sends to workers here: for them, what comes back is their own change.
    return port.mix(mean + (port.mix(change, over="up") - change), over="down")


def _mean(x: Tensor, port: Port) -> Tensor:
    """The weighted mean over the workers, at everyone: up to the server and down again."""
    return port.mix(port.mix(x, over="up"), over="down")


def _check(rule: object, **positive: float) -> None:
    for name, value in positive.items():
        if not 0 < value < math.inf or (name == "K" and value < 1):
            raise ConfigError(
                f"{type(rule).__name__}.{name} must be above 0 and finite, found {value}."
            )
