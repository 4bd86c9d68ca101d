"""What Spod-GT, MLL-SGD, DEPOSITUM and PaME print, evaluated from their texts in plain Python.

`.printed` is that, slips and all; the letters are the papers'.
"""

import importlib
import inspect
import math
import pkgutil
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.papers import theorems
from peerloom.papers.theorems import depositum, mll_sgd, pame
from peerloom.papers.theorems import spod_gt_recursion as recursion
from peerloom.papers.theorems.spod_gt import Mixing
from tests.builders import seeds

f = st.floats

# Every function that has a `printed` value, and what it was compared with: here, and for DSpodFL in
# test_printed_dspodfl.py.
COMPARED = {
    "dspodfl.convex_step": "DSpodFL, Proposition 4.10",
    "dspodfl.convex_bound": "DSpodFL, eq. (9)",
    "dspodfl.convex_gap": "DSpodFL, eq. (10) and F.3",
    "dspodfl_nonconvex.nonconvex_step": "DSpodFL, Proposition G.6",
    "dspodfl_nonconvex.nonconvex_bound": "DSpodFL, Theorem 4.12",
    "dspodfl_nonconvex.nonconvex_gap": "DSpodFL, Theorem 4.12, limit",
    "dspodfl_nonconvex.diminishing_convex_step": "DSpodFL, Corollary I.2",
    "dspodfl_nonconvex.diminishing_step": "DSpodFL, Corollary K.3",
    "dspodfl_nonconvex.diminishing_bound": "DSpodFL, L.3, last display",
    "dspodfl_pl.pl_step": "DSpodFL, Proposition M.5",
    "dspodfl_pl.pl_gap": "DSpodFL, eq. (35)",
    "spod_gt.Mixing.models": "Spod-GT, eq. (28)",
    "spod_gt.Mixing.trackers": "Spod-GT, eq. (29)",
    "spod_gt_recursion.step_bound": "Spod-GT, eq. (14)",
    "spod_gt_recursion.participation": "Spod-GT, eqs. (15), (16)",
    "spod_gt_recursion.final_bound": "Spod-GT, eq. (94)",
    "mll_sgd.gamma": "MLL-SGD, Theorem 1",
    "mll_sgd.step": "MLL-SGD, eq. (12)",
    "mll_sgd.bound": "MLL-SGD, eq. (13)",
    "mll_sgd.gap": "MLL-SGD, eq. (14)",
    "mll_sgd.corollary_step": "MLL-SGD, Corollary 1",
    "depositum.alpha_limit": "DEPOSITUM, Theorem 1",
    "depositum.beta_limit": "DEPOSITUM, Theorem 1",
    "depositum.theorem": "DEPOSITUM, eqs. (22), (23)",
    "pame.zeta": "PaME, eq. (6)",
    "pame.growth": "PaME prints none that can hold",
    "pame.printed_condition": "PaME, eq. (12)",
}


def test_every_printed_value_was_compared():
    found = set()
    for module in pkgutil.iter_modules(theorems.__path__):
        inside = importlib.import_module(f"{theorems.__name__}.{module.name}")
        owners = [("", inside)] + [
            (f"{name}.", kind)
            for name, kind in vars(inside).items()
            if inspect.isclass(kind) and kind.__module__ == inside.__name__
        ]
        for prefix, owner in owners:
            for name, made in vars(owner).items():
                if not inspect.isfunction(made) or made.__module__ != inside.__name__:
                    continue
                if "Bound" in str(made.__annotations__.get("return")) and name[0] != "_":
                    found.add(f"{module.name}.{prefix}{name}")
    assert found == set(COMPARED)


# Spod-GT


def sparse_digraph(rng, m):
    pairs = [
        (i, j)
        for i in range(m)
        for j in range(m)
        if i != j and (j == (i + 1) % m or rng.random() < 0.4)
    ]
    return graphs.from_edges(m, pairs, directed=True).peers


def mean(values):
    values = list(values)
    return sum(values) / len(values)


