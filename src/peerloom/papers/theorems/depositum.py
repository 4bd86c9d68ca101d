"""DEPOSITUM (Zhou et al.): limits of alpha and beta, Theorem 1 and Corollary 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...theory.bound import Bound

__all__ = [
    "Corollary",
    "alpha_limit",
    "beta_limit",
    "corollary",
    "corollary_bound",
    "deltas",
    "omega",
    "stationarity",
    "theorem",
]

Floats = NDArray[np.float64]
Map = Callable[[Floats], Floats]

_ZERO = 1e-12  # below this lambda is rounding, and the branch for 0 is meant


def omega(gamma: float) -> float:
    """(1 + 3 gamma) / (1 - gamma): what Nesterov's momentum adds (eq. 17)."""
    return (1 + 3 * gamma) / (1 - gamma)


def deltas(
    lam: float, T0: int, alpha_rho: float = 0.0, *, larger: bool = False, printed: bool = False
) -> tuple[float, float]:
    """delta_1 and delta_2 of section IV, before Proposition 2.

    For lambda = 0 the exponent in delta_1 is 2 T0 + 2, as derived in the supplement; `printed`
    gives it the T0 + 1 of the main text (erratum E-P2). Logarithms are used.

    delta_1 is not positive, and the theorem void, unless alpha rho < 1 - lambda^(1 / (2 T0))
    (erratum E-P3). Both fall to 0 as lambda does, although nothing mixes better than lambda = 0. A
    graph that mixes with lambda does so with any larger one as well: `larger` takes the lambda from
    there on with the largest product.
    """
    if larger and lam >= _ZERO:
        wider = [deltas(float(x), T0, alpha_rho) for x in np.linspace(lam, 1, 1000, endpoint=False)]
        return max(wider, key=lambda pair: pair[0] * pair[1] if pair[0] > 0 else 0.0)
    if lam < _ZERO:
        log2 = T0 * math.log(T0) - (T0 + 1) * math.log1p(T0)
        exponent = (1 if printed else 2) * (T0 + 1)
        return math.exp(log2 + exponent * math.log1p(-alpha_rho)), math.exp(log2)
    common, root = lam * (1 - lam), lam ** (1 / T0)
    return common * ((1 - alpha_rho) ** 2 - root), common * (1 - root)


def stationarity(
    x: Floats, nu: Floats, gradient: Map, mean_gradient: Floats, prox: Map, alpha: float, L: float
) -> float:
    """s, what Theorem 1 bounds.

        s = sum_i |G^alpha(x_i)|^2 + L^2 |x - Jx|^2 + n |mean gradient - mean nu|^2
        G^alpha(x) = (x - prox(x - alpha grad f(x))) / alpha

    `gradient` is that of the whole f, `mean_gradient` that of each client at its own model,
    averaged. x and nu have one row per client; `gradient` and `prox` take rows to rows.
    """
    G = (x - prox(x - alpha * gradient(x))) / alpha
    apart = L**2 * ((x - x.mean(axis=0)) ** 2).sum()
    return float((G**2).sum() + apart + len(x) * ((mean_gradient - nu.mean(axis=0)) ** 2).sum())


def alpha_limit(L: float, gamma: float, rho: float = 0.0, nesterov: bool = False) -> Bound:
    """The largest alpha that Theorem 1 allows.

        min{1 / (16 L), (1 - gamma) / (24 gamma L), 1 / (48 rho)},

    with gamma^2 L in place of gamma L for Nesterov's momentum.
    """
    if not math.isfinite(L):
        return Bound(None, None, False, "the losses are not smooth")
    entries = [1 / (16 * L)]
    if gamma > 0:
        entries.append((1 - gamma) / (24 * (gamma**2 if nesterov else gamma) * L))
    if rho > 0:
        entries.append(1 / (48 * rho))
    return Bound(min(entries), None, True)


def beta_limit(
    n: int, lam: float, T0: int, gamma: float = 0.0, alpha_rho: float = 0.0, nesterov: bool = False
) -> Bound:
    """Theorem 1's limit of beta.

    The truth is the safe one, with n = 1 and delta_1 as derived (errata E-P9, E-P2).

    >>> round(beta_limit(10, 0.872678, 1).printed, 5)
    0.07776
    """
    if lam >= 1:
        return Bound(None, None, False, "lambda = 1: the graph is disconnected, or only swaps")
    w = omega(gamma) if nesterov else 1.0

    def limit(n: int, printed: bool) -> float | None:
        d1, d2 = deltas(lam, T0, alpha_rho, printed=printed)
        if d1 <= 0:
            return None
        return math.sqrt(
            8 * d1 * d2 * (96 * n - 71) / (9 * w * T0 * (11 * d1 + 6 * T0 + 2 * n * T0))
        )

    safe = limit(1, printed=False)
    if safe is None:
        return Bound(
            None, None, False, f"alpha rho = {alpha_rho:.4g} must be below 1 - lambda^(1 / (2 T0))"
        )
    return Bound(
        limit(n, printed=True),
        safe,
        True,
        "" if n == 1 else "the printed limit is too large by a factor that grows with n",
    )


