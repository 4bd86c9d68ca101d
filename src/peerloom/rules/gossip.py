"""Decentralized SGD (adapt, then combine), local SGD over a graph, and gossip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..core import (
    MASS,
    ConfigError,
    CyclePlan,
    HasRate,
    Plan,
    Port,
    Rate,
    Requirements,
    average,
    check_rate,
    equal_average,
    push,
    rate_at,
    rule,
)

__all__ = ["DSGD", "CooperativeSGD", "EpidemicLearning", "GossipPushPull", "PairwiseGossip"]

_SYMMETRIC = Requirements(
    symmetric=True,
    instead="Use a graph such as 'ring' or 'geometric', or a rule for directed graphs.",
)


class State(NamedTuple):
    """The models."""

    x: Tensor


class Tracked(NamedTuple):
    """The models, the trackers, the last gradients."""

    x: Tensor
    y: Tensor
    g: Tensor


@rule("Koloskova et al. 2020", "x - alpha g", "plain decentralized SGD on graphs that change")
@dataclass(frozen=True)
class DSGD:
    """Decentralized SGD, adapt then combine: step first, then mix what was stepped to.

        x_i <- sum_j w_ij vhat_ij (x_j - alpha v_j g_j(x_j)), own weight left over

    x_i, alpha, v_i, vhat_ij as in DSpodFL, which mixes and steps from the same old models. Links
    may come and go: the mixing matrix is then random, as Koloskova et al. have it. Needs symmetric
    links.
    Reference: Koloskova et al., "A Unified Theory of Decentralized SGD with Changing Topology and
    Local Updates", 2020.
    """

    lr: float | Rate
    needs: ClassVar[Requirements] = _SYMMETRIC

    def __post_init__(self) -> None:
        check_rate(self)

    def init(self: HasRate, x: Tensor, port: Port) -> State:
        """One common start."""
        return State(x)

    def step(self: HasRate, s: State, port: Port) -> State:
        """Adapt, then combine."""
        alpha = rate_at(self.lr, port.t)
        return State(port.mix(torch.sub(s.x, port.grad(s.x, port.active()), alpha=alpha)))


@rule("Wang and Joshi 2021", "x", "fewer messages: tau local steps between two of them")
@dataclass(frozen=True)
class CooperativeSGD:
    """Cooperative SGD (decentralized local SGD): all step in every round, mix in every tau-th.

        x <- S_k (x - eta g(x)),   S_k = W if tau divides k, else the identity;   k = 1, 2, ...

    A schedule that says itself when links fire, such as `Every`, is followed as it is; with it,
    leave tau out.
    Reference: Wang and Joshi, "Cooperative SGD", 2021; MLL-SGD with one worker per hub, q = 1 and p
    = 1.
    """

    lr: float | Rate
    tau: int = 1
    needs: ClassVar[Requirements] = _SYMMETRIC

    init, step = DSGD.init, DSGD.step

    def __post_init__(self) -> None:
        check_rate(self)
        if self.tau < 1:
            raise ConfigError(f"CooperativeSGD.tau must be at least 1 round, found {self.tau}.")

    @property
    def plan(self) -> Plan:
        """A cycle of tau rounds, all of which compute."""
        return Plan(cycle=CyclePlan(self.tau, sgd_while_aggregating=True, period="D"))


@rule("de Vos et al. 2023", "x - eta g", "fast spreading: random receivers in every round")
@dataclass(frozen=True)
class EpidemicLearning:
    """Epidemic learning: step, send to random others, average with all that arrived.

        z_i = x_i - eta v_i g_i(x_i)     x_i <- mean of z_i and of the z_j that arrived

    Give it the graph `complete` and the schedule `Epidemic(s)`, or `Epidemic(s, oracle=True)`; s
    about log m is enough.
    Reference: de Vos et al., "Epidemic Learning: Boosting Decentralized Learning with Randomized
    Communication", 2023.
    """

    lr: float | Rate
    needs: ClassVar[Requirements] = Requirements(combines="equal_average")

    init = DSGD.init

    def __post_init__(self) -> None:
        check_rate(self)

    def step(self: HasRate, s: State, port: Port) -> State:
        """Adapt, then average with what arrived."""
        z = torch.sub(s.x, port.grad(s.x, port.active()), alpha=rate_at(self.lr, port.t))
        return State(port.mix(equal_average(z)))


@rule("Boyd et al. 2006", "x", "one pair at a time")
@dataclass(frozen=True)
class PairwiseGossip:
    """Classical randomized gossip: one random pair averages in each round; everyone steps.

        x_i, x_j <- (x_i + x_j) / 2 for the pair, then x <- x - eta v g(old x)

    Give it the schedule `OneEdge`. What DSpodFL calls randomized gossip, with a coin per link, is
    `RandomizedGossip`.
    Reference: Boyd, Ghosh, Prabhakar and Shah, "Randomized Gossip Algorithms", 2006.
    """

    lr: float | Rate
    needs: ClassVar[Requirements] = replace(_SYMMETRIC, combines="equal_average")

    init = DSGD.init

    def __post_init__(self) -> None:
        check_rate(self)

    def step(self: HasRate, s: State, port: Port) -> State:
        """Meet, and step from the old models."""
        alpha = rate_at(self.lr, port.t)
        return State(
            torch.sub(port.mix(equal_average(s.x)), port.grad(s.x, port.active()), alpha=alpha)
        )


@rule("Pu et al. 2021", "x, y", "directed graphs where one node wakes at a time")
@dataclass(frozen=True)
class GossipPushPull:
    """G-Push-Pull: one node wakes; it and those that hear it step, pull and track.

        x_i <- x_i - alpha y_i
        x_j <- (1 - gamma) x_j + gamma x_i - alpha y_j
        y_i <- y_i - sum_j b_ji y_i + g_i(x_i) - g_i(old x_i)
        y_j <- y_j + b_ji y_i + g_j(x_j) - g_j(old x_j)

    i the node that wakes, j those that hear it; all others rest. It is v that says who takes part.

    As in Push-Pull, x <- R x - alpha y and y <- C y + g(x) - g(old x), where this round's R has
    rows, and its C columns, that sum to one; alpha is 0 for who rests. So y, which starts as the
    first gradient, always sums to the sum of the last gradients.

    Ours, where the authors leave room: one gamma and one step size for all, the shares b_ji of the
    graph, one message to the same receivers with x_i and the share of y_i (their two graphs may
    differ), and rest for a node that wakes and sends to nobody. Their listing was not at hand: that
    the waking node steps too is what the method needs to be Push-Pull among those who take part,
    and what Pu and Nedic's gossip on undirected graphs does.

    Give it the schedule `OneNode`. Of several nodes that are heard at once the mean is pulled.
    Spod-GT means another method by this name, which is `SporadicPushPull`. Any strongly connected
    graph.
    Reference: Pu, Shi, Xu and Nedic, "Push-Pull Gradient Methods for Distributed Optimization in
    Networks", 2021.
    """

    lr: float | Rate
    gamma: float = 0.5
    needs: ClassVar[Requirements] = Requirements(accepts=MASS)

    def __post_init__(self) -> None:
        check_rate(self)
        if not 0 < self.gamma <= 1:
            raise ConfigError(
                f"GossipPushPull.gamma must be above 0 and at most 1, found {self.gamma}."
            )

    def init(self, x: Tensor, port: Port) -> Tracked:
        """The tracker starts as the first gradient."""
        g = port.grad(x)
        return Tracked(x, g, g)

    def step(self, s: Tracked, port: Port) -> Tracked:
        """Pull what arrived; rows that take part step, and take a new gradient."""
        pulled, y = port.mix(average(s.x), push(s.y))
        v = port.active()
        x = s.x + self.gamma * (pulled - s.x) - rate_at(self.lr, port.t) * v * s.y
        g = torch.where(v > 0, port.grad(x, v), s.g)
        return Tracked(x, y + g - s.g, g)