@given(seeds, f(0.05, 0.95))
def test_spod_gt_lemma_b4(seed, least):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 6))
    links = sparse_digraph(rng, m)
    net = Mixing(links, rng.uniform(least, 1, len(links)))
    phi, pi, (D, K) = net.phi, net.pi, net.paths
    a, b, p = links.a, links.b, net.ph
    A = 1 - min(phi) * min(a * p) ** 2 / (max(phi) ** 2 * D * K)  # Lemma B.3
    B = 1 - min(pi) ** 2 * min(b * p) ** 2 / (max(pi) ** 3 * D * K)
    A0 = 4 * (m - 1) * max(phi) / min(phi) * max(a**2 * p * (1 - p))
    B0 = 2 * (m - 1) * max(pi) / min(pi) * max(b**2 * p * (1 - p))
    assert net.models().printed == pytest.approx(A + A0)
    assert net.trackers().printed == pytest.approx(B + B0)
    assert net.models().holds == (A0 <= (1 - A) / 4)
    assert net.trackers().holds == (B0 <= (1 - B) / 2)


@given(seeds, f(1.1, 4), f(1.1, 4))
def test_spod_gt_propositions_48_and_49_and_equation_94(seed, G2, G3):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 6))
    links = sparse_digraph(rng, m)
    net = Mixing(links, 1 - 10.0 ** rng.uniform(-9, -4, len(links)))
    if max(net.rho_tilde) >= 1:
        return
    p, L, s0, s1, g0, g1, e = (rng.uniform(0.2, 1, m) for _ in range(7))
    who, every = recursion.Clients(p, L, s0, s1, g0, g1, e), range(m)
    k, (A, B), (A0, B0) = recursion.kappas(net, who), net.rho_tilde, net.rho_zero
    phi, pi = net.phi, net.pi
    step = recursion.step_bound(net, who)
    assert step.printed == pytest.approx(  # (14), with its second entry
        1 / (2 * sqrt(k.k3)) * min(
            1 / (4 * sqrt(m + 1)) * (1 - A) / sqrt(1 + A) * (1 - B) / sqrt(1 + B),
            1 / sqrt(2 * k.k4 + m * k.k5 * A0),
            sqrt(1 - A) / sqrt(k.k5),
            1 / (2 * sqrt(m * (m + 1))) * (1 - B) / sqrt(1 + B) / sqrt(k.k5),
        )
    )  # fmt: skip
    eta = rng.uniform(0.5, 1, m) * 0.5 * step.truth
    h, D = max(eta), 1000.0
    rho = max(abs(np.linalg.eigvals(recursion.psi_matrix(net, k, h))))
    both = phi * pi
    G1 = 1 + 8 * G3 / m * max(both) / min(both) * G2 * k.k7 * B / (1 - rho)  # before (15), and (89)
    found = recursion.participation(net, who, eta, np.full(m, D), G2, G3)
    assert found["compute"].printed == pytest.approx(
        max(0, *(1 - m * pi[i] / (9 * G1 * g1[i] ** 2) for i in every))
    )
    assert found["batch"].printed == pytest.approx(
        max(D / (1 + m * pi[i] / (6 * G1 * s1[i] ** 2) * D) for i in every)
    )
    tau = min(2 * m / (9 * (m - 1) * k.k2 * G1 * b**2) * min(pi) ** 2 / max(pi) for b in links.b)
    r_b = (1 + sqrt(max(0, 1 - tau))) / 2
    roots = [1 - 10**log for log in net.least_probability()]
    assert found["links"].printed == pytest.approx(max(*roots, r_b))
    assert found["evenness"].printed == pytest.approx(1 / G3)
    k9 = (m * (1 + 3 * B0) / (3 * k.k7 * B) + 1) * k.k4 * k.k6 + k.k5 / m
    k10 = 8 / (3 * k.k2 * k.k3) * max(both) / max(phi)
    assert found["step"].printed == pytest.approx(sqrt((1 - 1 / G3) / G1 * k10 / k9 * (1 - rho)))
    q = m**2 / 2 * (1 - 1 / G1) * (1 - 1 / G2) / G3 * min(both)  # Proposition 4.9
    five = mean(s0[i] ** 2 * p[i] * e[i] + 5 * (1 - p[i]) * g0[i] ** 2 for i in every)
    three = mean(s0[i] ** 2 * p[i] * e[i] + 3 * (1 - p[i]) * g0[i] ** 2 for i in every)
    value = 2.0 / (q * h * 11) + (1 + 3 * B0) * k.k8 / (2 * q * (1 - rho)) * 0.3 / 11
    value += 3 * max(phi) * B / (2 * m * q * (1 - rho)) * 0.7 / 11
    value += max(phi) / q * (m * (1 + 3 * B0) / 2 + 3 * k.k7 * B / (1 - rho)) * five
    last = 3 * m * max(phi) / (2 * q) * k9 * k.k3 * k.k7 * B * three * h**2
    bound = recursion.final_bound(net, who, h, 10, 2.0, (0.3, 0.7), G2, G3)
    assert bound.printed == pytest.approx(value + last, rel=1e-6)
    assert bound.truth == pytest.approx(value + last / (1 - rho), rel=1e-6)


