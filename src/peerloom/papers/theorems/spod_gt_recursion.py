"""Spod-GT (Zehtabi et al.), the recursion: Psi, step bound, the theorem's conditions.

The printed recursion drops terms that the paper's own lemmas have (erratum E-S13), so these are
values to report and never to rely on. Constants and letters are those of spod_gt_constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...theory.bound import Bound
from ...theory.matrices import spectral_radius_2x2
from .spod_gt import Mixing
from .spod_gt_constants import Clients, Floats, Kappas, kappas

__all__ = [
    "Clients",
    "Kappas",
    "Terms",
    "corollary",
    "final_bound",
    "final_rate",
    "gamma_one",
    "kappas",
    "participation",
    "psi_matrix",
    "rho_psi",
    "step_bound",
    "terms",
]


def psi_matrix(net: Mixing, k: Kappas, eta: float) -> Floats:
    """Psi of the recursion (eq. 13, Table 3), as printed."""
    A, B = net.rho_tilde
    m = net.m
    first = (1 + A) / 2 + m * k.k1 * k.k6 * k.k3 * eta**2
    second = k.k6 * k.k3 * eta**2
    third = (
        k.k7 * k.k4 * (1 + first)
        + k.k7 * k.k5 * k.k3 * k.k1 * eta**2
        + m * k.k7 * k.k5 * net.rho_zero[0]
    )
    return np.array(
        [
            [first, second],
            [third, (1 + B) / 2 + k.k7 * k.k4 * second + m * k.k7 * k.k5 * k.k3 * eta**2],
        ]
    )


def rho_psi(net: Mixing, k: Kappas, eta: float) -> float:
    """rho(Psi), infinite where the printed contractions reach 1."""
    return spectral_radius_2x2(psi_matrix(net, k, eta)) if max(net.rho_tilde) < 1 else math.inf


@dataclass(frozen=True)
class Terms:
    """What the recursion adds, and what it takes from F (Table 3).

        s^{k+1} <= Psi s^k + gamma E|grad F|^2 + omega
        E F^{k+1} <= E F^k - gamma_0 E|grad F|^2 + psi_0 s^k + omega_0

    As printed, but gamma_2 with its kappa_2 (Lemma C.2).
    """

    gamma: tuple[float, float]
    omega: tuple[float, float]
    psi0: tuple[float, float]
    gamma0: float
    omega0: float


def terms(net: Mixing, who: Clients, eta: Floats) -> Terms:
    """gamma, omega, psi_0, gamma_0 and omega_0 for steps eta_i."""
    m, k, top = net.m, kappas(net, who), float(eta.max())
    p, e, idle = who.p, who.e, 1 - who.p
    zero, B = net.rho_zero[1], net.rho_tilde[1]
    s0 = float(np.mean(who.sigma0**2 * p * e) + 3 * np.mean(idle * who.delta0**2))
    gamma1, omega1 = m**2 * k.k2 * k.k6 * k.k3 * top**2, m**2 * s0 * k.k6 * k.k3 * top**2
    uneven = float(np.mean(p * (2 * who.sigma1**2 * e + 5 * idle * who.delta1**2)))
    noisy = float(np.mean(p * (who.sigma0**2 * e + 5 * idle * who.delta0**2)))
    gamma2 = k.k7 * k.k4 * gamma1 + 3 * m * k.k7 * uneven + m * k.k7 * k.k5 * k.k3 * k.k2 * top**2
    omega2 = k.k7 * k.k4 * omega1 + 2 * m * k.k7 * noisy + m * s0 * k.k7 * k.k5 * k.k3 * top**2
    gain = m * net.pi - 2 * who.sigma1**2 * p * e - 3 * idle * who.delta1**2 - 3 * zero * k.k2
    loss = who.sigma0**2 * p * e + 3 * idle * who.delta0**2
    return Terms(
        gamma=(gamma1, gamma2),
        omega=(omega1, omega2),
        psi0=((1 + 3 * zero) * k.k8 * top / 2, 3 * float(net.phi.max()) * B * top / (2 * m)),
        gamma0=float(m / 2 * np.mean(net.phi * eta * gain)),
        omega0=float(m / 2 * (1 + 3 * zero) * np.mean(net.phi * eta * loss)),
    )


def corollary(rounds: int, samples: int) -> tuple[float, float, float]:
    """eta, 1 - p and B of Corollary 4.11 with its constants set to 1.

    eta = 1 - p = 1 / sqrt(K + 1), B = D / (1 + D / sqrt(K + 1)).
    """
    root = math.sqrt(rounds + 1)
    return 1 / root, 1 / root, samples / (1 + samples / root)


def step_bound(net: Mixing, who: Clients) -> Bound:
    """The step bound of Proposition 4.8, eq. (14); the truth is the largest with rho(Psi) < 1.

    The second of the four printed entries is a factor of the first in the proof (erratum E-S11).
    """
    A, B = net.rho_tilde
    if max(A, B) >= 1:
        return Bound(
            None,
            None,
            False,
            f"the printed contractions reach 1: rhotilde_A = {A:.4g}, rhotilde_B = {B:.4g}",
        )
    m, k = net.m, kappas(net, who)
    left, right = (1 - A) / math.sqrt(1 + A), (1 - B) / math.sqrt(1 + B)
    entries = (
        left * right / (4 * math.sqrt(m + 1)),
        1 / math.sqrt(2 * k.k4 + m * k.k5 * net.rho_zero[0]),
        math.sqrt((1 - A) / k.k5),
        right / math.sqrt(k.k5) / (2 * math.sqrt(m * (m + 1))),
    )
    printed = min(entries) / (2 * math.sqrt(k.k3))
    fits = net.models().holds and net.trackers().holds
    why = "" if fits else "Lemma B.4's conditions on the links' variance fail"
    return Bound(printed, _largest_step(net, k), fits, why)


def _largest_step(net: Mixing, k: Kappas) -> float:
    """The largest step with rho(Psi) < 1: it grows with the step, so bisection finds it."""
    low, high = 0.0, 1e-12
    while rho_psi(net, k, high) < 1 and high < 1e6:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rho_psi(net, k, middle) < 1 else (low, middle)
    return low


def gamma_one(net: Mixing, k: Kappas, rho: float, Gamma2: float, Gamma3: float) -> float:
    """Gamma_1 of Proposition 4.9 (eq. 89), for rho(Psi) = `rho` below 1."""
    both = net.phi * net.pi
    kept = Gamma2 * k.k7 * net.rho_tilde[1] / (1 - rho)
    return float(1 + 8 * Gamma3 / net.m * both.max() / both.min() * kept)


def final_rate(net: Mixing, Gamma1: float, Gamma2: float, Gamma3: float) -> float:
    """q of Proposition 4.9: (m^2 / 2)(1 - 1/Gamma_1)(1 - 1/Gamma_2)(1/Gamma_3) min phi pi."""
    return float(
        net.m**2 / 2 * (1 - 1 / Gamma1) * (1 - 1 / Gamma2) / Gamma3 * (net.phi * net.pi).min()
    )


def participation(
    net: Mixing,
    who: Clients,
    eta: Floats,
    samples: Floats,
    Gamma2: float = 2.0,
    Gamma3: float = 2.0,
) -> dict[str, Bound]:
    """Check Proposition 4.9: least values and the largest step beside the run's (`truth`).

    kappa_2 depends on p and B, and Gamma_1 on rho(Psi) at this step, so it checks and does not
    solve.
    """
    m, k, pi = net.m, kappas(net, who), net.pi
    rho = rho_psi(net, k, float(eta.max()))
    if rho >= 1:
        why = f"rho(Psi) is not below 1 at step {eta.max():.4g}, so Gamma_1 does not exist"
        return {"recursion": Bound(None, None, False, why)}
    g1 = gamma_one(net, k, rho, Gamma2, Gamma3)
    some = who.delta1 > 0
    p_least = float((1 - m * pi[some] / (9 * g1 * who.delta1[some] ** 2)).max(initial=0.0))
    noisy = who.sigma1 > 0
    with np.errstate(divide="ignore"):
        batch = samples[noisy] / (
            1 + m * pi[noisy] * samples[noisy] / (6 * g1 * who.sigma1[noisy] ** 2)
        )
    logs = net.least_probability()
    tau = 2 * m * pi.min() ** 2 / (9 * (m - 1) * k.k2 * g1 * net.links.b**2 * pi.max())
    r_prime = float((0.5 * (1 + np.sqrt(np.maximum(0, 1 - tau)))).max())
    link = max(1 - 10 ** logs[0], 1 - 10 ** logs[1], r_prime)
    step = math.sqrt((1 - 1 / Gamma3) / g1 * k.k10 / k.k9 * (1 - rho))
    has = np.round(1 / (who.e + 1 / samples)) if len(samples) else samples
    return {
        "compute": _least(p_least, float(who.p.min()), "p_i"),
        "batch": _least(float(batch.max(initial=0.0)), float(has.min()), "B_i"),
        "links": _least(link, float(net.ph.min()), "phat_ij"),
        "evenness": _least(1 / Gamma3, float(eta.mean() / eta.max()), "mean eta / eta_i"),
        "step": Bound(
            step, None, bool(eta.max() < step), f"eta = {eta.max():.4g} beside {step:.4g}"
        ),
    }


def final_bound(
    net: Mixing,
    who: Clients,
    eta: float,
    rounds: int,
    drop: float,
    spread: tuple[float, float] = (0.0, 0.0),
    Gamma2: float = 2.0,
    Gamma3: float = 2.0,
) -> Bound:
    """Theorem 4.10, eq. (94): the mean of E|grad F|^2 over rounds 0 to k.

    `spread` is (X^0, Y^0). The truth has the 1 / (1 - rho_Psi) that its last term misses (erratum
    E-S13).
    """
    k, m, B = kappas(net, who), net.m, net.rho_tilde[1]
    rho = rho_psi(net, k, eta)
    if rho >= 1:
        return Bound(
            None,
            None,
            False,
            f"rho(Psi) is not below 1 at step {eta:.4g}: the printed theory does not apply",
        )
    q = final_rate(net, gamma_one(net, k, rho, Gamma2, Gamma3), Gamma2, Gamma3)
    zero = 1 + 3 * net.rho_zero[1]
    top = float(net.phi.max())
    noise = np.mean(who.sigma0**2 * who.p * who.e + 5 * (1 - who.p) * who.delta0**2)
    less = np.mean(who.sigma0**2 * who.p * who.e + 3 * (1 - who.p) * who.delta0**2)
    value = drop / (q * eta * (rounds + 1))
    value += zero * k.k8 * spread[0] / (2 * q * (1 - rho) * (rounds + 1))
    value += 3 * top * B * spread[1] / (2 * m * q * (1 - rho) * (rounds + 1))
    value += top / q * (m * zero / 2 + 3 * k.k7 * B / (1 - rho)) * float(noise)
    last = 3 * m * top / (2 * q) * k.k9 * k.k3 * k.k7 * B * float(less) * eta**2
    return Bound(
        value + last, value + last / (1 - rho), True, "reported, not relied on (erratum E-S13)"
    )


def _least(least: float, found: float, name: str) -> Bound:
    return Bound(
        least, found, found >= least, f"{name} = {found:.6g} beside a least of {least:.6g}"
    )
