"""Spod-GT (Zehtabi et al.), the network: Perron vectors, contractions, link probabilities.

`ph` are the links' probabilities phat_ij. The printed contraction is close to 1 on any graph; trust
the exact one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...core import Links
from ...theory.bound import Bound
from ...theory.graph_facts import diameter, distances, edge_utility
from ...theory.matrices import expected, left_perron, pull_contraction, push_contraction

__all__ = ["Mixing"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixing:
    """The expected matrices of a digraph whose links fire with probability `ph`.

    >>> from peerloom.graphs import directed_ring
    >>> Mixing(directed_ring(3).peers, np.ones(3)).rho_hat
    (0.875, 0.875)
    """

    links: Links
    ph: Floats

    @property
    def m(self) -> int:
        """Clients."""
        return self.links.rows

    @cached_property
    def phi(self) -> Floats:
        """The left Perron vector of Ahat (eq. 8), sum 1."""
        return left_perron(expected(self.links, self.ph, "a"))

    @cached_property
    def pi(self) -> Floats:
        """The right Perron vector of Bhat (eq. 8), sum 1."""
        return left_perron(expected(self.links, self.ph, "b").T)

    @cached_property
    def paths(self) -> tuple[int, int]:
        """Diameter D(G) and maximal edge utility K(G)."""
        dist = distances(self.links)
        longest = diameter(dist)
        if longest is None:
            raise ValueError("the graph is not strongly connected")
        return longest, edge_utility(self.links, dist)

    @cached_property
    def rho_hat(self) -> tuple[float, float]:
        """rhohat_A and rhohat_B (Lemma B.3), the minima over links only."""
        DK = math.prod(self.paths)
        a, b = (float((w * self.ph).min()) for w in (self.links.a, self.links.b))
        phi, pi = self.phi, self.pi
        A = 1 - float(phi.min() * a**2 / (phi.max() ** 2 * DK))
        return A, 1 - float(pi.min() ** 2 * b**2 / (pi.max() ** 3 * DK))

    @cached_property
    def rho_zero(self) -> tuple[float, float]:
        """rhohat_0,A and rhohat_0,B (Lemma B.4): what the variance of the links adds."""
        variance = self.ph * (1 - self.ph)
        a, b = (float((w**2 * variance).max()) for w in (self.links.a, self.links.b))
        phi, pi = self.phi.max() / self.phi.min(), self.pi.max() / self.pi.min()
        return float(4 * (self.m - 1) * phi * a), float(2 * (self.m - 1) * pi * b)

    @property
    def rho_tilde(self) -> tuple[float, float]:
        """Table 2: rhotilde_A = rhohat_A + 2 rhohat_0,A, rhotilde_B = rhohat_B + rhohat_0,B."""
        return self.rho_hat[0] + 2 * self.rho_zero[0], self.rho_hat[1] + self.rho_zero[1]

    def models(self) -> Bound:
        """How much squared disagreement of the models a round leaves.

        Printed: rhohat_A + rhohat_0,A (Lemma B.4, eq. 28); the truth is exact.
        """
        limit = (1 - self.rho_hat[0]) / 4
        why = f"it needs rhohat_0,A = {self.rho_zero[0]:.4g} <= (1 - rhohat_A) / 4 = {limit:.4g}"
        holds = self.rho_zero[0] <= limit
        return Bound(
            self.rho_hat[0] + self.rho_zero[0],
            pull_contraction(self.links, self.ph, self.phi)[0],
            holds,
            "" if holds else why,
        )

    def trackers(self) -> Bound:
        """How much squared error of the trackers a round leaves.

        Printed: rhotilde_B (Lemma B.4, eq. 29); the truth is exact.
        """
        limit = (1 - self.rho_hat[1]) / 2
        why = f"it needs rhohat_0,B = {self.rho_zero[1]:.4g} <= (1 - rhohat_B) / 2 = {limit:.4g}"
        holds = self.rho_zero[1] <= limit
        return Bound(
            self.rho_tilde[1],
            push_contraction(self.links, self.ph, self.pi),
            holds,
            "" if holds else why,
        )

    def least_probability(self) -> tuple[float, float]:
        """How close to 1 Proposition 4.9 wants every link's probability.

        As log10(1 - r_A) and log10(1 - r_B). r_A solves x^(2(m+1)) + tau_A x = tau_A, r_B the same
        with 3m + 2 (erratum E-S14). tau overflows a double beyond thirty clients, so it stays a
        logarithm, and so does u = 1 - x.
        """
        m, (D, K) = self.m, self.paths
        logs = []
        for w, power, front in (
            (self.links.a, 2 * (m + 1), 16 * m**2),
            (self.links.b, 3 * m + 2, 4 * m**3),
        ):
            tau = (
                math.log(front * (m - 1) * D * K)
                + 2 * math.log(w.max())
                - power * math.log(w.min())
            )
            logs.append(_log_distance_to_one(power, tau) / math.log(10))
        return logs[0], logs[1]

    def least_probability_doubly_stochastic(self) -> tuple[float, float]:
        """The same where A and B are doubly stochastic, as the probabilities themselves.

        The root of p^2 = k (1 - p) with k = 16 (m - 1) (max a)^2 D K / (m (min a)^2); 4 in place of
        16 for b.
        """
        m, DK = self.m, math.prod(self.paths)
        ks = [
            front * (m - 1) * float(w.max() / w.min()) ** 2 * DK / m
            for w, front in ((self.links.a, 16), (self.links.b, 4))
        ]
        roots = [2 * k / (k + math.sqrt(k * k + 4 * k)) for k in ks]
        return roots[0], roots[1]


def _log_distance_to_one(power: int, log_tau: float) -> float:
    """log u for the root x = 1 - u of x^power = tau u.

    Bisection on log u in power log1p(-u) = log tau + log u.
    """
    low, high = -1e6, -1e-12
    for _ in range(200):
        middle = (low + high) / 2
        u = math.exp(middle)
        below = power * math.log1p(-u) > log_tau + middle
        low, high = (middle, high) if below else (low, middle)
    return low
