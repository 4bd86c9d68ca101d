"""The theorems' recursions and constants again in plain loops, term by term, on random settings.

What the papers print of steps and bounds is compared in tests/papers/test_printed_*.py.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.papers.theorems import dspodfl, dspodfl_pl, pame
from peerloom.papers.theorems import dspodfl_nonconvex as nonconvex
from peerloom.papers.theorems import spod_gt_recursion as recursion
from peerloom.papers.theorems.spod_gt import Mixing
from tests.builders import seeds


@st.composite
def settings(draw):
    f = st.floats
    return dspodfl.Setting(
        m=draw(st.integers(2, 40)), rho=draw(f(0, 0.95)), beta=draw(f(0.1, 9)),
        mu=draw(f(0.01, 0.1)), zeta=draw(f(0.05, 3)), delta=draw(f(0, 5)), sigma=draw(f(0, 5)),
        d_min=draw(f(0.3, 0.9)), d_max=draw(f(0.9, 1)),
    )  # fmt: skip


def letters(s):
    """m, rho, beta, mu, zeta, delta, sigma, d_min and d_max of a setting."""
    return s.m, s.rho, s.beta, s.mu, s.zeta, s.delta, s.sigma, s.d_min, s.d_max


@given(settings(), st.floats(1e-4, 0.5), st.sampled_from([3, 6]))
def test_the_strongly_convex_recursion(s, al, c):
    m, r, B, mu, z, dl, sg, d0, d1 = letters(s)
    R = (1 + r) / (1 - r)
    phi = [
        [1 - mu * al * (1 + mu * al - (mu * al) ** 2)
         + (2 * al / mu) * (1 + mu * al) * (1 - d0) * B**2,
         (1 + mu * al) * al * d1 * B**2 / (m * mu)],
        [c * R * m * d1 * al**2 * (z**2 + 2 * B**2 * (1 - d0)),
         (1 + r) / 2 + c * R * d1 * al**2 * (z**2 + 2 * B**2)],
    ]  # fmt: skip
    psi = [
        (2 * al / mu) * (1 + mu * al) * (1 - d0) * dl**2 + al**2 * d1 * sg**2 / m,
        m * al**2 * d1 * (c * R * dl**2 + sg**2),
    ]
    np.testing.assert_allclose(dspodfl.convex_matrix(s, al, c), phi, rtol=1e-12)
    np.testing.assert_allclose(dspodfl.convex_offset(s, al, c), psi, rtol=1e-12)
    S = 1 - 2 * B**2 / mu**2 * (1 - d0)
    pl = [
        [
            1 + 2 * B**3 / mu * (3 - 2 * d0) * al**2 - mu * al * S,
            B**2 * d1 / (2 * m) * al * (1 + 2 * B * al),
        ],
        [2 * c / mu * R * m * d1 * al**2 * (z**2 + 2 * B**2 * (1 - d0)), phi[1][1]],
    ]
    np.testing.assert_allclose(dspodfl_pl.pl_matrix(s, al, c), pl, rtol=1e-12)
    np.testing.assert_allclose(
        dspodfl_pl.pl_offset(s, al, c),
        [al * (1 - d0) * dl**2 + B / 2 * al**2 * (4 * (1 - d0) * dl**2 + d1 * sg**2 / m), psi[1]],
        rtol=1e-12,
    )


@given(settings(), st.floats(1e-4, 0.5))
def test_the_nonconvex_recursion(s, al):
    m, r, B, z, dl, sg, d0, d1 = s.m, s.rho, s.beta, s.zeta, s.delta, s.sigma, s.d_min, s.d_max
    R = (1 + r) / (1 - r)
    phi = [
        [
            al * (0.5 - z**2 * (1 - d0) - B * (1 + 2 * z**2 * (1 - d0)) * al),
            B**2 * d1 / (2 * m) * al * (1 + 2 * B * al),
        ],
        [16 * R * m * d1 * al**2 * z**2, (1 + r) / 2 + 8 * R * d1 * al**2 * B**2],
    ]
    np.testing.assert_allclose(nonconvex.nonconvex_matrix(s, al), phi, rtol=1e-12)
    psi = (
        al * ((1 - d0) * (1 + 2 * B * al) * dl**2 + B * al * d1 * sg**2 / (2 * m)),
        m * al**2 * d1 * (16 * R * dl**2 + sg**2),
    )
    np.testing.assert_allclose(nonconvex.nonconvex_offset(s, al), psi, rtol=1e-12)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


@given(seeds)
def test_the_constants_and_the_recursion_of_spod_gt(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 6))
    pairs = [
        (i, j)
        for i in range(m)
        for j in range(m)
        if i != j and (j == (i + 1) % m or rng.random() < 0.4)
    ]
    links = graphs.from_edges(m, pairs, directed=True).peers
    net = Mixing(links, 1 - 10.0 ** rng.uniform(-9, -4, len(links)))
    if max(net.rho_tilde) >= 1:
        return
    p, L, s0, s1, g0, g1, e = (rng.uniform(0.2, 1, m) for _ in range(7))
    who = recursion.Clients(p, L, s0, s1, g0, g1, e)
    k, phi, pi, every = recursion.kappas(net, who), net.phi, net.pi, range(m)
    A, B = net.rho_tilde
    zA, zB = net.rho_zero
    Lm = mean(L)
    b, ph = np.zeros((m, m)), np.zeros((m, m))
    b[links.dst, links.src], ph[links.dst, links.src] = links.b, net.ph
    k1 = max(p[i] / phi[i] * (2 * e[i] * s1[i] ** 2 * Lm**2 + 3 * L[i] ** 2) for i in every)
    k2 = (
        2 * mean(s1[i] ** 2 * p[i] * e[i] for i in every)
        + 3 * mean((1 - p[i]) * g1[i] ** 2 for i in every)
        + 3
    )
    off = max(pi[j] * mean(b[i, j] ** 2 * ph[i, j] * (1 - ph[i, j]) for i in every) for j in every)
    k3 = max(phi) * (max(pi) ** 2 / min(pi) + 2 * m * off)
    k4 = max(p[i] / phi[i] * (2 * e[i] * s1[i] ** 2 * Lm**2 + 5 * L[i] ** 2) for i in every)
    k5 = (
        2
        * mean(p[i] * (2 * s1[i] ** 2 * e[i] + 5 * (1 - p[i]) * g1[i] ** 2) for i in every)
        * Lm**2
    )
    k5 += 5 * mean(p[i] ** 2 * L[i] ** 2 for i in every)
    k6, k7 = (1 + A) / (1 - A), 2 * (m + 1) * (1 + B) / (1 - B)
    k8 = max(p[i] * (2 * e[i] * s1[i] ** 2 * Lm**2 + 3 * L[i] ** 2) for i in every)
    k9 = (m * (1 + 3 * zB) / (3 * k7 * B) + 1) * k4 * k6 + k5 / m
    k10 = 8 / (3 * k2 * k3) * max(phi[i] * pi[i] for i in every) / max(phi)
    by_hand = (k1, k2, k3, k4, k5, k6, k7, k8, k9, k10)
    assert (k.k1, k.k2, k.k3, k.k4, k.k5, k.k6, k.k7, k.k8, k.k9, k.k10) == pytest.approx(by_hand)
    eta = rng.uniform(0.5, 1, m) * 1e-6
    h = max(eta)
    psi11, psi12 = (1 + A) / 2 + m * k1 * k6 * k3 * h**2, k6 * k3 * h**2
    psi21 = k7 * k4 * (1 + psi11) + k7 * k5 * k3 * k1 * h**2 + m * k7 * k5 * zA
    psi22 = (1 + B) / 2 + k7 * k4 * psi12 + m * k7 * k5 * k3 * h**2
    np.testing.assert_allclose(
        recursion.psi_matrix(net, k, h), [[psi11, psi12], [psi21, psi22]], rtol=1e-12
    )
    S0 = mean(s0[i] ** 2 * p[i] * e[i] for i in every) + 3 * mean(
        (1 - p[i]) * g0[i] ** 2 for i in every
    )
    gam1, om1 = m**2 * k2 * k6 * k3 * h**2, m**2 * S0 * k6 * k3 * h**2
    gam2 = k7 * k4 * gam1 + 3 * m * k7 * mean(
        p[i] * (2 * s1[i] ** 2 * e[i] + 5 * (1 - p[i]) * g1[i] ** 2) for i in every
    )
    gam2 += m * k7 * k5 * k3 * k2 * h**2
    om2 = k7 * k4 * om1 + 2 * m * k7 * mean(
        p[i] * (s0[i] ** 2 * e[i] + 5 * (1 - p[i]) * g0[i] ** 2) for i in every
    )
    om2 += m * S0 * k7 * k5 * k3 * h**2
    gain = [
        m * pi[i] - 2 * s1[i] ** 2 * p[i] * e[i] - 3 * (1 - p[i]) * g1[i] ** 2 - 3 * zB * k2
        for i in every
    ]
    found = recursion.terms(net, who, eta)
    assert found.gamma == pytest.approx((gam1, gam2))
    assert found.omega == pytest.approx((om1, om2))
    assert found.psi0 == pytest.approx(((1 + 3 * zB) * k8 * h / 2, 3 * max(phi) * B * h / (2 * m)))
    assert found.gamma0 == pytest.approx(m / 2 * mean(phi[i] * eta[i] * gain[i] for i in every))
    loss = [s0[i] ** 2 * p[i] * e[i] + 3 * (1 - p[i]) * g0[i] ** 2 for i in every]
    assert found.omega0 == pytest.approx(
        m / 2 * (1 + 3 * zB) * mean(phi[i] * eta[i] * loss[i] for i in every)
    )


@given(st.integers(3, 9), st.floats(0.05, 1), st.data())
def test_c_one_on_any_regular_graph(m, p, data):
    d = 2 * data.draw(st.integers(1, (m - 1) // 2))
    t = data.draw(st.integers(1, d))
    links = graphs.from_edges(
        m, [(i, (i + h) % m) for i in range(m) for h in range(1, d // 2 + 1)]
    ).peers
    z = pame.zeta(links).printed
    quiet = (1 - p) ** t
    c = 0.0
    for r in range(1, t + 1):
        c += math.comb(t, r) * p**r * (1 - p) ** (t - r) * (t - r) / (r * (t - 1)) if t > 1 else 0.0
    xi = (1 - quiet) * (d - t) / (d * t * (d - 1)) if d > 1 else 0.0
    by_hand = quiet * (1 + z) ** 2 + sum(c / d + xi for _ in range(d))
    assert pame.c_one(links, np.full(m, t), p, z) == pytest.approx(by_hand, abs=1e-12)
