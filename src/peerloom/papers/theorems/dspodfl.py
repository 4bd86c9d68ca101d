"""DSpodFL (Zehtabi et al.): second moments, the strongly convex recursion and its limits.

Letters as in the paper: beta smoothness, mu strong convexity, noise sigma, d_i and b_ij the
probabilities of computing and of a link, gradient diversity

    |grad F - grad F_i| <= delta + zeta |theta - theta*|.

`c` is 3 in Lemma 4.8 and 6 in Lemma D.3, which it quotes (erratum E-D7). What is printed has 3, and
6 is what is proved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import Links
from ...theory.bound import Bound
from ...theory.matrices import expected, pull_contraction, pull_moment, spectral_radius_2x2

__all__ = [
    "Setting",
    "alpha_max",
    "convex_bound",
    "convex_gap",
    "convex_matrix",
    "convex_offset",
    "convex_step",
    "expected_mixing",
    "gamma_two",
    "gap_rate",
    "rho_phi",
    "rho_tilde",
    "second_moment",
]

Floats = NDArray[np.float64]

_PRINTED, _PROVED = 3.0, 6.0  # c


@dataclass(frozen=True)
class Setting:
    """What the theorems of DSpodFL speak of."""

    m: int
    rho: float  # rho tilde
    beta: float
    mu: float
    zeta: float
    delta: float
    sigma: float
    d_min: float = 1.0
    d_max: float = 1.0

    @property
    def spread(self) -> float:
        """(1 + rho) / (1 - rho)."""
        return math.inf if self.rho >= 1 else (1 + self.rho) / (1 - self.rho)

    @property
    def kept(self) -> float:
        """What sporadic clients leave of the strong convexity: 1 - (2 beta^2 / mu^2)(1 - d_min)."""
        return -math.inf if self.mu <= 0 else 1 - 2 * (self.beta / self.mu) ** 2 * (1 - self.d_min)


def expected_mixing(links: Links, b: Floats) -> Any:
    """Rbar = E[P] (Definition 4.5)."""
    return expected(links, b, "a")


def second_moment(links: Links, b: Floats) -> Any:
    """Rtilde = E[P^2] = Rbar^2 + R0 (Definition 4.5, Lemma D.4). Exact."""
    return pull_moment(links, b).matrix()


def rho_tilde(links: Links, b: Floats) -> float:
    """The spectral radius of Rtilde - J (Definition 4.5), exact.

    It is the largest share of the squared disagreement that a round leaves, and 1 if the graph is
    disconnected.

    >>> from peerloom.graphs import path
    >>> round(rho_tilde(path(3).peers, np.array([0.5, 0.5, 0.25, 0.25])), 7)
    0.8495212
    """
    return pull_contraction(links, b)[0]


def convex_matrix(s: Setting, alpha: float, c: float = _PROVED) -> Floats:
    """Phi of the strongly convex recursion (Lemmas 4.7 and 4.8)."""
    idle, ma, q = 1 - s.d_min, s.mu * alpha, s.zeta**2 + 2 * s.beta**2 * (1 - s.d_min)
    return np.array(
        [
            [
                1 - ma * (1 + ma - ma**2) + 2 * alpha / s.mu * (1 + ma) * idle * s.beta**2,
                (1 + ma) * alpha * s.d_max * s.beta**2 / (s.m * s.mu),
            ],
            [
                c * s.spread * s.m * s.d_max * alpha**2 * q,
                (1 + s.rho) / 2 + c * s.spread * s.d_max * alpha**2 * (s.zeta**2 + 2 * s.beta**2),
            ],
        ]
    )


def convex_offset(s: Setting, alpha: float, c: float = _PROVED) -> Floats:
    """Psi of the strongly convex recursion (Lemmas 4.7 and 4.8)."""
    idle = 1 - s.d_min
    error = (
        2 * alpha / s.mu * (1 + s.mu * alpha) * idle * s.delta**2
        + alpha**2 * s.d_max * s.sigma**2 / s.m
    )
    return np.array([error, s.m * alpha**2 * s.d_max * (c * s.spread * s.delta**2 + s.sigma**2)])


def rho_phi(s: Setting, alpha: float, c: float = _PROVED) -> float:
    """rho(Phi) (Lemma 4.9): below 1, both model and consensus error shrink to their floor."""
    return spectral_radius_2x2(convex_matrix(s, alpha, c))


def alpha_max(s: Setting, c: float = _PROVED) -> float | None:
    """The largest step below which rho(Phi) < 1, found numerically; None where no step has it.

    F.1 asks for alpha <= 2 / (mu + beta) as well.
    """
    if s.rho >= 1 or s.mu <= 0:
        return None
    limit = 2 / (s.mu + s.beta)
    grid = limit * np.logspace(-12, 0, 481)
    good = np.array([rho_phi(s, alpha, c) < 1 for alpha in grid])
    if not good.any():
        return None
    last = int(np.flatnonzero(good)[-1])
    if last == len(grid) - 1:
        return limit
    low, high = float(grid[last]), float(grid[last + 1])
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rho_phi(s, middle, c) < 1 else (low, middle)
    return low


def convex_step(s: Setting) -> Bound:
    """The step bound of Proposition 4.10, beside the largest step for which rho(Phi) < 1.

    The printed bound is not valid in general (erratum E-D8): completing the square took the wrong
    root, which needs d_min > 1 - mu^2 / (2 beta^2), and its second constraint is never checked.
    """
    if s.mu <= 0:
        return Bound(None, None, False, "the losses are not strongly convex (mu = 0)")
    if s.rho >= 1:
        return Bound(
            None,
            None,
            False,
            "disagreement does not shrink (rho tilde = 1): the links that fire leave parts apart",
        )
    q = s.zeta**2 + 2 * s.beta**2 * (1 - s.d_min)
    entries = [
        1 / s.mu,
        (1 - s.rho)
        / math.sqrt(1 + s.rho)
        / math.sqrt(s.zeta**2 + 2 * s.beta**2)
        / (2 * math.sqrt(3 * s.d_max)),
        math.inf
        if q == 0
        else (s.mu / (12 * q)) ** (1 / 3) * ((1 - s.rho) / (2 * s.d_max * s.beta)) ** (2 / 3),
    ]
    truth = alpha_max(s)
    if s.kept <= 0:
        least = 1 - s.mu**2 / (2 * s.beta**2)
        why = (
            f"the proof needs d_min > 1 - mu^2 / (2 beta^2) = {least:.4g}, "
            f"and the least able client has {s.d_min:.4g}"
        )
        return Bound(min(entries), truth, False, why)
    if truth is None:
        return Bound(min(entries), None, False, "no step makes rho(Phi) < 1")
    return Bound(
        min(entries),
        truth,
        True,
        "" if truth >= min(entries) else "the printed bound allows steps that diverge",
    )


def gamma_two(s: Setting, Gamma0: float = 2.0, Gamma1: float = 1.0) -> float:
    """Gamma_2* of Proposition 4.10's proof (F.3), with the 3 that is lost in its printed form."""
    q = s.zeta**2 + 2 * s.beta**2 * (1 - s.d_min)
    inner = s.d_max * s.mu / ((1 - s.rho) * (1 + Gamma1) * s.beta**2)
    return float(1 + (1 + s.rho) / (2 * (1 - 1 / Gamma0)) * (3 * q) ** (1 / 3) * inner ** (2 / 3))


