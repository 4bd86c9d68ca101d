"""What DSpodFL prints, evaluated from its text: `.printed` is that, slips and all.

Letters as in the paper; al for alpha, d0 and d1 for d_min and d_max.
"""

import math
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.papers.theorems import dspodfl, dspodfl_pl
from peerloom.papers.theorems import dspodfl_nonconvex as nonconvex
from tests.builders import dspodfl_setting

f = st.floats
steps = f(1e-4, 0.5)
free = st.builds(
    nonconvex.Free, g0=f(1.1, 5), g1=f(1.1, 5), g2=f(1.1, 5), g3=f(0.1, 5), g4=f(1.1, 5)
)


@st.composite
def settings(draw, *, condition=(0.01, 1), d_min=(0.3, 0.9)):
    """`condition` is the range of mu / beta."""
    beta = draw(f(0.1, 9))
    return dspodfl.Setting(
        m=draw(st.integers(2, 40)), rho=draw(f(0, 0.95)), beta=beta,
        mu=beta * draw(f(*condition)), zeta=draw(f(0.05, 3)), delta=draw(f(0, 5)),
        sigma=draw(f(0, 5)), d_min=draw(f(*d_min)), d_max=draw(f(0.9, 1)),
    )  # fmt: skip


def letters(s):
    return s.m, s.rho, s.beta, s.mu, s.zeta, s.delta, s.sigma, s.d_min, s.d_max


@given(settings())
def test_proposition_4_10(s):
    _, r, B, mu, z, _, _, d0, d1 = letters(s)
    printed = min(
        1 / mu,
        1 / (2 * sqrt(3 * d1)) * (1 - r) / sqrt(1 + r) / sqrt(z**2 + 2 * B**2),
        (mu / (12 * (z**2 + 2 * B**2 * (1 - d0)))) ** (1 / 3) * ((1 - r) / (2 * d1 * B)) ** (2 / 3),
    )
    assert dspodfl.convex_step(s).printed == pytest.approx(printed)


def recursion(s, al, c):
    """Phi and Psi of Lemmas 4.7 and 4.8, which print c = 3."""
    m, r, B, mu, z, dl, sg, d0, d1 = letters(s)
    R = (1 + r) / (1 - r)
    phi = [
        [1 - mu * al * (1 + mu * al - (mu * al) ** 2)
         + 2 * al / mu * (1 + mu * al) * (1 - d0) * B**2,
         (1 + mu * al) * al * d1 * B**2 / (m * mu)],
        [c * R * m * d1 * al**2 * (z**2 + 2 * B**2 * (1 - d0)),
         (1 + r) / 2 + c * R * d1 * al**2 * (z**2 + 2 * B**2)],
    ]  # fmt: skip
    psi = [
        2 * al / mu * (1 + mu * al) * (1 - d0) * dl**2 + al**2 * d1 * sg**2 / m,
        m * al**2 * d1 * (c * R * dl**2 + sg**2),
    ]
    return phi, psi


@given(settings(condition=(0.5, 1), d_min=(0.97, 1)), f(0.01, 3), st.integers(0, 50))
def test_equation_9(s, share, K):
    step = dspodfl.convex_step(s)
    al = share * (step.truth or step.printed)
    start = (2.0, 3.0)
    error, apart = dspodfl.convex_bound(s, al, K, start)
    (a, b), (c, d) = recursion(s, al, 3)[0]
    rho = (a + d + sqrt((a - d) ** 2 + 4 * b * c)) / 2  # F.3, step 5
    for found, first, psi in zip((error, apart), start, recursion(s, al, 3)[1], strict=True):
        if rho >= 1:
            assert found.printed is None
        else:
            assert found.printed == pytest.approx(rho ** (K + 1) * first + psi / (1 - rho))
    phi, psi = (np.array(part) for part in recursion(s, al, 6))
    if max(abs(np.linalg.eigvals(phi))) >= 1:
        assert (error.truth, error.holds) == (math.inf, False)
        return
    nu = np.array(start)
    for _ in range(K + 1):
        nu = phi @ nu + psi
    np.testing.assert_allclose([error.truth, apart.truth], nu, rtol=1e-6)


