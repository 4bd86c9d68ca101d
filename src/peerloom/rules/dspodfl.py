"""DSpodFL, and the four baselines of its paper: the same rule under other schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..core import (
    Card,
    ConfigError,
    CyclePlan,
    HasRate,
    Plan,
    Port,
    Rate,
    Requirements,
    check_rate,
    preset,
    rate_at,
    rule,
)

__all__ = ["DGD", "DFedAvg", "DSpodFL", "RandomizedGossip", "SporadicSGD"]

_SYMMETRIC = Requirements(
    symmetric=True,
    instead="Use a graph such as 'ring' or 'geometric', or a rule for directed graphs.",
)


class State(NamedTuple):
    """The models, and nothing else."""

    x: Tensor


@rule("DSpodFL", "x", "slow clients and bad links: both act only when they can")
@dataclass(frozen=True)
class DSpodFL:
    """Decentralized sporadic federated learning: clients and links act when they can.

        x_i <- x_i + sum_j r_ij (x_j - x_i) vhat_ij - alpha g_i(x_i) v_i

    x_i      model of client i
    r_ij     symmetric weights (Metropolis), with the degrees of the fixed graph
    vhat_ij  1 if the link fires in this round, equal in both directions
    v_i      1 if client i computes in this round
    g_i      mini-batch gradient of client i, taken at the old x_i (combine then adapt)
    alpha    `lr`, a number or a `Rate`

    Needs symmetric links. The paper's Algorithm 1 starts with v = vhat = 0 and so wastes its first
    iteration; here the first round draws like any other (erratum E-D4). With d_i the probability
    that v_i = 1, its stationary points solve sum_i d_i grad F_i = 0: a client that computes seldom
    counts less. That is the paper's (1 - d_min) term, not a fault.

    Reference: Zehtabi et al., "Decentralized Sporadic Federated Learning: A Unified Algorithmic
    Framework with Convergence Guarantees" (DSpodFL), eqs. (2)-(4).

    >>> import peerloom as pl
    >>> problem = pl.problems.Quadratic(A=[[[1.0]], [[1.0]]], b=[[0.0], [2.0]])
    >>> rule = pl.rules.DSpodFL(lr=0.1)
    >>> exp = pl.Experiment(pl.graphs.complete(2), problem, rule, rounds=100, dtype="float64")
    >>> pl.simulate(exp).x.mean().item().__round__(3)
    1.0
    """

    lr: float | Rate
    needs: ClassVar[Requirements] = _SYMMETRIC
    family: ClassVar[str] = "DSpodFL"

    def __post_init__(self) -> None:
        check_rate(self)

    def init(self: HasRate, x: Tensor, port: Port) -> State:
        """One common start."""
        return State(x)

    def step(self: HasRate, s: State, port: Port) -> State:
        """Mix and adapt, both from the old models."""
        v, alpha = port.active(), rate_at(self.lr, port.t)
        # mixed - alpha * gradient, in one pass
        return State(torch.sub(port.mix(s.x), port.grad(s.x, v), alpha=alpha))


DGD = preset(
    "DGD",
    DSpodFL,
    Card(
        "Nedic and Ozdaglar 2009; D-PSGD",
        "x",
        "the yardstick: everyone computes and talks in every round",
    ),
    plan=Plan(nodes="always", links="always"),
    doc="""Decentralized gradient descent (D-PSGD): every client and every link, in every round.

        x_i <- sum_j r_ij x_j - alpha g_i(x_i)

    On sporadic resources it waits for the slowest: its delay per round is that of all clients and
    links together.
    Reference: Nedic and Ozdaglar 2009; Lian et al. 2017; DSpodFL, eq. (2) with d_i = b_ij = 1.
    """,
)


RandomizedGossip = preset(
    "RandomizedGossip",
    DSpodFL,
    Card("DSpodFL (its RG)", "x", "bad links, able clients"),
    plan=Plan(nodes="always"),
    doc="""Randomized gossip as DSpodFL means it: every client computes, links fire at random.

        x_i <- x_i + sum_j r_ij (x_j - x_i) vhat_ij - alpha g_i(x_i)

    Not the classical one, in which one random pair averages in each step.
    Reference: DSpodFL, eq. (2) with d_i = 1.
    """,
)


SporadicSGD = preset(
    "SporadicSGD",
    DSpodFL,
    Card("DSpodFL", "x", "slow clients, good links"),
    plan=Plan(links="always"),
    doc="""Sporadic SGDs: clients compute as their coins fall, every link fires in every round.

        x_i <- sum_j r_ij x_j - alpha g_i(x_i) v_i

    Reference: DSpodFL, eq. (2) with b_ij = 1.
    """,
)


@rule(
    "DSpodFL; Sun et al. 2022", "x", "the cycle DSpodFL compares with: D local rounds, then mixing"
)
@dataclass(frozen=True)
class DFedAvg:
    """DFedAvg as DSpodFL means it: D rounds of local steps, then one that only mixes.

    D is the mean of 1 / d_i over the clients, rounded up, unless it is given. `rounding="floor"` is
    what the paper's tables were made with, `sgd_while_aggregating=True` is its appendix P.3, and
    with `period="D"` as well its main text (erratum E-D2). A schedule that says itself when links
    fire is followed as it is, and refused together with a setting of the cycle. Sun et al. mean K
    local steps followed by mixing in the same round.
    Reference: DSpodFL, section 5 and appendix P.3.
    """

    lr: float | Rate
    D: int | None = None
    rounding: Literal["ceil", "floor"] = "ceil"
    sgd_while_aggregating: bool = False
    period: Literal["D+1", "D"] = "D+1"
    needs: ClassVar[Requirements] = _SYMMETRIC
    family: ClassVar[str] = "DSpodFL"

    init, step = DSpodFL.init, DSpodFL.step

    def __post_init__(self) -> None:
        check_rate(self)
        if self.D is not None and self.D < 1:
            raise ConfigError(f"DFedAvg.D must be at least 1 round, found {self.D}.")
        if self.D is not None and self.rounding != "ceil":
            raise ConfigError(
                f"DFedAvg.rounding = {self.rounding!r} would have no effect: it rounds the mean of "
                f"1 / d_i, but D = {self.D} is given. Leave one of the two out."
            )
        if self.D == 1 and self.period == "D" and not self.sgd_while_aggregating:
            raise ConfigError(
                'DFedAvg: with D = 1 and period="D" no round computes. '
                'Use sgd_while_aggregating or period="D+1".'
            )

    @property
    def plan(self) -> Plan:
        """The cycle replaces the coins; schedules without coins are followed as they are."""
        return Plan(cycle=CyclePlan(self.D, self.rounding, self.sgd_while_aggregating, self.period))