def gap_rate(s: Setting) -> float:
    """A of Theorem 4.11 with Gamma_1 = 1; free of Gamma_0."""
    return s.beta**2 / s.mu * (gamma_two(s) - 1) * (1 - 1 / 2.0)


def convex_bound(
    s: Setting, alpha: float, rounds: int, start: tuple[float, float]
) -> tuple[Bound, Bound]:
    """Theorem 4.11, eq. (9), after `rounds` + 1 steps.

    A pair: model error and consensus error, from `start`.

    Printed: rho(Phi)^(K+1) nu^0 + Psi / (1 - rho(Phi)), entry by entry. That is no bound: powers of
    a matrix are not powers of its radius, and with Psi = (0, 1) its first entry is 0 while the
    recursion's is not. The truth runs the recursion that is proved, Phi^(K+1) nu^0 +
    (I - Phi^(K+1)) (I - Phi)^-1 Psi.
    """
    step = convex_step(s)
    if step.printed is None:
        none = Bound(None, None, False, step.why)
        return none, none
    rho = rho_phi(s, alpha, _PRINTED)
    first, printed = np.array(start), [None, None]
    if rho < 1:
        psi = convex_offset(s, alpha, _PRINTED)
        printed = (rho ** (rounds + 1) * first + psi / (1 - rho)).tolist()
    if (why := _grows(s, alpha)) is not None:
        error, apart = (Bound(value, math.inf, False, why) for value in printed)
        return error, apart
    phi, psi = convex_matrix(s, alpha), convex_offset(s, alpha)
    power = np.linalg.matrix_power(phi, rounds + 1)
    truth = power @ first + (np.eye(2) - power) @ np.linalg.solve(np.eye(2) - phi, psi)
    return Bound(printed[0], truth[0], True, step.why), Bound(printed[1], truth[1], True, step.why)


def convex_gap(s: Setting, alpha: float) -> tuple[Bound, Bound]:
    """What is left after many rounds (Theorem 4.11, eq. 10).

    A pair: |mean - theta*|^2, and the sum of squared disagreement.

    The truth is the fixed point (I - Phi)^-1 Psi of the recursion that is proved. The printed
    Psi / (2 A alpha) stands for Psi / (1 - rho(Phi)), which leaves out what disagreement adds to
    the error (see `convex_bound`).
    """
    step = convex_step(s)
    if step.printed is None:
        none = Bound(None, None, False, step.why)
        return none, none
    q = s.zeta**2 + 2 * s.beta**2 * (1 - s.d_min)
    error = 2 / s.mu * (1 + s.mu * alpha) * (1 - s.d_min) * s.delta**2 + alpha * s.sigma**2 / s.m
    apart = s.m * alpha * (_PRINTED * s.spread * s.delta**2 + s.sigma**2)
    printed = [math.inf if q == 0 else value / (2 * gap_rate(s)) for value in (error, apart)]
    if (why := _grows(s, alpha)) is not None:
        return Bound(printed[0], None, False, why), Bound(printed[1], None, False, why)
    fixed = np.linalg.solve(np.eye(2) - convex_matrix(s, alpha), convex_offset(s, alpha))
    return Bound(printed[0], fixed[0], True, step.why), Bound(printed[1], fixed[1], True, step.why)


def _grows(s: Setting, alpha: float) -> str | None:
    rho = rho_phi(s, alpha)
    return f"rho(Phi) = {rho:.4g} at step {alpha:g}: the recursion grows" if rho >= 1 else None