@given(settings(), steps)
def test_equation_10_has_the_constant_3(s, al):
    m, r, B, mu, z, dl, sg, d0, d1 = letters(s)
    R, Q, G0 = (1 + r) / (1 - r), z**2 + 2 * B**2 * (1 - d0), 1.7
    # Gamma_2* of F.3 as it is before it is simplified, for Gamma_1 = 1.
    one = sqrt(6) * d1 * sqrt(1 + r) * sqrt(Q) / (sqrt(1 - 1 / G0) * (1 - r))
    other = mu * (1 + r) / (4 * (1 + 1) * (1 - 1 / G0) * B**2)
    A = B**2 / mu * (((one * other) ** (2 / 3) + 1) - 1) * (1 - 1 / G0)
    error, apart = dspodfl.convex_gap(s, al)
    assert error.printed == pytest.approx(
        (2 / mu * (1 + mu * al) * (1 - d0) * dl**2 + al * sg**2 / m) / (2 * A)
    )
    assert apart.printed == pytest.approx(m * al * (3 * R * dl**2 + sg**2) / (2 * A))


@given(settings(), steps, free)
def test_theorem_4_12_and_proposition_g_6(s, al, g):
    m, r, B, _, z, dl, sg, d0, d1 = letters(s)
    step = nonconvex.nonconvex_step(s, g)
    if d0 < 1 - 1 / (2 * g.g0 * z**2):
        assert step.printed is None
        assert nonconvex.nonconvex_bound(s, al, 9, 2.0, 3.0, g).printed is None
        return
    R, left = (1 + r) / (1 - r), 1 / 2 - z**2 * (1 - d0)
    assert step.printed == pytest.approx(
        min(
            g.g3 / (2 * B),
            1 / g.g1 * (1 - r) / (4 * B * sqrt(d1 * (1 + r))),
            1 / g.g2 * left / (B * (1 + 2 * z**2 * (1 - d0))),
            sqrt((1 - 1 / g.g1**2) * (1 - 1 / g.g2)) * sqrt(left) / (4 * g.g4 * sqrt(1 + g.g3))
            * (1 - r) / (d1 * z * B * sqrt(1 + r)),
        )
    )  # fmt: skip
    w3, w4 = m * d1 * (16 * R * dl**2 + sg**2), (1 + g.g3) * dl**2
    w5, common = B * d1 * sg**2 / (2 * m), (1 - 1 / g.g2) * (1 - 1 / g.g4**2)

    def value(w1, w2, K):
        start = 2.0 / (al * (K + 1)) + 3.0 * w2 / (K + 1) if K is not None else 0.0
        return 1 / w1 * (start + al**2 * w2 * w3 + (1 - d0) * w4 + al * w5)

    printed = (
        1 / 2 * (1 - 1 / g.g0) * common,
        B**2 * d1 * (1 + g.g3) / (m * (1 - r) * (1 - 1 / g.g1)),
    )
    derived = (left * common, B**2 * d1 * (1 + g.g3) / (m * (1 - r) * (1 - 1 / g.g1**2)))
    found = nonconvex.nonconvex_bound(s, al, 9, 2.0, 3.0, g)
    assert (found.printed, found.truth) == pytest.approx((value(*printed, 9), value(*derived, 9)))
    gap = nonconvex.nonconvex_gap(s, al, g)
    assert (gap.printed, gap.truth) == pytest.approx(
        (value(*printed, None), value(*derived, None)), abs=1e-12
    )


