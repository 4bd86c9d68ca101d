"""DSpodFL without convexity (Theorem 4.12); with diminishing steps (appendices I, K).

Diversity here is |grad F_i| <= delta + zeta |grad F|. The proof's constants Gamma_0, Gamma_1,
Gamma_2, Gamma_4 > 1 and Gamma_3 > 0 are free; 2 and 1 by default.

With diminishing steps clients compute with d_i^k = 1 - eta_i alpha^k. The paper prints the least
eta_i, that of the client with the largest d_i, where the largest is meant (erratum E-D6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...theory.bound import Bound
from .dspodfl import Setting

__all__ = [
    "Free",
    "diminishing_bound",
    "diminishing_convex_step",
    "diminishing_step",
    "nonconvex_bound",
    "nonconvex_gap",
    "nonconvex_matrix",
    "nonconvex_offset",
    "nonconvex_step",
    "nonconvex_weights",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Free:
    """The proof's free constants."""

    g0: float = 2.0
    g1: float = 2.0
    g2: float = 2.0
    g3: float = 1.0
    g4: float = 2.0


def nonconvex_matrix(s: Setting, alpha: float) -> Floats:
    """The coefficients phi of the non-convex recursion (Lemmas G.3 and G.4)."""
    idle = 1 - s.d_min
    return np.array(
        [
            [
                alpha * (0.5 - s.zeta**2 * idle - s.beta * (1 + 2 * s.zeta**2 * idle) * alpha),
                s.beta**2 * s.d_max / (2 * s.m) * alpha * (1 + 2 * s.beta * alpha),
            ],
            [
                16 * s.spread * s.m * s.d_max * alpha**2 * s.zeta**2,
                (1 + s.rho) / 2 + 8 * s.spread * s.d_max * alpha**2 * s.beta**2,
            ],
        ]
    )


def nonconvex_offset(s: Setting, alpha: float) -> Floats:
    """The coefficients psi of the non-convex recursion (Lemmas G.3 and G.4)."""
    first = (1 - s.d_min) * (
        1 + 2 * s.beta * alpha
    ) * s.delta**2 + s.beta * alpha * s.d_max * s.sigma**2 / (2 * s.m)
    return np.array(
        [alpha * first, s.m * alpha**2 * s.d_max * (16 * s.spread * s.delta**2 + s.sigma**2)]
    )


def nonconvex_step(s: Setting, free: Free | None = None) -> Bound:
    """The step bound of Theorem 4.12 (Proposition G.6)."""
    g = free or Free()
    if (why := _obstacle(s, g)) is not None:
        return Bound(None, None, False, why)
    left = 0.5 - s.zeta**2 * (1 - s.d_min)
    root = math.sqrt(s.d_max * (1 + s.rho))
    entries = [
        g.g3 / (2 * s.beta),
        (1 - s.rho) / (4 * g.g1 * s.beta * root),
        left / (g.g2 * s.beta * (1 + 2 * s.zeta**2 * (1 - s.d_min))),
    ]
    if s.zeta > 0:
        slack = math.sqrt((1 - g.g1**-2) * (1 - 1 / g.g2)) * math.sqrt(left)
        entries.append(
            slack
            * (1 - s.rho)
            / (4 * g.g4 * math.sqrt(1 + g.g3) * s.d_max * s.zeta * s.beta * math.sqrt(1 + s.rho))
        )
    return Bound(min(entries), None, True)


def nonconvex_weights(
    s: Setting, free: Free | None = None, *, printed: bool = False
) -> tuple[float, float, float, float, float]:
    """w_1 to w_5 of Theorem 4.12, as they are derived (Proposition G.6) or as printed.

    Printed, w_1 has (1 - 1 / Gamma_0) / 2 for 1/2 - zeta^2 (1 - d_min), which is no less, and w_2
    has 1 / Gamma_1 for its square (erratum E-D10).
    """
    g = free or Free()
    left = (1 - 1 / g.g0) / 2 if printed else 0.5 - s.zeta**2 * (1 - s.d_min)
    w1 = left * (1 - 1 / g.g2) * (1 - g.g4**-2)
    kept = 1 - (1 / g.g1 if printed else g.g1**-2)
    w2 = s.beta**2 * s.d_max * (1 + g.g3) / (s.m * (1 - s.rho) * kept)
    w3 = s.m * s.d_max * (16 * s.spread * s.delta**2 + s.sigma**2)
    return w1, w2, w3, (1 + g.g3) * s.delta**2, s.beta * s.d_max * s.sigma**2 / (2 * s.m)


def nonconvex_bound(
    s: Setting, alpha: float, rounds: int, drop: float, apart: float = 0.0, free: Free | None = None
) -> Bound:
    """Theorem 4.12: the mean of E|grad F|^2 over rounds 0 to K.

    `drop` is F(start) - F*, `apart` the first disagreement. The truth has the weights as they are
    derived.
    """
    step = nonconvex_step(s, free)
    if step.printed is None:
        return Bound(None, None, False, step.why)

    def value(printed: bool) -> float:
        w1, w2, w3, w4, w5 = nonconvex_weights(s, free, printed=printed)
        start = drop / (alpha * (rounds + 1)) + w2 * apart / (rounds + 1)
        return (start + alpha**2 * w2 * w3 + (1 - s.d_min) * w4 + alpha * w5) / w1

    return Bound(value(printed=True), value(printed=False), *_within(alpha, step.printed))


