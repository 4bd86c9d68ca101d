"""MLL-SGD (Castiglia, Das and Patterson): step condition (12), bounds (13) and (14)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...theory.bound import Bound
from ...theory.matrices import hub_modulus

__all__ = [
    "Setting",
    "bound",
    "corollary_step",
    "gamma",
    "gap",
    "least_probability",
    "step",
    "zeta",
]

Floats = NDArray[np.float64]

zeta = hub_modulus  # erratum E-M5: of the D x D matrix between hubs


@dataclass(frozen=True, eq=False)
class Setting:
    """What the theorem needs: a_i a worker's share of all weight, p_i how often it steps."""

    zeta: float
    tau: int
    q: int
    a: Floats
    p: Floats
    L: float
    sigma: float
    beta: float = 0.0  # the part of the noise that grows with the gradient


def gamma(zeta: float) -> Bound:
    """Gamma of Theorem 1.

    Its printed first term is zeta / (1 - zeta^2), that of the proof (eq. 186) 1 / (1 - zeta^2)
    (erratum E-M4).
    """
    if zeta >= 1:
        return Bound(None, None, False, "zeta = 1: the hub graph is disconnected, or only swaps")
    rest = 2 / (1 - zeta) + zeta / (1 - zeta) ** 2
    return Bound(zeta / (1 - zeta**2) + rest, 1 / (1 - zeta**2) + rest, True)


def least_probability() -> float:
    """2 - sqrt 2: a worker that steps less often leaves condition (12) without any step."""
    return 2 - math.sqrt(2)


def step(s: Setting) -> Bound:
    """The largest step eta that condition (12) allows to every worker.

        4 p - p^2 - 2 >= eta L (a p (beta + 1) - a p^2 + p^2) + 8 L^2 eta^2 q^2 tau^2 Gamma

    The truth has 4 (p (beta - 1) + 2) in place of 8 and Gamma as in `gamma`, as the proof does
    (errata E-M9 and E-M4).

    >>> one, always = np.array([0.01]), np.array([1.0])
    >>> worker = Setting(zeta=0.0, tau=8, q=4, a=one, p=always, L=1.0, sigma=1.0)
    >>> found = step(worker)
    >>> round(found.printed, 6), round(found.truth, 6)
    (0.007782, 0.00898)
    """
    found = gamma(s.zeta)
    if found.printed is None or found.truth is None:
        return found
    if (s.p <= least_probability()).any():
        low = float(s.p.min())
        return Bound(
            None,
            None,
            False,
            f"a worker steps with probability {low:.4g}; (12) needs more than 2 - sqrt 2 = 0.5858",
        )
    if not math.isfinite(s.L):
        return Bound(None, None, False, "the losses are not smooth")
    left = 4 * s.p - s.p**2 - 2
    linear = s.L * (s.a * s.p * (s.beta + 1) - s.a * s.p**2 + s.p**2)
    beat = (s.L * s.q * s.tau) ** 2

    def limit(square: Floats | float) -> float:
        root = np.sqrt(linear**2 + 4 * left * square)
        return float(((root - linear) / (2 * square)).min())

    printed = limit(8 * beat * found.printed)
    return Bound(printed, limit(4 * (s.p * (s.beta - 1) + 2) * beat * found.truth), True)


def bound(s: Setting, eta: float, rounds: int, drop: float) -> Bound:
    """(13): the mean of E|grad F|^2 over k = 1 to K; `drop` is F(x_1) - F_inf."""
    if s.zeta >= 1:
        return Bound(None, None, False, "zeta = 1: the hub graph is disconnected, or only swaps")
    return Bound(2 * drop / (eta * rounds) + _floor(s, eta, 1 / rounds), None, *_within(s, eta))


def gap(s: Setting, eta: float) -> Bound:
    """(14): what is left of (13) after rounds without end."""
    if s.zeta >= 1:
        return Bound(None, None, False, "zeta = 1: the hub graph is disconnected, or only swaps")
    return Bound(_floor(s, eta, 0.0), None, *_within(s, eta))


def corollary_step(L: float, rounds: int, tau: int, q: int) -> Bound:
    """Corollary 1: eta = 1 / (L sqrt K), for q^2 tau^2 <= sqrt K and q tau < K."""
    holds = (q * tau) ** 2 <= math.sqrt(rounds) and q * tau < rounds
    return Bound(
        1 / (L * math.sqrt(rounds)),
        None,
        holds,
        "" if holds else f"it needs (q tau)^2 = {(q * tau) ** 2} <= sqrt K",
    )


def _within(s: Setting, eta: float) -> tuple[bool, str]:
    """Whether condition (12) holds as its proof has it, and why not."""
    limit = step(s)
    if limit.truth is None:
        return False, limit.why
    if eta <= limit.truth:
        return True, ""
    return False, f"the step {eta:.4g} exceeds condition (12)'s {limit.truth:.4g}"


def _floor(s: Setting, eta: float, per_round: float) -> float:
    z, beat, P = s.zeta, s.q * s.tau, float(s.a @ s.p)
    noise = s.sigma**2 * eta * s.L * float(s.a**2 @ s.p)
    across = z**2 / (1 - z**2) + 2 * z / (1 - z) + 1 / (1 - z) ** 2
    drift = 4 * s.L**2 * eta**2 * s.sigma**2 * P
    inside = s.tau**2 * (s.q - 1) * (2 * s.q + 1) / 6 + (s.tau - 1) * (2 * s.tau + 1) / 6
    return noise + drift * (beat**3 * (1 / beat - per_round) * across + (2 - z) / (1 - z) * inside)
