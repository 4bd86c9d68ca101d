"""The theorems' long formulas again in plain loops, term by term, on random settings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.papers.theorems import dspodfl, dspodfl_pl, mll_sgd, pame
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


@given(settings())
def test_the_strongly_convex_and_pl_steps(s):
    r, B, mu, z, d0, d1 = s.rho, s.beta, s.mu, s.zeta, s.d_min, s.d_max
    printed = min(
        1 / mu,
        (1 / (2 * math.sqrt(3 * d1))) * ((1 - r) / math.sqrt(1 + r)) / math.sqrt(z**2 + 2 * B**2),
        (mu / (12 * (z**2 + 2 * B**2 * (1 - d0)))) ** (1 / 3) * ((1 - r) / (2 * d1 * B)) ** (2 / 3),
    )
    assert dspodfl.convex_step(s).printed == pytest.approx(printed)
    # Where PL has something to say.
    near = dspodfl.Setting(s.m, r, B, 0.9 * B, z, s.delta, s.sigma, 0.9, d1)
    S = 1 - 2 / 0.81 * 0.1
    by_hand = min(
        S * (0.9 * B) ** 2 / (10 * (3 - 1.8) * B**3),
        5 * (1 + r) / (8 * 0.9 * B * S),
        1
        / (6 * math.sqrt(2 * d1))
        * 0.9
        / B
        * (1 - r)
        / math.sqrt(1 + r)
        * math.sqrt(S / (1 + 2 * B**2 / z**2 * 0.1)),
    )
    assert dspodfl_pl.pl_step(near).printed == pytest.approx(by_hand)
    A = 2 * 0.9 * B / 5 * S
    gap = dspodfl_pl.pl_gap(near, 1e-6)
    first = 0.1 * s.delta**2 + 1e-6 * B / 2 * (0.4 * s.delta**2 + s.sigma**2 / s.m)
    assert gap[0].printed == pytest.approx(first / A)


@given(settings(), st.floats(1e-4, 0.5), st.integers(1, 10**6), st.floats(0, 9))
def test_the_nonconvex_theorem(s, al, K, drop):
    m, r, B, z, dl, sg, d0, d1 = s.m, s.rho, s.beta, s.zeta, s.delta, s.sigma, s.d_min, s.d_max
    R, left = (1 + r) / (1 - r), 0.5 - z**2 * (1 - d0)
    found = nonconvex.nonconvex_step(s)
    if d0 < 1 - 1 / (4 * z**2):
        assert found.printed is None
        return
    entries = [
        1 / (2 * B),
        (1 - r) / (8 * B * math.sqrt(d1 * (1 + r))),
        0.5 * left / (B * (1 + 2 * z**2 * (1 - d0))),
        math.sqrt((1 - 1 / 4) * 0.5)
        * math.sqrt(left)
        * (1 - r)
        / (8 * math.sqrt(2) * d1 * z * B * math.sqrt(1 + r)),
    ]
    assert found.printed == pytest.approx(min(entries))
    w1, w2 = left * 0.5 * 0.75, B**2 * d1 * 2 / (m * (1 - r) * 0.75)
    w3, w4, w5 = m * d1 * (16 * R * dl**2 + sg**2), 2 * dl**2, B * d1 * sg**2 / (2 * m)
    bound = (
        drop / (al * (K + 1)) + w2 * 3.0 / (K + 1) + al**2 * w2 * w3 + (1 - d0) * w4 + al * w5
    ) / w1
    assert nonconvex.nonconvex_bound(s, al, K, drop, 3.0).printed == pytest.approx(bound)
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


@given(settings(), st.floats(1e-4, 0.5), st.floats(0.5, 50), st.integers(1, 10**6))
def test_diminishing_steps(s, a0, gamma, k):
    m, r, B, mu, z, dl, sg, d0, d1 = letters(s)
    eta, R = (1 - d0) / a0, (1 + r) / (1 - r)
    g1 = 0.5 / (1 + 2 * B**2 * eta / mu**2)
    convex = min(
        g1 / mu,
        (1 / (2 * math.sqrt(3))) * ((1 - r) / math.sqrt(1 + r)) / math.sqrt(z**2 + 2 * B**2),
        (mu / (6 * (z**2 + 2 * eta * g1 * B**2 / mu) * (1 + g1))) ** (1 / 3)
        * ((1 - r) / (2 * B)) ** (2 / 3),
    )
    assert nonconvex.diminishing_convex_step(s, a0).printed == pytest.approx(convex)
    rough = min(
        1 / (2 * B),
        (1 - r) / (8 * B * math.sqrt(1 + r)),
        1 / (4 * (z**2 * eta + B * (1 + 2 * z**2 * eta))),
        math.sqrt(0.75 * 0.5)
        * (1 - r)
        / (4 * math.sqrt(2) * 2 * math.sqrt(2) * z * B * math.sqrt(1 + r)),
    )
    assert nonconvex.diminishing_step(s, a0).printed == pytest.approx(rough)
    w1, w2, w3 = (
        0.5 * 0.5 * 0.75,
        B**2 * d1 * 2 / (m * (1 - r) * 0.75),
        m * d1 * (16 * R * dl**2 + sg**2),
    )
    w4 = eta * 2 * dl**2 + B * sg**2 / (2 * m)
    above = (
        2.0
        + a0 * w2 * 3.0
        + w2 * w3 * a0**3 * (1 + 2 * gamma)
        + w4 * a0**2 * (1 + gamma * math.log(1 + k / gamma))
    )
    below = 2 * w1 * a0 * (math.sqrt(1 + k / gamma) - 1)
    assert nonconvex.diminishing_bound(s, a0, gamma, k, 2.0, 3.0).printed == pytest.approx(
        above / below, rel=1e-6
    )


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
    rho = max(abs(np.linalg.eigvals([[psi11, psi12], [psi21, psi22]])))
    if rho >= 1:
        return
    q = m**2 / 2 * 0.5 * 0.5 * 0.5 * min(phi[i] * pi[i] for i in every)
    more = mean(s0[i] ** 2 * p[i] * e[i] + 5 * (1 - p[i]) * g0[i] ** 2 for i in every)
    total = 2.0 / (q * h * 11) + (1 + 3 * zB) * k8 * 0.3 / (2 * q * (1 - rho) * 11)
    total += 3 * max(phi) * B * 0.7 / (2 * m * q * (1 - rho) * 11)
    total += max(phi) / q * (m * (1 + 3 * zB) / 2 + 3 * k7 * B / (1 - rho)) * more
    last = 3 * m * max(phi) / (2 * q) * k9 * k3 * k7 * B * mean(loss) * h**2
    bound = recursion.final_bound(net, who, h, 10, 2.0, (0.3, 0.7))
    assert bound.printed == pytest.approx(total + last, rel=1e-6)
    assert bound.truth == pytest.approx(total + last / (1 - rho), rel=1e-6)


@given(
    st.floats(0, 0.95),
    st.integers(1, 9),
    st.integers(1, 9),
    st.floats(0.01, 1),
    st.integers(1, 10**5),
)
def test_bounds_of_mll_sgd(z, tau, q, eta, K):
    rng = np.random.default_rng(K)
    a, p = rng.uniform(0, 1, 5), rng.uniform(0.6, 1, 5)
    a /= a.sum()
    s = mll_sgd.Setting(z, tau, q, a, p, 2.0, 0.7)
    P = sum(a[i] * p[i] for i in range(5))
    floor = 0.49 * eta * 2 * sum(a[i] ** 2 * p[i] for i in range(5))
    across = z**2 / (1 - z**2) + 2 * z / (1 - z) + 1 / (1 - z) ** 2
    inside = tau**2 * (q - 1) * (2 * q + 1) / 6 + (tau - 1) * (2 * tau + 1) / 6
    tail = 4 * 4 * eta**2 * 0.49 * (2 - z) / (1 - z) * inside * P

    def cross(per):
        return 4 * 4 * eta**2 * 0.49 * (q * tau) ** 3 * (1 / (q * tau) - per) * across * P

    assert mll_sgd.bound(s, eta, K, 3.0).printed == pytest.approx(
        6 / (eta * K) + floor + cross(1 / K) + tail
    )
    assert mll_sgd.gap(s, eta).printed == pytest.approx(floor + cross(0) + tail)


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
