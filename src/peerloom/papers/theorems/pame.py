"""PaME (Sha et al.): zeta, C_1 and the growth it allows, constants of its rates, bits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln

from ...core import Links
from ...theory.bound import Bound
from ...theory.matrices import DENSE, Sparse, second_modulus

__all__ = [
    "Rates",
    "c_one",
    "dense_bits",
    "growth",
    "message_bits",
    "neighbour_matrix",
    "path_length",
    "printed_condition",
    "rates",
    "sigma_least",
    "unheard",
    "zeta",
]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


def neighbour_matrix(links: Links) -> Sparse:
    """Row i averages its neighbours, itself left out: 1 / |N_i| on links (B transposed)."""
    return sp.csr_array(
        (1 / links.in_degree[links.dst], (links.dst, links.src)), shape=(links.rows, links.rows)
    )


def zeta(links: Links) -> Bound:
    """max(|lambda_2|, |lambda_m|) of B (Assumption 1), which must be doubly stochastic.

    That is so on regular graphs; it is below 1 where they are not bipartite.
    """
    if not len(links):
        return Bound(None, None, False, "there are no links")
    matrix = neighbour_matrix(links)
    even = np.allclose(np.asarray(matrix.sum(axis=0)).ravel(), 1, atol=1e-9)
    symmetric = abs(matrix - matrix.T).max() < 1e-9
    if even and symmetric:
        value = second_modulus(matrix)
    elif links.rows <= DENSE:
        value = float(np.sort(np.abs(np.linalg.eigvals(matrix.toarray())))[-2])
    else:
        return Bound(None, None, False, "the degrees differ, so B is not doubly stochastic")
    if not even:
        return Bound(
            value,
            value,
            False,
            "the degrees differ, so B is not doubly stochastic and the limit leans to high degrees",
        )
    if value >= 1 - 1e-9:
        return Bound(
            value,
            value,
            False,
            "zeta = 1: the graph is bipartite (or disconnected), so neighbours only swap values",
        )
    return Bound(value, value, True)


def unheard(t: Ids, p: float) -> Floats:
    """(1 - p)^t: the chance that none of t senders carries a coordinate."""
    return np.asarray((1 - p) ** t.astype(np.float64))


def c_one(links: Links, t: Ids, p: float, zeta: float) -> float:
    """C_1 (supplement, eq. 44), exact, where t_i senders each carry a share p of coordinates."""
    degree = links.in_degree
    spread = np.array([_partial(int(k), p) for k in range(int(t.max()) + 1)])[t]
    with np.errstate(divide="ignore", invalid="ignore"):
        chosen = np.where(
            degree > 1, (1 - unheard(t, p)) * (degree - t) / (degree * t * (degree - 1.0)), 0.0
        )
    each = spread / degree + chosen
    return float(
        (
            unheard(t, p) * (1 + zeta) ** 2 + np.bincount(links.dst, each[links.src], links.rows)
        ).max()
    )


def growth(links: Links, t: Ids, p: float, k0: int) -> Bound:
    """The largest growth factor gamma of sigma, (zeta + sqrt C_1)^(-2 / k0).

    The printed condition (12) can never hold (erratum E-A7), so there is no printed value; this one
    is the supplement's eq. (45), on which the proof rests.

    >>> from peerloom.graphs import complete
    >>> round(growth(complete(32).peers, np.full(32, 6), 0.2, k0=5).truth, 5)
    1.00962
    """
    z = zeta(links)
    if z.truth is None or not z.holds:
        return Bound(None, None, False, z.why)
    total = z.truth + math.sqrt(c_one(links, t, p, z.truth))
    never = "condition (12) as printed can never hold"
    if total >= 1:
        return Bound(
            None,
            None,
            False,
            f"{never}, and zeta + sqrt C_1 = {total:.4g} is not below 1: too little arrives",
        )
    return Bound(None, total ** (-2 / k0), True, never)


def printed_condition(links: Links, t: Ids, p: float, zeta: float, gamma: float, k0: int) -> Bound:
    """Condition (12), for the record: printed is its left side, truth its right.

    Always false (erratum E-A7).
    """
    share = (t / links.in_degree)[links.src]
    left = unheard(t, p) * (1 + zeta) ** 2 + 2 * p * np.bincount(links.dst, share, links.rows)
    right = (gamma ** (-k0 / 2) - zeta) ** 2
    return Bound(
        float(left.max()),
        right,
        bool(left.max() < right),
        "left side beside right side; it can never hold",
    )


def sigma_least(alpha: float, bound: float, gamma: float, delta: float, t_least: int) -> float:
    """The least first penalty sigma^0 (Theorem 2).

    max{4 alpha_max, eps(2 delta) gamma / ((gamma - 1) delta t_min)}
    """
    return max(
        4 * alpha, bound * gamma / ((gamma - 1) * delta * t_least) if gamma > 1 else math.inf
    )


def path_length(sigma: float, gamma: float, t: int) -> float:
    """The sum of all steps, gamma / (sigma^0 t (gamma - 1)).

    No model moves further than this times its gradients.
    """
    return math.inf if gamma <= 1 else gamma / (sigma * t * (gamma - 1))


@dataclass(frozen=True)
class Rates:
    """The constants of Theorems 2 to 4.

    Models O(gamma^-k), objective O(gamma^(-k/2)), consensus O(beta^-k).
    """

    Gamma: float
    iota: float
    rho: float
    M: float
    P: float
    phi: float
    Q_printed: float
    Q: float
    beta: float
    C2: float
    eta: float
    C: float
    D: float


def rates(
    m: int, n: int, eps: float, sigma: float, t_least: int, total: float, gamma: float, k0: int
) -> Rates:
    """All constants, for `total` = zeta + sqrt C_1 and a growth below what it allows.

    iota is in the middle of its range. Q as printed divides by |M - gamma^-2|; the sum it comes
    from gives |M^k0 - gamma^(-2 k0)| (erratum E-A9).
    """
    room = 1 / (gamma * total ** (2 / k0)) - 1
    if room <= 0:
        raise ValueError(
            f"gamma = {gamma:g} is not below (zeta + sqrt C_1)^(-2/k0) = {total ** (-2 / k0):g}"
        )
    iota = room / 2
    r1, r2 = 1 + iota, 1 + 1 / iota
    Gamma = m * n * eps**2 / (sigma**2 * t_least**2)
    rho = r1 * total**2
    M = (rho * r1 ** (k0 - 1)) ** (1 / k0)
    P = (
        r2
        * Gamma
        * (r1 ** (k0 - 1) + sum(r1 ** (k0 - 1 - j) * gamma ** (-2 * j) for j in range(1, k0)))
    )
    phi = max(M, gamma**-2)
    Q = P / abs(M**k0 - gamma ** (-2 * k0))
    beta = 1 / phi
    C2, eta = (Q + P) / phi**k0, beta / gamma
    C = gamma / (gamma - 1) * 4 * m * n * eps**2 / (sigma * t_least)
    D = eta / (eta - 1) * 4 * (1 + gamma) * m * sigma * C2 / beta
    return Rates(Gamma, iota, rho, M, P, phi, P / abs(M - gamma**-2), Q, beta, C2, eta, C, D)


def message_bits(n: int, s: int) -> int:
    """63 s + n: s values of 64 bits and a mask of n bits, less one bit for each value sent."""
    return 63 * s + n


def dense_bits(n: int) -> int:
    """64 n."""
    return 64 * n


def _partial(t: int, p: float) -> float:
    """c = sum_r C(t, r) p^r (1 - p)^(t - r) (t - r) / (r (t - 1)), terms by logarithms.

    0 for one sender or whole rows.
    """
    if t <= 1 or p >= 1:
        return 0.0
    r = np.arange(1, t)
    log = (
        gammaln(t + 1)
        - gammaln(r + 1)
        - gammaln(t - r + 1)
        + r * np.log(p)
        + (t - r) * np.log1p(-p)
    )
    return float((np.exp(log) * (t - r) / (r * (t - 1))).sum())
