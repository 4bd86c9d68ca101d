"""PaME: partial message exchange, with steps that shrink as the penalty grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from ..core import Port, Requirements, average, check_entries, each, is_number, rule

__all__ = ["PaME"]


class State(NamedTuple):
    """The models, and how many neighbours each row last heard."""

    x: Tensor
    m: Tensor


@rule("PaME", "some coordinates of x", "thin links: part of a model to part of the neighbours")
@dataclass(frozen=True)
class PaME:
    """Partial message exchange: average some coordinates of some neighbours, then step.

        vbar_i = the mean, coordinate by coordinate, of what arrived; x_i where nothing did
        x_i <- vbar_i - g_i(vbar_i) / (sigma_i^k m_i),   sigma_i^k = sigma_i growth_i^k

    x_i       model of client i (the paper's w_i); its value is dropped wherever a neighbour's
              arrived
    m_i       how many neighbours it heard when it last heard any
    sigma_i   `sigma`, the penalty weight: one for all, or one for each client
    growth_i  `growth`, likewise: what sigma_i grows by in every iteration k = 0, 1, ..., local ones
              too (the paper's gamma_i)

    Give it the schedule `Sampled(kappa, fraction)` and the message `Coordinates(fraction)`, whose
    settings clients may have of their own as well; with full messages and all neighbours it is
    plain neighbour averaging. A zero that was sent counts as sent (erratum E-A2), and at least one
    neighbour is always asked (E-A4). Bipartite graphs only swap values. The first models are the
    problem's own start: the paper's zero is that of its convex examples and useless for networks.

    Reference: PaME, Algorithms 1 and 2, eqs. (5)-(7).

    >>> import peerloom as pl
    >>> problem = pl.problems.Quadratic(A=[[[1.0]]] * 3, b=[[0.0], [1.0], [2.0]])
    >>> rule = pl.rules.PaME(sigma=2.0, growth=1.01)
    >>> exp = pl.Experiment(pl.graphs.complete(3), problem, rule, rounds=400, dtype="float64")
    >>> pl.simulate(exp).x.mean().item().__round__(2)
    1.0
    """

    sigma: float | tuple[float, ...]
    growth: float | tuple[float, ...] = 1.0
    needs: ClassVar[Requirements] = Requirements(combines="average")
    per_client: ClassVar[tuple[str, ...]] = ("sigma", "growth")
    family: ClassVar[str] = "PaME"

    def __post_init__(self) -> None:
        check_entries(self, "sigma", lambda s: is_number(s) and s > 0, "a number above 0")
        check_entries(self, "growth", lambda g: is_number(g, least=1), "a number of at least 1")

    def init(self, x: Tensor, port: Port) -> State:
        """Nothing received yet; under `Sampled`, all rows receive in the first round."""
        return State(x, torch.ones_like(x[:, :1]))

    def step(self, s: State, port: Port) -> State:
        """Average, then step at the average."""
        vbar = port.mix(average(s.x))
        m = torch.where(port.received() > 0, port.received(), s.m)
        sigma = self._penalty(port)
        return State(torch.addcdiv(vbar, port.grad(vbar, port.active()), sigma * m, value=-1), m)

    def _penalty(self, port: Port) -> Any:
        """sigma_i^k: a column, or the number that all clients have."""
        k, own = port.t - 1, each(self.sigma, self.growth)
        if own is None:
            return self.sigma * self.growth**k  # type: ignore[operator]  # both are numbers
        return port.constant([sigma * growth**k for sigma, growth in own])