# MLL-SGD


def test_mll_sgd_prints_a_gamma_of_its_own_in_condition_12():
    s = mll_sgd.Setting(0.0, 8, 4, np.full(100, 0.01), np.ones(100), 1.0, 1.0)
    assert mll_sgd.step(s).printed == pytest.approx(0.007782, abs=1e-6)


@given(f(0, 0.95), st.integers(1, 9), st.integers(1, 9), f(0, 2), f(0.1, 9), seeds)
def test_mll_sgd_condition_12(z, tau, q, beta, L, seed):
    rng = np.random.default_rng(seed)
    a, p = rng.uniform(0.01, 1, 5), rng.uniform(0.59, 1, 5)
    a /= a.sum()
    s = mll_sgd.Setting(z, tau, q, a, p, L, 0.7, beta)
    G = z / (1 - z**2) + 2 / (1 - z) + z / (1 - z) ** 2  # Theorem 1
    proved = 1 / (1 - z**2) + 2 / (1 - z) + z / (1 - z) ** 2  # (186)
    assert (mll_sgd.gamma(z).printed, mll_sgd.gamma(z).truth) == pytest.approx((G, proved))

    def left_over(eta, factor, Gamma):
        return [
            4 * p[i] - p[i] ** 2 - 2
            - eta * L * (a[i] * p[i] * (beta + 1) - a[i] * p[i] ** 2 + p[i] ** 2)
            - factor(p[i]) * L**2 * eta**2 * q**2 * tau**2 * Gamma
            for i in range(5)
        ]  # fmt: skip

    found = mll_sgd.step(s)
    # The largest step leaves nothing over for one worker, and no less for any other.
    assert min(left_over(found.printed, lambda p: 8, G)) == pytest.approx(0, abs=1e-9)
    proof = left_over(found.truth, lambda p: 4 * (p * (beta - 1) + 2), proved)
    assert min(proof) == pytest.approx(0, abs=1e-9)


@given(f(0, 0.95), st.integers(1, 9), st.integers(1, 9), f(0.01, 1), st.integers(1, 10**5))
def test_mll_sgd_bounds_13_and_14(z, tau, q, eta, K):
    rng = np.random.default_rng(K)
    a, p = rng.uniform(0, 1, 5), rng.uniform(0.6, 1, 5)
    a /= a.sum()
    s, L, sigma = mll_sgd.Setting(z, tau, q, a, p, 2.0, 0.7), 2.0, 0.7
    P = sum(a[i] * p[i] for i in range(5))
    noise = sigma**2 * eta * L * sum(a[i] ** 2 * p[i] for i in range(5))
    across = z**2 / (1 - z**2) + 2 * z / (1 - z) + 1 / (1 - z) ** 2
    inside = tau**2 * (q - 1) * (2 * q + 1) / 6 + (tau - 1) * (2 * tau + 1) / 6
    last = 4 * L**2 * eta**2 * sigma**2 * (2 - z) / (1 - z) * inside * P
    third = 4 * L**2 * eta**2 * sigma**2 * q**3 * tau**3 * (1 / (q * tau) - 1 / K) * across * P
    assert mll_sgd.bound(s, eta, K, 3.0).printed == pytest.approx(
        2 * 3.0 / (eta * K) + noise + third + last
    )
    assert mll_sgd.gap(s, eta).printed == pytest.approx(
        noise + 4 * L**2 * eta**2 * sigma**2 * q**2 * tau**2 * across * P + last
    )
    found = mll_sgd.corollary_step(L, K, tau, q)
    assert found.printed == pytest.approx(1 / (L * sqrt(K)))
    assert found.holds == (q**2 * tau**2 <= sqrt(K) and q * tau < K)