def theorem(
    n: int,
    lam: float,
    T0: int,
    alpha: float,
    beta: float,
    rounds: int,
    drop: float,
    sigma: float,
    *,
    gamma: float = 0.0,
    batch: float = 1.0,
    first_gradient: float = 0.0,
    rho: float = 0.0,
    L: float = math.inf,
    nesterov: bool = False,
) -> Bound:
    """Theorem 1: a bound on the mean over rounds of E[s] / n, with s as in `stationarity`.

    `drop` is phi(x_0) - phi*, `first_gradient` the norm of the mean gradient at x_0. The truth has
    delta_1 as derived (erratum E-P2). The proof uses beta = 1 where it sets the mean tracker equal
    to the mean gradient (erratum E-P1).
    """
    alphas, betas = (
        alpha_limit(L, gamma, rho, nesterov),
        beta_limit(n, lam, T0, gamma, alpha * rho, nesterov),
    )
    if betas.printed is None or betas.truth is None:
        return betas
    w = omega(gamma) if nesterov else 1.0

    def value(printed: bool) -> float | None:
        d1, d2 = deltas(lam, T0, alpha * rho, printed=printed)
        below = 256 * batch * d1 * d2 - 6 * w * batch * beta**2 * T0**2
        if below <= 0:
            return None
        start = 8 * drop / alpha + 142 * first_gradient**2 / (1 - gamma)
        noise = (426 if nesterov else 142) * (1 - gamma) * sigma**2 / (n * batch)
        tracked = 512 * w * T0 * d1 * beta**2 * sigma**2 * (11 + 359 * T0 / (48 * d1)) / below
        return start / (rounds + 1) + noise + tracked

    reported, derived = value(printed=True), value(printed=False)
    if beta > betas.truth:
        why = (
            f"it allows beta up to {betas.truth:.4g} (printed: {betas.printed:.4g}), "
            f"and the run has {beta:.4g}"
        )
        return Bound(reported, derived, False, why)
    if alphas.printed is None or alpha > alphas.printed:
        why = alphas.why or f"it allows alpha up to {alphas.printed:.4g}, the run has {alpha:.4g}"
        return Bound(reported, derived, False, why)
    return Bound(reported, derived, True)


@dataclass(frozen=True)
class Corollary:
    """What Corollary 1 sets."""

    alpha: float
    beta: float
    gamma: float
    batch: int
    holds: bool
    why: str


def corollary(
    n: int, L: float, lam: float, T0: int, rounds: int, rho: float = 0.0, nesterov: bool = False
) -> Corollary:
    """Corollary 1 for T = `rounds`.

    It wants T + 1 >= max{4n/9, 4 n rho^2 / L^2, T0}, and >= n for gamma >= 0 (erratum E-P6).
    """
    steps = rounds + 1
    alpha = math.sqrt(n) / (24 * L * math.sqrt(steps))
    gamma = 1 - math.sqrt(n / steps)
    least = max(4 * n / 9, 4 * n * rho**2 / L**2, T0, n)
    if steps < least:
        return Corollary(
            alpha, 0.0, gamma, max(1, round(math.sqrt(n))), False, f"it needs T + 1 >= {least:.4g}"
        )
    d1, d2 = deltas(lam, T0, alpha * rho)
    if d1 <= 0 or lam >= 1:
        return Corollary(
            alpha, 0.0, gamma, max(1, round(math.sqrt(n))), False, "delta_1 is not positive"
        )
    w = omega(gamma) if nesterov else 1.0
    beta = math.sqrt(
        3200 * d1 * d2 / (w * (1584 * d1 + 1077 * T0) * math.sqrt(T0 * steps) + 75 * w * T0**2)
    )
    return Corollary(alpha, beta, gamma, max(1, round(math.sqrt(n))), True, "")


def corollary_bound(
    n: int,
    L: float,
    T0: int,
    rounds: int,
    drop: float,
    sigma: float,
    first_gradient: float = 0.0,
    nesterov: bool = False,
) -> float:
    """Corollary 1's bound on the mean of E[s] / n."""
    root = math.sqrt(n * (rounds + 1))
    last = (426 if nesterov else 142) * sigma**2 / (n * math.sqrt(rounds + 1))
    return (
        (192 * L * drop + 142 * first_gradient**2) / root
        + 400 * sigma**2 * math.sqrt(T0) / (9 * root)
        + last
    )
