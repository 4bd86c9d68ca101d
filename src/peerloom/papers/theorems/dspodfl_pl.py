"""DSpodFL under the Polyak-Lojasiewicz condition (appendix M): recursion, step bound, gap."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...theory.bound import Bound
from ...theory.matrices import spectral_radius_2x2
from .dspodfl import Setting, convex_matrix, convex_offset

__all__ = ["pl_gap", "pl_matrix", "pl_offset", "pl_step"]

Floats = NDArray[np.float64]


def pl_matrix(s: Setting, alpha: float, c: float = 6) -> Floats:
    """Phi under the Polyak-Lojasiewicz condition (Lemmas M.2 to M.4); c = 3 as printed there."""
    q = s.zeta**2 + 2 * s.beta**2 * (1 - s.d_min)
    return np.array(
        [
            [
                1 + 2 * s.beta**3 / s.mu * (3 - 2 * s.d_min) * alpha**2 - s.mu * alpha * s.kept,
                s.beta**2 * s.d_max / (2 * s.m) * alpha * (1 + 2 * s.beta * alpha),
            ],
            [
                2 * c / s.mu * s.spread * s.m * s.d_max * alpha**2 * q,
                convex_matrix(s, alpha, c)[1, 1],
            ],
        ]
    )


def pl_offset(s: Setting, alpha: float, c: float = 6) -> Floats:
    """Psi under the Polyak-Lojasiewicz condition (Lemmas M.2 to M.4)."""
    idle = 1 - s.d_min
    noise = 4 * idle * s.delta**2 + s.d_max * s.sigma**2 / s.m
    return np.array(
        [alpha * idle * s.delta**2 + s.beta / 2 * alpha**2 * noise, convex_offset(s, alpha, c)[1]]
    )


def pl_step(s: Setting) -> Bound:
    """The step bound of Proposition M.5; the truth is the largest step with rho(Phi) < 1.

    For zeta = 0 the printed bound divides by it: it is 0 unless every client always computes.
    """
    if s.mu <= 0 or s.rho >= 1:
        return Bound(
            None,
            None,
            False,
            "the losses are not PL (mu = 0)" if s.mu <= 0 else "the links leave parts apart",
        )
    if s.kept <= 0:
        least = 1 - s.mu**2 / (2 * s.beta**2)
        return Bound(
            None,
            None,
            False,
            f"it needs d_min > 1 - mu^2 / (2 beta^2) = {least:.4g}; found {s.d_min:.4g}",
        )
    idle, uneven = 1 - s.d_min, 0.0
    if idle > 0:
        uneven = math.inf if s.zeta == 0 else 2 * (s.beta / s.zeta) ** 2 * idle
    entries = (
        s.kept * s.mu**2 / (10 * (3 - 2 * s.d_min) * s.beta**3),
        5 * (1 + s.rho) / (8 * s.mu * s.kept),
        s.mu
        / s.beta**2
        * (1 - s.rho)
        / math.sqrt(1 + s.rho)
        * math.sqrt(s.kept / (1 + uneven))
        / (6 * math.sqrt(2 * s.d_max)),
    )
    grid = entries[0] * np.logspace(-6, 6, 481)
    good = np.array([spectral_radius_2x2(pl_matrix(s, alpha)) < 1 for alpha in grid])
    truth = float(grid[np.flatnonzero(~good)[0] - 1]) if good[0] and not good.all() else None
    return Bound(min(entries), truth, True, "" if good[0] else "rho(Phi) >= 1 even at tiny steps")


def pl_gap(s: Setting, alpha: float) -> tuple[Bound, Bound]:
    """Theorem M.7 (eq. 35): (F - F*, sum of squared disagreement) after many rounds.

    The truth is (I - Phi)^-1 Psi.
    """
    step = pl_step(s)
    if step.printed is None:
        none = Bound(None, None, False, step.why)
        return none, none
    idle, A = 1 - s.d_min, 2 * s.mu / 5 * s.kept
    noise = 4 * idle * s.delta**2 + s.sigma**2 / s.m
    error = (idle * s.delta**2 + alpha * s.beta / 2 * noise) / A
    apart = s.m * alpha * (3 * s.spread * s.delta**2 + s.sigma**2) / A
    phi = pl_matrix(s, alpha)
    if spectral_radius_2x2(phi) >= 1:
        why = f"rho(Phi) = {spectral_radius_2x2(phi):.4g} at step {alpha:g}"
        return Bound(error, None, False, why), Bound(apart, None, False, why)
    fixed = np.linalg.solve(np.eye(2) - phi, pl_offset(s, alpha))
    return Bound(error, fixed[0], True), Bound(apart, fixed[1], True)
