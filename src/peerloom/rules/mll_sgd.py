"""MLL-SGD: multi-level local SGD, workers under hubs and hubs on a graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ..core import Card, HasRate, Plan, Port, Rate, Requirements, check_rate, preset, rate_at, rule

__all__ = ["HLSGD", "MLLSGD", "DistributedSGD", "FedAvg", "LocalSGD"]


_HUBS = Requirements(
    layers=("up", "across", "down"),
    instead="Use graphs.hubs, or a rule for plain graphs such as DSpodFL.",
)


class State(NamedTuple):
    """The models of workers and hubs."""

    x: Tensor


@rule("MLL-SGD", "x, by hubs", "two levels with slow workers, for whom nobody waits")
@dataclass(frozen=True)
class MLLSGD:
    """Multi-level local SGD: workers step, hubs average workers, hubs average with neighbours.

        x_i <- x_i - eta theta_i g_i(x_i)                  in every round k = 1, 2, ...
        z_d  = sum of v_i x_i over the workers of hub d    if tau divides k
        y_d  = sum_j H[j, d] z_j, or z_d                   if q tau divides k, or not
        x_i <- y_d for every worker of hub d               if tau divides k

    theta_i ~ Bernoulli(p_i): whether worker i computes
    v_i   weights within a hub, H between hubs: both belong to the graph, `graphs.hubs`
    tau, q and p_i belong to the schedule, `HubRounds(tau, q, nodes)`

    The averaged model that measures judge is the paper's u_k = sum_i a_i x_i, with the workers'
    weights a_i = w_i / sum w: it takes a step in every round, and averaging does not move it.

    Needs a graph with hubs. The paper prints b_i H_ij = b_j H_ji, which contradicts H b = b; its
    proof, and this, use H_ij b_j = H_ji b_i (erratum E-M2). Its public code averages hubs in place,
    one after the other; here all read the old, unless the graph was made with `compat`.

    Reference: MLL-SGD, "Multi-Level Local SGD", eqs. (2)-(6).

    >>> import peerloom as pl
    >>> graph = pl.graphs.hubs(pl.graphs.ring(3), workers=[2, 1, 2])
    >>> problem = pl.problems.Quadratic(A=[[[1.0]]] * 5, b=[[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> rule, rounds = pl.rules.MLLSGD(lr=0.1), pl.schedules.HubRounds(tau=2, q=2)
    >>> exp = pl.Experiment(graph, problem, rule, schedule=rounds, rounds=400, dtype="float64")
    >>> pl.simulate(exp).x.mean().item().__round__(2)
    2.0
    """

    lr: float | Rate
    needs: ClassVar[Requirements] = _HUBS
    family: ClassVar[str] = "MLL-SGD"
    objective: ClassVar[Literal["samples"]] = "samples"  # its F: the mean over all workers' data

    def __post_init__(self) -> None:
        check_rate(self)

    def init(self: HasRate, x: Tensor, port: Port) -> State:
        """One common start."""
        return State(x)

    def step(self: HasRate, s: State, port: Port) -> State:
        """Step, then up, across and down, each where its links fire."""
        x = torch.sub(s.x, port.grad(s.x, port.active()), alpha=rate_at(self.lr, port.t))
        for layer in ("up", "across", "down"):
            x = port.mix(x, over=layer)
        return State(x)


HLSGD = preset(
    "HLSGD",
    MLLSGD,
    Card("MLL-SGD", "x, by hubs", "two levels where nobody is slow"),
    plan=Plan(nodes="always"),
    needs=replace(_HUBS, hubs_agree=True),
    doc="""Hierarchical local SGD: MLL-SGD's rule with every worker in every round.

    For hubs that all average with each other, H[j, d] = b_j, as `graphs.hubs` on a complete graph
    has them, and `HubRounds(tau, q)` with q > 1. Hubs whose models stay apart are refused.
    Reference: MLL-SGD, section 4, with p_i = 1.
    """,
)


LocalSGD = preset(
    "LocalSGD",
    MLLSGD,
    Card("Stich 2019", "x, to and from a server", "fewer messages under a server"),
    plan=Plan(nodes="always"),
    needs=replace(_HUBS, hubs_agree=True),
    doc="""Local SGD under a server: MLL-SGD's rule with one hub and every worker in every round.

    For `graphs.hubs` with a single hub and `HubRounds(tau)`, or, as MLL-SGD has it, for hubs that
    all average with each other, H[j, d] = b_j, and q = 1. Hubs whose models stay apart are refused.
    Reference: Stich, "Local SGD Converges Fast and Communicates Little", 2019; MLL-SGD, section 4.
    """,
)


DistributedSGD = preset(
    "DistributedSGD",
    MLLSGD,
    Card("MLL-SGD", "x, to and from a server", "the yardstick with a server"),
    plan=Plan(nodes="always", links="always"),
    needs=replace(_HUBS, one_hub=True, links="all"),
    family=None,
    doc="""Distributed SGD: every worker in every round, averaged by the server at once.

    MLL-SGD's rule with tau = q = 1. For `graphs.hubs` with a single hub and equal weights; the
    schedule `Always`.
    Reference: MLL-SGD, section 4, with D = 1, q = tau = 1, a_i = 1/N, p_i = 1.
    """,
)


FedAvg = preset(
    "FedAvg",
    MLLSGD,
    Card(
        "McMahan et al. 2017",
        "x, to and from a server",
        "clients with unequal amounts of data, with a server",
    ),
    plan=Plan(nodes="always"),
    needs=replace(_HUBS, one_hub=True),
    family=None,
    doc="""FedAvg with all clients taking part: local SGD, averaged by the amounts of data.

    For `graphs.hubs` with a single hub, whose `weights` are the sizes of the clients' data, and
    `HubRounds(tau)`.
    Reference: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
    Data", 2017; MLL-SGD, section 4, with D = 1 and w_i the size of client i's data.
    """,
)