# DEPOSITUM

lambdas = st.one_of(st.just(0.0), f(0.01, 0.99))


@given(lambdas, st.integers(1, 30), f(0, 0.02), f(0, 0.9), st.booleans(), st.integers(1, 50))
def test_depositum_theorem_1(lam, T0, alpha, gamma, nesterov, n):
    alpha, rho, L, beta, B, sigma, T = max(alpha, 1e-6), 0.5, 3.0, 1e-4, 16, 0.7, 99

    def delta_1(exponent):  # before Proposition 2; in the supplement the exponent is 2 T0 + 2
        if lam == 0:
            return T0**T0 * (1 - alpha * rho) ** exponent / (1 + T0) ** (T0 + 1)
        return lam * (1 - lam) * ((1 - alpha * rho) ** 2 - lam ** (1 / T0))

    root = lam ** (1 / T0)
    d2 = lam * (1 - lam) * (1 - root) if lam else T0**T0 / (1 + T0) ** (T0 + 1)
    w = (1 + 3 * gamma) / (1 - gamma) if nesterov else 1

    def largest(n, d1):
        return sqrt(8 * d1 * d2 * (96 * n - 71) / (9 * w * T0 * (11 * d1 + 6 * T0 + 2 * n * T0)))

    limit = depositum.beta_limit(n, lam, T0, gamma, alpha * rho, nesterov)
    if delta_1(1) <= 0:
        assert limit.printed is None
        return
    assert limit.printed == pytest.approx(largest(n, delta_1(T0 + 1)))
    assert limit.truth == pytest.approx(largest(1, delta_1(2 * T0 + 2)))  # E-P9, E-P2
    step = depositum.alpha_limit(L, gamma, rho, nesterov).printed
    middle = 24 * (gamma**2 if nesterov else gamma) * L
    assert step == pytest.approx(
        min(1 / (16 * L), (1 - gamma) / middle if middle else math.inf, 1 / (48 * rho))
    )

    def bound(d1):  # (22), (23)
        return (
            8 * 2.0 / (alpha * (T + 1)) + 142 * 0.3**2 / ((1 - gamma) * (T + 1))
            + (426 if nesterov else 142) * (1 - gamma) * sigma**2 / (n * B)
            + 512 * w * T0 * d1 * beta**2 * sigma**2 * (11 + 359 * T0 / (48 * d1))
            / (256 * B * d1 * d2 - 6 * w * B * beta**2 * T0**2)
        )  # fmt: skip

    found = depositum.theorem(
        n, lam, T0, alpha, beta, T, 2.0, sigma,
        gamma=gamma, batch=B, first_gradient=0.3, rho=rho, L=L, nesterov=nesterov,
    )  # fmt: skip
    for value, exponent in ((found.printed, T0 + 1), (found.truth, 2 * T0 + 2)):
        d1 = delta_1(exponent)
        if 256 * d1 * d2 <= 6 * w * beta**2 * T0**2:
            assert value is None
        else:
            assert value == pytest.approx(bound(d1), rel=1e-6)


