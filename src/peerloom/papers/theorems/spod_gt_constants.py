"""Spod-GT (Zehtabi et al.), the constants of its recursion: kappa_1 to kappa_10.

Letters as in the paper: p_i the clients' probabilities, B_i of D_i samples in a batch, L_i
smoothness, noise sigma_0 and sigma_1, diversity delta_0 and delta_1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .spod_gt import Mixing

__all__ = ["Clients", "Floats", "Kappas", "kappas"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Clients:
    """What each client brings: arrays of length m."""

    p: Floats
    L: Floats
    sigma0: Floats
    sigma1: Floats
    delta0: Floats
    delta1: Floats
    e: Floats  # (1 - B_i / D_i) / B_i

    @classmethod
    def equal(
        cls, m: int, *, p: float = 1.0, L: float = 1.0, e: float = 0.0, **noise: float
    ) -> Clients:
        """The same of everyone; `noise` may give sigma0, sigma1, delta0, delta1."""
        given = {
            name: np.full(m, noise.get(name, 0.0))
            for name in ("sigma0", "sigma1", "delta0", "delta1")
        }
        return cls(np.full(m, p), np.full(m, L), **given, e=np.full(m, e))


@dataclass(frozen=True)
class Kappas:
    """kappa_1 to kappa_10 (Table 2), tilde rhos in kappa_6 and kappa_7 (erratum E-S14)."""

    k1: float
    k2: float
    k3: float
    k4: float
    k5: float
    k6: float
    k7: float
    k8: float
    k9: float
    k10: float


def kappas(net: Mixing, who: Clients) -> Kappas:
    """All ten; kappa_6, kappa_7, kappa_9 are infinite where printed contractions reach 1."""
    m, phi, pi, links = net.m, net.phi, net.pi, net.links
    p, e, mean = who.p, who.e, np.mean
    L_mean = float(who.L.mean())
    noisy = 2 * e * who.sigma1**2 * L_mean**2
    A, B = net.rho_tilde
    # the mean over receivers
    unsent = np.bincount(links.src, links.b**2 * net.ph * (1 - net.ph), m) / m
    k2 = float(2 * mean(who.sigma1**2 * p * e) + 3 * mean((1 - p) * who.delta1**2) + 3)
    k3 = float(phi.max() * (pi.max() ** 2 / pi.min() + 2 * m * (pi * unsent).max()))
    k4 = float((p / phi * (noisy + 5 * who.L**2)).max())
    k5 = float(
        2 * mean(p * (2 * who.sigma1**2 * e + 5 * (1 - p) * who.delta1**2)) * L_mean**2
        + 5 * mean(p**2 * who.L**2)
    )
    k6 = (1 + A) / (1 - A) if A < 1 else math.inf
    k7 = 2 * (m + 1) * (1 + B) / (1 - B) if B < 1 else math.inf
    return Kappas(
        k1=float((p / phi * (noisy + 3 * who.L**2)).max()),
        k2=k2,
        k3=k3,
        k4=k4,
        k5=k5,
        k6=k6,
        k7=k7,
        k8=float((p * (noisy + 3 * who.L**2)).max()),
        k9=math.inf
        if math.isinf(k6)
        else (m * (1 + 3 * net.rho_zero[1]) / (3 * k7 * B) + 1) * k4 * k6 + k5 / m,
        k10=float(8 / (3 * k2 * k3) * (phi * pi).max() / phi.max()),
    )