def nonconvex_gap(s: Setting, alpha: float, free: Free | None = None) -> Bound:
    """Theorem 4.12 for rounds without end."""
    return nonconvex_bound(s, alpha, 10**18, 0.0, 0.0, free)


def diminishing_convex_step(s: Setting, alpha0: float, Gamma1: float | None = None) -> Bound:
    """The largest alpha^0 of diminishing steps, strongly convex (Proposition I.1).

    Steps are alpha^k = alpha^0 / sqrt(1 + k / gamma), and eta_i = (1 - d_i) / alpha^0 ties how fast
    clients become able to how fast steps shrink. `Gamma1` by default is half of what is allowed.
    """
    if s.mu <= 0 or s.rho >= 1:
        return Bound(
            None, None, False, "it needs mu > 0" if s.mu <= 0 else "the links leave parts apart"
        )
    least, most = ((1 - d) / alpha0 for d in (s.d_max, s.d_min))
    largest = 1 / (1 + 2 * s.beta**2 * most / s.mu**2)
    g1 = largest / 2 if Gamma1 is None else Gamma1
    if not 0 < g1 < largest:
        return Bound(
            None, None, False, f"Gamma_1 must lie between 0 and {largest:.4g}; found {g1:.4g}"
        )

    def limit(eta: float) -> float:
        q = s.zeta**2 + 2 * eta * g1 * s.beta**2 / s.mu
        third = math.inf
        if q > 0:
            third = (s.mu / (6 * q * (1 + g1))) ** (1 / 3) * ((1 - s.rho) / (2 * s.beta)) ** (2 / 3)
        root = math.sqrt(1 + s.rho) * math.sqrt(s.zeta**2 + 2 * s.beta**2)
        return min(g1 / s.mu, (1 - s.rho) / root / (2 * math.sqrt(3)), third)

    return Bound(limit(least), limit(most), *_within(alpha0, limit(most)))


def diminishing_step(s: Setting, alpha0: float, free: Free | None = None) -> Bound:
    """The largest alpha^0 without convexity (Corollary K.3)."""
    g = free or Free()
    if s.rho >= 1:
        return Bound(None, None, False, "the links leave parts apart")
    root = math.sqrt(1 + s.rho)

    def limit(eta: float) -> float:
        entries = [
            g.g3 / (2 * s.beta),
            (1 - s.rho) / (4 * g.g1 * s.beta * root),
            1 / (2 * g.g2 * (s.zeta**2 * eta + s.beta * (1 + 2 * s.zeta**2 * eta))),
        ]
        if s.zeta > 0:
            slack = math.sqrt((1 - g.g1**-2) * (1 - 1 / g.g2))
            below = 4 * math.sqrt(2) * g.g4 * math.sqrt(1 + g.g3) * s.zeta * s.beta * root
            entries.append(slack * (1 - s.rho) / below)
        return min(entries)

    least, most = (limit((1 - d) / alpha0) for d in (s.d_max, s.d_min))
    return Bound(least, most, *_within(alpha0, most))


def diminishing_bound(
    s: Setting,
    alpha0: float,
    gamma: float,
    k: int,
    drop: float,
    apart: float = 0.0,
    free: Free | None = None,
) -> Bound:
    """Theorem K.5 after k rounds, as its proof (L.3) ends.

    The integral of 1 / sqrt(1 + x / gamma) from 0 to k is 2 gamma (sqrt(1 + k / gamma) - 1). The
    printed denominator lacks its factor gamma; the truth has it.
    """
    g, step = free or Free(), diminishing_step(s, alpha0, free)
    if step.printed is None or k < 1:
        return Bound(None, None, False, step.why or "it speaks of at least one round")
    w1 = 0.5 * (1 - 1 / g.g2) * (1 - g.g4**-2)
    _, w2, w3, _, _ = nonconvex_weights(replace(s, d_max=1.0), free)  # d_i^k rises to 1

    def value(eta: float) -> float:
        w4 = eta * (1 + g.g3) * s.delta**2 + s.beta * s.sigma**2 / (2 * s.m)
        above = drop + alpha0 * w2 * apart + w2 * w3 * alpha0**3 * (1 + 2 * gamma)
        above += w4 * alpha0**2 * (1 + gamma * math.log1p(k / gamma))
        return above / (2 * w1 * alpha0 * (math.sqrt(1 + k / gamma) - 1))

    least, most = (value((1 - d) / alpha0) for d in (s.d_max, s.d_min))
    return Bound(least, most / gamma, step.holds, step.why)


def _obstacle(s: Setting, g: Free) -> str | None:
    if s.rho >= 1:
        return "disagreement does not shrink (rho tilde = 1): the links that fire leave parts apart"
    if not math.isfinite(s.beta):
        return "the losses are not smooth"
    least = -math.inf if s.zeta == 0 else 1 - 1 / (2 * g.g0 * s.zeta**2)
    if s.d_min < least:
        return (
            f"it needs d_min >= 1 - 1 / (2 Gamma_0 zeta^2) = {least:.4g}, "
            f"and the least able client has {s.d_min:.4g}"
        )
    return None


def _within(alpha: float, limit: float) -> tuple[bool, str]:
    if alpha < limit:
        return True, ""
    return False, f"the step {alpha:.4g} is not below {limit:.4g}"