@given(f(0.01, 0.99), st.integers(1, 20), st.integers(1, 50), st.integers(60, 10**5))
def test_depositum_corollary_1(lam, T0, n, T):
    L, w = 3.0, None
    for nesterov, c in ((False, 142), (True, 426)):
        found = depositum.corollary(n, L, lam, T0, T, nesterov=nesterov)
        assert found.alpha == pytest.approx(sqrt(n) / (24 * L * sqrt(T + 1)))
        assert 1 - found.gamma == pytest.approx(sqrt(n) / sqrt(T + 1))
        assert found.batch == round(sqrt(n))
        d1 = d2 = lam * (1 - lam) * (1 - lam ** (1 / T0))
        w = (1 + 3 * found.gamma) / (1 - found.gamma) if nesterov else 1
        below = w * (1584 * d1 + 1077 * T0) * sqrt(T0 * (T + 1)) + 75 * w * T0**2
        assert found.beta**2 == pytest.approx(3200 * d1 * d2 / below)
        rooted = sqrt(n * (T + 1))
        assert depositum.corollary_bound(n, L, T0, T, 2.0, 0.7, 0.3, nesterov) == pytest.approx(
            (192 * L * 2.0 + 142 * 0.3**2) / rooted
            + 400 * 0.7**2 * sqrt(T0) / (9 * rooted)
            + c * 0.7**2 / (n * sqrt(T + 1))
        )  # (24), (25)


# PaME


@given(st.integers(3, 12), f(0.05, 1), f(1, 1.2), st.integers(1, 8), st.data())
def test_pame_condition_12(m, p, gamma, k0, data):
    links = graphs.complete(m).peers
    t = np.full(m, data.draw(st.integers(1, m - 1)))
    z = pame.zeta(links).printed
    B = (np.ones((m, m)) - np.eye(m)) / (m - 1)
    assert z == pytest.approx(sorted(abs(np.linalg.eigvals(B)))[-2])
    found = pame.printed_condition(links, t, p, z, gamma, k0)
    nu = t[0] / (m - 1)  # t_j = nu_j |N_j|
    assert found.printed == pytest.approx(
        (1 - p) ** t[0] * (1 + z) ** 2 + 2 * p * sum(nu for _ in range(m - 1))
    )
    assert found.truth == pytest.approx((gamma ** (-k0 / 2) - z) ** 2)
    assert pame.growth(links, t, p, k0).printed is None


@given(st.integers(2, 50), st.integers(1, 9), f(0.1, 2), st.integers(1, 7), f(0.5, 0.9))
def test_pame_constants_of_the_supplement(m, k0, eps, t, total):
    n, sigma, gamma = 30, 1.3, 1 + 0.5 * (total ** (-2 / k0) - 1)
    found = pame.rates(m, n, eps, sigma, t, total, gamma, k0)
    Gamma = m * n * eps**2 / (sigma**2 * t**2)  # (58)
    r1, r2 = 1 + found.iota, 1 + 1 / found.iota  # (60)
    assert 0 < found.iota < 1 / (gamma * total ** (2 / k0)) - 1  # (59)
    M = (r1 * total**2 * r1 ** (k0 - 1)) ** (1 / k0)  # (67)
    inside = sum(r1 ** (k0 - 1 - j) / gamma ** (2 * j) for j in range(1, k0))
    P = r2 * Gamma * (r1 ** (k0 - 1) + inside)
    assert abs(found.M - M) < 1e-12
    assert abs(found.P / P - 1) < 1e-12
    assert found.Q_printed == pytest.approx(P / abs(M - gamma**-2))  # (70)
    assert found.phi == pytest.approx(max(M, gamma**-2))
    c2, beta = found.C2, found.beta
    assert c2 == pytest.approx((found.Q + P) / found.phi**k0)  # (71)
    first = gamma / (gamma - 1) * 4 * m * n * eps**2 / (sigma * t)  # (73)
    second = beta / gamma / (beta / gamma - 1) * 4 * (1 + gamma) * m * sigma * c2 / beta
    third, fourth = found.C, found.D
    assert (third, fourth) == pytest.approx((first, second))
    assert pame.sigma_least(2.0, eps, gamma, 10.0, t) == pytest.approx(  # (13)
        max(4 * 2.0, eps * gamma / ((gamma - 1) * 10.0 * t))
    )
    assert pame.path_length(sigma, gamma, t) == pytest.approx(  # (40)
        1 / (sigma * t) * gamma / (gamma - 1)
    )
    assert pame.message_bits(n, 7) == (64 * 7 + n - 7)  # (8)
