"""Spod-GT: sporadic gradient tracking on directed graphs, and its paper's four baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Protocol

from torch import Tensor

from ..core import (
    MASS,
    Card,
    ConfigError,
    CyclePlan,
    Plan,
    Port,
    Rates,
    Requirements,
    check_rates,
    preset,
    pull,
    push,
    rates_at,
    rule,
)

__all__ = ["PeriodicGT", "SpodGT", "SporadicKGT", "SporadicPushPull", "SynchronousGT"]

_ANY = Requirements(accepts=MASS)


class Tracking(NamedTuple):
    """The models, the trackers, and what each row last added to its tracker."""

    x: Tensor
    y: Tensor
    c: Tensor


class TracksSporadically(Protocol):
    """What Spod-GT's step reads of a rule."""

    @property
    def lr(self) -> Rates:
        """The step size, eta_i."""

    @property
    def skip(self) -> Literal["zero", "hold"]:
        """What a client that does not compute contributes."""


@rule("Spod-GT", "x, y", "slow clients, bad directed links and unequal data together")
@dataclass(frozen=True)
class SpodGT:
    """Sporadic gradient tracking: clients and directed links act when they can.

        x_i <- x_i + sum_j a_ij (x_j - x_i) vhat_ij - eta_i y_i'
        y_i' = y_i + sum_j (b_ij y_j vhat_ij - b_ji y_i vhat_ji)
        y_i <- y_i' + c_i - (the last c_i),   c_i = v_i g_i(x_i), at the new x_i

    x_i      model of client i                      a_ij  receiver's weights, rows sum to one
    y_i      tracker of the mean gradient           b_ij  sender's shares, columns sum to one
    vhat_ij  1 if the link j -> i fires             v_i   1 if client i computes
    eta_i    `lr`: a number, a `Rate`, or a list of them with one for each client

    Needs a strongly connected graph of any kind. The trackers sum to the gradients computed in this
    very round. The paper's Algorithm 1 has slips that its equations do not (errata E-S2 to E-S7):
    here the sender keeps what it does not send, and links are drawn whether or not a client
    computes. With skip="zero", as in the paper, a client that skips withdraws its gradient from the
    sum; skip="hold" keeps the last one it computed, which has an unbiased fixed point but is not
    covered by the paper's theory (erratum E-S8).

    Reference: Zehtabi et al., "Sporadic Gradient Tracking over Directed Graphs: A Theoretical
    Perspective on Decentralized Federated Learning" (Spod-GT), eqs. (1)-(5).

    >>> import peerloom as pl
    >>> problem = pl.problems.Quadratic(A=[[[1.0]], [[3.0]], [[2.0]]], b=[[0.0], [6.0], [0.0]])
    >>> rule = pl.rules.SpodGT(lr=0.1)
    >>> graph = pl.graphs.directed_ring(3)
    >>> exp = pl.Experiment(graph, problem, rule, rounds=300, dtype="float64")
    >>> pl.simulate(exp).x.flatten().round(decimals=6).tolist()
    [1.0, 1.0, 1.0]
    """

    lr: Rates
    skip: Literal["zero", "hold"] = "zero"
    needs: ClassVar[Requirements] = _ANY
    per_client: ClassVar[tuple[str, ...]] = ("lr",)
    for_skippers: ClassVar[tuple[str, ...]] = ("skip",)
    family: ClassVar[str] = "Spod-GT"

    def __post_init__(self) -> None:
        _check(self)

    def init(self: TracksSporadically, x: Tensor, port: Port) -> Tracking:
        """The trackers start as the first gradients."""
        c = port.grad(x, port.active())
        return Tracking(x, c, c)

    def step(self: TracksSporadically, s: Tracking, port: Port) -> Tracking:
        """Mix both in one message, step along the mixed tracker, track."""
        lr = rates_at(self.lr, port.t)
        eta = port.constant(lr) if isinstance(lr, list) else lr
        x, y = port.mix(pull(s.x), push(s.y))
        x = x - eta * y
        v = port.active()
        c = port.grad(x, v)
        if self.skip == "hold":
            c = c + (1 - v) * s.c
        return Tracking(x, y + c - s.c, c)


SynchronousGT = preset(
    "SynchronousGT",
    SpodGT,
    Card("Spod-GT", "x, y", "Spod-GT's own yardstick: everyone in every round"),
    plan=Plan(nodes="always", links="always"),
    doc="""AB/Push-Pull as Spod-GT means it: every client and every link, in every round.

    The step uses the mixed tracker, so that x <- A x - eta B y; `AB` and `PushPull` are the
    originals.
    Reference: Spod-GT, section 5, baseline (a).
    """,
)


SporadicPushPull = preset(
    "SporadicPushPull",
    SpodGT,
    Card("Spod-GT (its G-Push-Pull)", "x, y", "bad directed links, able clients"),
    plan=Plan(nodes="always"),
    doc="""G-Push-Pull as Spod-GT means it: every client computes, links fire as their coins fall.

    The original G-Push-Pull wakes one client per step.
    Reference: Spod-GT, section 5, baseline (b).
    """,
)


SporadicKGT = preset(
    "SporadicKGT",
    SpodGT,
    Card("Spod-GT", "x, y", "slow clients, good directed links"),
    plan=Plan(links="always"),
    doc="""Sporadic K-GT: clients compute as their coins fall, every link fires in every round.

    Reference: Spod-GT, section 5, baseline (d).
    """,
)


@rule("Spod-GT (its K-GT)", "x, y", "tracking on directed graphs with rare messages")
@dataclass(frozen=True)
class PeriodicGT:
    """K-GT as Spod-GT means it: all compute, all links fire in iterations 0, K, 2K, ...

    K is the mean of 1 / p_i over the clients, rounded up, unless it is given. A schedule that says
    itself when links fire is followed as it is; with it, leave K out. The original K-GT corrects
    local steps.
    Reference: Spod-GT, section 5, baseline (c).
    """

    lr: Rates
    K: int | None = None
    skip: Literal["zero", "hold"] = "zero"
    needs: ClassVar[Requirements] = _ANY
    per_client: ClassVar[tuple[str, ...]] = ("lr",)
    for_skippers: ClassVar[tuple[str, ...]] = ("skip",)
    family: ClassVar[str] = "Spod-GT"

    init, step = SpodGT.init, SpodGT.step

    def __post_init__(self) -> None:
        _check(self)
        if self.K is not None and self.K < 1:
            raise ConfigError(f"PeriodicGT.K must be at least 1 round, found {self.K}.")

    @property
    def plan(self) -> Plan:
        """A cycle that opens with talking."""
        return Plan(cycle=CyclePlan(self.K, sgd_while_aggregating=True, period="D", opens=True))


def _check(rule: TracksSporadically) -> None:
    check_rates(rule)