@given(settings(), steps, free, f(0.5, 50), st.integers(1, 10**6))
def test_appendices_i_and_k(s, a0, g, gamma, k):
    """Corollaries I.2 and K.3, and the end of L.3: the paper prints eta_min and 1 - d_max."""
    m, r, B, mu, z, dl, sg, d0, d1 = letters(s)
    R = (1 + r) / (1 - r)
    G1 = 0.5 / (1 + 2 * B**2 * (1 - d0) / a0 / mu**2)

    def convex(eta):
        return min(
            G1 / mu,
            1 / (2 * sqrt(3)) * (1 - r) / sqrt(1 + r) / sqrt(z**2 + 2 * B**2),
            (mu / (6 * (z**2 + 2 * eta * G1 * B**2 / mu) * (1 + G1))) ** (1 / 3)
            * ((1 - r) / (2 * B)) ** (2 / 3),
        )  # fmt: skip

    def rough(eta):
        return min(
            g.g3 / (2 * B),
            1 / g.g1 * (1 - r) / (4 * B * sqrt(1 + r)),
            1 / g.g2 * (1 / 2) / (z**2 * eta + B * (1 + 2 * z**2 * eta)),
            sqrt((1 - 1 / g.g1**2) * (1 - 1 / g.g2)) / (4 * sqrt(2) * g.g4 * sqrt(1 + g.g3))
            / (z * B) * (1 - r) / sqrt(1 + r),
        )  # fmt: skip

    def theorem(one_less_d):
        w1 = 1 / 2 * (1 - 1 / g.g2) * (1 - 1 / g.g4**2)
        w2 = B**2 * (1 + g.g3) / (m * (1 - r) * (1 - 1 / g.g1**2))
        w3 = m * (16 * R * dl**2 + sg**2)
        w4 = one_less_d / a0 * (1 + g.g3) * dl**2 + B * sg**2 / (2 * m)
        inside = 2.0 + a0 * w2 * 3.0 + w2 * w3 * a0**3 * (1 + 2 * gamma)
        inside += w4 * a0**2 * (1 + gamma * math.log(1 + k / gamma))
        return inside / (2 * w1 * a0 * (sqrt(1 + k / gamma) - 1))

    first = nonconvex.diminishing_convex_step(s, a0, G1)
    assert (first.printed, first.truth) == pytest.approx(
        (convex((1 - d1) / a0), convex((1 - d0) / a0))
    )
    second = nonconvex.diminishing_step(s, a0, g)
    assert (second.printed, second.truth) == pytest.approx(
        (rough((1 - d1) / a0), rough((1 - d0) / a0))
    )
    third = nonconvex.diminishing_bound(s, a0, gamma, k, 2.0, 3.0, g)
    assert third.printed == pytest.approx(theorem(1 - d1), rel=1e-6)
    assert third.truth == pytest.approx(theorem(1 - d0) / gamma, rel=1e-6)


@given(settings(condition=(0.6, 1), d_min=(0.6, 1)), steps)
def test_appendix_m(s, al):
    """Proposition M.5 and eq. (35)."""
    m, r, B, mu, z, dl, sg, d0, d1 = letters(s)
    S, R = 1 - 2 * B**2 / mu**2 * (1 - d0), (1 + r) / (1 - r)
    step, (error, apart) = dspodfl_pl.pl_step(s), dspodfl_pl.pl_gap(s, al)
    if S <= 0:
        assert (step.printed, error.printed) == (None, None)
        return
    assert step.printed == pytest.approx(
        min(
            S / (10 * (3 - 2 * d0)) * mu**2 / B**3,
            5 * (1 + r) / (8 * mu * S),
            1 / (6 * sqrt(2 * d1)) * mu / B**2 * (1 - r) / sqrt(1 + r)
            * sqrt(S / (1 + 2 * B**2 / z**2 * (1 - d0))),
        )
    )  # fmt: skip
    A = 2 * mu / 5 * S
    first = (1 - d0) * dl**2 + al * B / 2 * (4 * (1 - d0) * dl**2 + sg**2 / m)
    assert error.printed == pytest.approx(first / A)
    assert apart.printed == pytest.approx(m * al * (3 * R * dl**2 + sg**2) / A)


def test_appendix_m_without_growing_diversity():
    """The limit of Proposition M.5 as zeta falls to 0."""
    for d_min in (1.0, 0.9):
        found, near = (
            dspodfl_pl.pl_step(dspodfl_setting(mu=0.9, zeta=zeta, d_min=d_min))
            for zeta in (0.0, 1e-9)
        )
        assert found.printed == pytest.approx(near.printed, abs=1e-8)
        assert found.truth == pytest.approx(near.truth)
