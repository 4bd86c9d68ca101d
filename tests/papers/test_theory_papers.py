"""Reference values and counter-examples of the papers' theory, against plain loops."""

import itertools
import math
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import peerloom.theory.graph_facts as shape
from peerloom import graphs
from peerloom.papers.theorems import depositum, dspodfl, dspodfl_pl, mll_sgd, pame
from peerloom.papers.theorems import dspodfl_nonconvex as nonconvex
from peerloom.papers.theorems import spod_gt_recursion as recursion
from peerloom.papers.theorems.spod_gt import Mixing
from peerloom.theory import Bound, matrices
from peerloom.theory.graph_facts import diameter, distances, edge_utility, graph_facts
from tests.builders import directed_graphs, dspodfl_setting, seeds, undirected_graphs


def ones(graph):
    return np.ones(len(graph.peers))


def probabilities(graph, rng):
    """One per coin."""
    coins, at = np.unique(graph.peers.coin, return_inverse=True)
    return rng.uniform(0.05, 1, len(coins))[at]


def draws(links, p, kind):
    """Every outcome of the coins with its probability: P as the equations have it, in loops."""
    coins = np.unique(links.coin)
    for fell in itertools.product([0, 1], repeat=len(coins)):
        on, chance = dict(zip(coins, fell, strict=True)), 1.0
        for c in coins:
            b = p[links.coin == c][0]
            chance *= b if on[c] else 1 - b
        P = np.eye(links.rows)
        weight = links.a if kind == "a" else links.b
        for e in range(len(links)):
            i, j = links.dst[e], links.src[e]
            P[i, j] += weight[e] * on[links.coin[e]]
            keeper = i if kind == "a" else j
            P[keeper, keeper] -= weight[e] * on[links.coin[e]]
        yield chance, P


# DSpodFL


def path_of_three():
    # Links sorted by receiver: 1->0, 0->1, 2->1, 1->2.
    return graphs.path(3).peers, np.array([0.5, 0.5, 0.25, 0.25])


def test_second_moment_of_the_path():
    links, b = path_of_three()
    assert [(int(s), int(d)) for s, d in zip(links.src, links.dst, strict=True)] == [
        (1, 0),
        (0, 1),
        (2, 1),
        (1, 2),
    ]
    expected = [
        [0.777778, 0.208333, 0.013889],
        [0.208333, 0.694444, 0.097222],
        [0.013889, 0.097222, 0.888889],
    ]
    np.testing.assert_allclose(dspodfl.second_moment(links, b).toarray(), expected, atol=1e-6)
    assert dspodfl.rho_tilde(links, b) == pytest.approx(0.8495211814, abs=1e-10)
    assert dspodfl.rho_tilde(links, np.ones(4)) == pytest.approx(4 / 9)
    assert dspodfl.rho_tilde(links, np.array([0.5, 0.5, 0.0, 0.0])) == pytest.approx(1.0)


@given(undirected_graphs(most=5), seeds)
def test_second_moments_of_pulling_are_those_of_all_outcomes(graph, seed):
    links, rng = graph.peers, np.random.default_rng(seed)
    if len(np.unique(links.coin)) > 7:
        return
    p, weight = probabilities(graph, rng), rng.uniform(0.1, 1, graph.rows)
    mean = sum(chance * P for chance, P in draws(links, p, "a"))
    moment = sum(chance * P.T @ np.diag(weight) @ P for chance, P in draws(links, p, "a"))
    np.testing.assert_allclose(matrices.expected(links, p, "a").toarray(), mean, atol=1e-12)
    found = matrices.pull_moment(links, p, weight)
    np.testing.assert_allclose(found.matrix().toarray(), moment, atol=1e-12)
    x = rng.normal(size=graph.rows)
    np.testing.assert_allclose(found(x), moment @ x, atol=1e-12)


@given(st.one_of(undirected_graphs(most=4), directed_graphs(most=4)), seeds)
def test_second_moments_of_pushing_are_those_of_all_outcomes(graph, seed):
    links, rng = graph.peers, np.random.default_rng(seed)
    if len(np.unique(links.coin)) > 7:
        return
    p, weight = probabilities(graph, rng), rng.uniform(0.1, 1, graph.rows)
    moment = sum(chance * P.T @ np.diag(weight) @ P for chance, P in draws(links, p, "b"))
    np.testing.assert_allclose(
        matrices.push_moment(links, p, weight).matrix().toarray(), moment, atol=1e-12
    )


@given(undirected_graphs(), seeds)
def test_with_sure_links_the_contraction_is_the_square_of_the_second_modulus(graph, seed):
    links = graph.peers
    lam = matrices.second_modulus(links.matrix())
    assert dspodfl.rho_tilde(links, ones(graph)) == pytest.approx(lam**2, abs=1e-9)
    less = dspodfl.rho_tilde(links, probabilities(graph, np.random.default_rng(seed)))
    assert less <= 1 + 1e-9


@pytest.mark.parametrize(
    "graph",
    [graphs.ring(700), graphs.regular(700, 4, seed=1), graphs.star(700)],
    ids=lambda g: g.name,
)
def test_large_graphs_give_what_small_ones_would(graph, monkeypatch):
    links, p = graph.peers, probabilities(graph, np.random.default_rng(0))
    sparse = dspodfl.rho_tilde(links, p), matrices.second_modulus(matrices.expected(links, p))
    monkeypatch.setattr(matrices, "DENSE", 1000)
    assert sparse[0] == pytest.approx(dspodfl.rho_tilde(links, p), abs=1e-7)
    assert sparse[1] == pytest.approx(
        matrices.second_modulus(matrices.expected(links, p)), abs=1e-7
    )
    phi = matrices.left_perron(matrices.expected(links, p))
    np.testing.assert_allclose(phi, 1 / 700, rtol=1e-6)


def test_proposition_410_is_not_valid():
    for changes, bound, radius in (
        ({"mu": 1.0, "d_min": 0.6}, None, 1.0169),
        ({"mu": 0.1, "d_min": 1.0}, 0.0785674, 1.0517),
    ):
        s = dspodfl_setting(**changes)
        step = dspodfl.convex_step(s)
        if bound:
            assert step.printed == pytest.approx(bound, abs=1e-7)
        assert dspodfl.rho_phi(s, 0.99 * step.printed, c=3) == pytest.approx(radius, abs=1e-4)
    assert dspodfl.alpha_max(dspodfl_setting(mu=0.1, d_min=0.9), c=3) is None
    none = dspodfl.convex_step(dspodfl_setting(mu=0.1, d_min=0.9))
    assert none.truth is None
    assert not none.holds


@given(
    st.floats(0, 0.95),
    st.floats(0.05, 1),
    st.floats(0, 2),
    st.floats(0.5, 1),
    st.sampled_from([3, 6]),
    st.integers(2, 30),
)
def test_the_largest_step_is_where_the_recursion_stops_to_shrink(rho, mu, zeta, d_min, c, m):
    s = dspodfl_setting(m=m, rho=rho, mu=mu, zeta=zeta, d_min=d_min)
    largest = dspodfl.alpha_max(s, c)
    if largest is None:
        assert all(dspodfl.rho_phi(s, a, c) >= 1 for a in np.logspace(-8, 0, 50) * 2 / (1 + mu))
        return
    assert dspodfl.rho_phi(s, largest * (1 - 1e-9), c) < 1
    limit = 2 / (mu + 1)
    assert largest == pytest.approx(limit) or dspodfl.rho_phi(s, largest * 1.001, c) >= 1 - 1e-9
    phi = dspodfl.convex_matrix(s, largest / 2, c)
    assert dspodfl.rho_phi(s, largest / 2, c) == pytest.approx(np.abs(np.linalg.eigvals(phi)).max())


def test_the_convex_gap_is_the_fixed_point_and_grows_with_the_step():
    s = dspodfl_setting(mu=0.9, zeta=0.1, d_min=1.0, rho=0.3)
    alpha = dspodfl.alpha_max(s) / 2
    error, apart = dspodfl.convex_gap(s, alpha)
    nu = np.array([error.truth, apart.truth])
    phi = dspodfl.convex_matrix(s, alpha)
    np.testing.assert_allclose(phi @ nu + dspodfl.convex_offset(s, alpha), nu, rtol=1e-9)
    smaller = dspodfl.convex_gap(s, alpha / 4)
    assert smaller[0].truth < error.truth
    assert smaller[1].truth < apart.truth
    late = dspodfl.convex_bound(s, alpha, 10**6, (1, 1))
    assert (late[0].truth, late[1].truth) == pytest.approx((error.truth, apart.truth))
    assert not dspodfl.convex_gap(dspodfl_setting(mu=0.0), 0.1)[0].holds


def test_theorem_411_is_no_bound_on_its_own_recursion():
    """The published bound falls below the recursion that it should bound.

    rho(Phi)^(K+1) nu^0 + Psi / (1 - rho(Phi)) < Phi^(K+1) nu^0 + sum_k Phi^k Psi, the latter run in
    a loop.
    """
    s = dspodfl_setting(mu=0.9, zeta=0.1, d_min=1.0, rho=0.3)
    alpha = dspodfl.alpha_max(s) / 2
    nu = np.array([1.0, 1.0])
    for _ in range(201):
        nu = dspodfl.convex_matrix(s, alpha) @ nu + dspodfl.convex_offset(s, alpha)
    error, apart = dspodfl.convex_bound(s, alpha, 200, (1.0, 1.0))
    np.testing.assert_allclose([error.truth, apart.truth], nu, rtol=1e-9)
    assert error.printed < 0.03 * nu[0]


def test_gamma_two_and_A_do_not_depend_on_gamma_zero():
    s = dspodfl_setting(mu=0.9, d_min=0.8)
    q = s.zeta**2 + 2 * (1 - s.d_min)
    A = 1 / s.mu * (1 + s.rho) / 2 * (3 * q) ** (1 / 3) * (s.mu / (2 * (1 - s.rho))) ** (2 / 3)
    assert dspodfl.gap_rate(s) == pytest.approx(A)
    for g0 in (1.5, 2, 7):
        assert (dspodfl.gamma_two(s, g0) - 1) * (1 - 1 / g0) / s.mu == pytest.approx(A)


def test_the_pl_case():
    s = dspodfl_setting(mu=0.9, zeta=0.2, d_min=0.9)
    step = dspodfl_pl.pl_step(s)
    assert step.holds
    assert matrices.spectral_radius_2x2(dspodfl_pl.pl_matrix(s, 0.5 * step.truth)) < 1
    gap = dspodfl_pl.pl_gap(s, 0.5 * min(step.printed, step.truth))
    assert gap[0].holds
    assert gap[0].truth > 0
    # d_min > 1 - mu^2 / (2 beta^2) = 0.875.
    assert not dspodfl_pl.pl_step(dspodfl_setting(mu=0.5, d_min=0.5)).holds


def test_the_nonconvex_case():
    s = dspodfl_setting(zeta=0.5, d_min=0.9)
    step = nonconvex.nonconvex_step(s)
    root = math.sqrt(1.5)
    left = 0.5 - 0.25 * 0.1
    by_hand = min(
        0.5,
        0.5 / (8 * root),
        left / (2 * (1 + 0.05)),
        math.sqrt(0.75 * 0.5) * math.sqrt(left) * 0.5 / (8 * math.sqrt(2) * 0.5 * root),
    )
    assert step.printed == pytest.approx(by_hand)
    # The weights as derived leave less than the printed ones.
    assert nonconvex.nonconvex_gap(s, 0.5 * by_hand).best < (
        nonconvex.nonconvex_gap(s, 0.5 * by_hand).printed
    )
    assert not nonconvex.nonconvex_step(dspodfl_setting(zeta=2, d_min=0.5)).holds
    long, short = (nonconvex.nonconvex_bound(s, 0.5 * by_hand, k, drop=3.0) for k in (10**9, 10))
    assert long.printed < short.printed
    assert nonconvex.nonconvex_gap(s, 0.5 * by_hand).printed == pytest.approx(
        long.printed, rel=1e-3
    )
    assert nonconvex.nonconvex_gap(
        dspodfl_setting(delta=0, sigma=0, d_min=1.0), 0.01
    ).printed == pytest.approx(0, abs=1e-12)
    assert not nonconvex.nonconvex_bound(s, 2 * by_hand, 10, 1.0).holds
    assert nonconvex.nonconvex_matrix(s, 0.01).shape == (2, 2)
    assert (nonconvex.nonconvex_offset(s, 0.01) > 0).all()


def test_diminishing_steps():
    s = dspodfl_setting(mu=0.5, d_min=0.99)
    bound = nonconvex.diminishing_bound(s, 0.01, 4.0, 1000, drop=1.0)
    even = nonconvex.diminishing_bound(replace(s, d_max=0.99), 0.01, 4.0, 1000, drop=1.0)
    assert even.truth == pytest.approx(even.printed / 4)
    assert bound.truth > bound.printed / 4  # E-D6: the paper takes the ablest client
    assert nonconvex.diminishing_bound(s, 0.01, 4.0, 100_000, drop=1.0).printed < bound.printed
    assert nonconvex.diminishing_step(s, 0.001).printed < 0.5 / 8
    small = nonconvex.diminishing_convex_step(s, 0.01)
    assert 0 < small.printed < 1 / s.mu
    assert nonconvex.diminishing_convex_step(s, 0.01, Gamma1=0.99).printed is None


# Spod-GT


def small_digraph():
    graph = graphs.from_edges(3, [(0, 1), (1, 2), (2, 0), (0, 2)], directed=True)
    wanted = {(0, 1): 0.5, (1, 2): 0.8, (2, 0): 1.0, (0, 2): 0.4}
    links = graph.peers
    return Mixing(
        links, np.array([wanted[int(s), int(d)] for s, d in zip(links.src, links.dst, strict=True)])
    )


def test_perron_vectors_of_the_small_digraph():
    net = small_digraph()
    np.testing.assert_allclose(net.phi, [0.2790697674, 0.3720930233, 0.3488372093], atol=1e-10)
    np.testing.assert_allclose(net.pi, [0.4958677686, 0.2066115702, 0.2975206612], atol=1e-10)


def test_perron_vectors_survive_tiny_probabilities():
    net = Mixing(graphs.directed_ring(12).peers, np.logspace(-9, 0, 12))
    A, B = (matrices.expected(net.links, net.ph, kind).toarray() for kind in "ab")
    np.testing.assert_allclose(net.phi @ A, net.phi, rtol=1e-6)
    np.testing.assert_allclose(B @ net.pi, net.pi, rtol=1e-6)
    assert net.phi.sum() == pytest.approx(1)
    assert min(net.phi.min(), net.pi.min()) > 0


def test_diameter_and_edge_utility():
    for graph, D, K in (
        (graphs.complete(6), 1, 1),
        (graphs.directed_ring(7), 6, 21),
        (graphs.directed_ring(3), 2, 3),
    ):
        dist = distances(graph.peers)
        assert diameter(dist) == D
        assert edge_utility(graph.peers, dist) == K


@given(directed_graphs(most=6))
def test_edge_utility_counts_paths(graph):
    links, dist = graph.peers, distances(graph.peers)
    best = 0
    for u, v in zip(links.src, links.dst, strict=True):
        pairs = [
            (s, t)
            for s in range(links.rows)
            for t in range(links.rows)
            if s != t and np.isfinite(dist[s, t])
        ]
        best = max(best, sum(dist[s, u] + 1 + dist[v, t] == dist[s, t] for s, t in pairs))
    assert edge_utility(links, dist) == best


def test_the_printed_contraction_of_the_directed_ring():
    net = Mixing(graphs.directed_ring(3).peers, np.ones(3))
    assert net.rho_hat == pytest.approx((0.875, 0.875))
    assert net.rho_zero == (0.0, 0.0)


def test_the_printed_contraction_of_the_complete_graph_is_not_what_the_text_says():
    for p in (1.0, 0.9):  # E-S12: 1 - p^2 / m, not 1 - p^2
        net = Mixing(graphs.two_way(graphs.complete(5)).peers, np.full(20, p))
        assert net.rho_hat[0] == pytest.approx(1 - p**2 / 5)


@given(directed_graphs(most=5), seeds)
def test_the_exact_contraction_bounds_every_disagreement_and_is_reached(graph, seed):
    if not graph_facts(graph.peers).connected:
        return
    rng = np.random.default_rng(seed)
    net = Mixing(graph.peers, probabilities(graph, rng))
    rho, worst = matrices.pull_contraction(net.links, net.ph, net.phi)
    A = matrices.expected(net.links, net.ph).toarray()
    q = np.zeros_like(A)
    q[net.links.dst, net.links.src] = net.links.a**2 * net.ph * (1 - net.ph)
    F = np.diag(net.phi)
    # Section 3.2's formula.
    M = A.T @ F @ A + np.diag((F @ q).sum(axis=0) + net.phi * q.sum(axis=1)) - F @ q - (F @ q).T
    for x, reached in [(rng.normal(size=graph.rows), False), (worst, True)]:
        x = x - net.phi @ x
        ratio = x @ M @ x / (net.phi @ x**2)
        assert ratio == pytest.approx(rho, abs=1e-8) if reached else ratio <= rho + 1e-9
    push = net.trackers().truth
    y = rng.normal(size=graph.rows)
    y -= y.mean()
    MB = matrices.push_moment(net.links, net.ph, 1 / net.pi).matrix().toarray()
    assert y @ MB @ y / (y**2 / net.pi).sum() <= push + 1e-9


def test_how_sure_links_must_be():
    for graph, a, b in (
        (graphs.directed_ring(3), -5.0, None),
        (graphs.directed_ring(10), -12.8, -16.2),
        (graphs.two_way(graphs.complete(10)), -24.2, None),
        (graphs.two_way(graphs.complete(50)), -176, -262),
    ):
        found = Mixing(graph.peers, ones(graph)).least_probability()
        assert found[0] == pytest.approx(a, abs=0.51 if abs(a) > 100 else 0.051)
        if b:
            assert found[1] == pytest.approx(b, abs=0.51 if abs(b) > 100 else 0.051)


def test_doubly_stochastic_links_need_less():
    net = Mixing(graphs.two_way(graphs.ring(6)).peers, np.ones(12))
    a, b = net.least_probability_doubly_stochastic()
    D, K = net.paths
    assert a**2 == pytest.approx(16 * 5 * D * K / 6 * (1 - a))
    assert b**2 == pytest.approx(4 * 5 * D * K / 6 * (1 - b))
    assert np.log10(1 - a) > net.least_probability()[0]


def test_proposition_48_quotes_its_own_number():
    # E-S11: with all rhos 0, kappa_3 = 1/m^2, kappa_4 = 5 m L^2, kappa_5 = 5 L^2 the product
    # reading gives this, not less.
    for m, L in ((2, 1.0), (10, 3.0), (100, 0.5)):
        k3, k4, k5 = 1 / m**2, 5 * m * L**2, 5 * L**2
        entries = (
            1 / (4 * math.sqrt(m + 1)) / math.sqrt(2 * k4),
            1 / math.sqrt(k5),
            1 / (2 * math.sqrt(m * (m + 1) * k5)),
        )
        eta = min(entries) / (2 * math.sqrt(k3))
        assert eta == pytest.approx(math.sqrt(m / (m + 1)) / (8 * math.sqrt(10) * L))
        assert eta >= 1 / (16 * math.sqrt(5) * L)


def test_proposition_48_as_proved_keeps_the_printed_recursion_below_one():
    """With the second entry as a factor, as in eqs. (80) to (82) (E-S11)."""
    rng, used = np.random.default_rng(0), 0
    while used < 300:
        m = int(rng.integers(2, 7))
        pairs = [
            (i, j)
            for i in range(m)
            for j in range(m)
            if i != j and (j == (i + 1) % m or rng.random() < 0.4)
        ]
        graph = graphs.from_edges(m, pairs, directed=True)
        net = Mixing(graph.peers, 1 - 10.0 ** rng.uniform(-9, -4, len(graph.peers)))
        if max(net.rho_tilde) >= 1:
            continue
        used += 1
        who = recursion.Clients.equal(
            m, p=rng.uniform(0.2, 1), L=10 ** rng.uniform(-1, 1), e=rng.uniform(0, 1),
            sigma1=rng.uniform(0, 1), delta1=rng.uniform(0, 2),
        )  # fmt: skip
        k, (A, B) = recursion.kappas(net, who), net.rho_tilde
        left, right = (1 - A) / math.sqrt(1 + A), (1 - B) / math.sqrt(1 + B)
        first = left * right / math.sqrt(2 * k.k4 + m * k.k5 * net.rho_zero[0])
        proved = min(
            first / (8 * math.sqrt(m + 1)),
            math.sqrt((1 - A) / k.k5) / 2,
            right / math.sqrt(k.k5) / (4 * math.sqrt(m * (m + 1))),
        ) / math.sqrt(k.k3)
        assert recursion.rho_psi(net, k, 0.99 * proved) < 1
        found = recursion.step_bound(net, who)
        assert found.truth >= 0.99 * proved
        assert recursion.rho_psi(net, k, 1.01 * found.truth) >= 1


def test_proposition_49_and_the_final_bound():
    net = Mixing(graphs.directed_ring(3).peers, np.full(3, 1 - 1e-9))
    who = recursion.Clients.equal(3, p=1.0, L=1.0, e=1 / 16, sigma0=1.0, sigma1=0.1, delta1=1.0)
    eta = np.full(3, 0.1 * recursion.step_bound(net, who).truth)
    found = recursion.participation(net, who, eta, np.full(3, 1000.0))
    assert found["compute"].printed < 1
    assert found["compute"].holds
    assert found["links"].printed > 0.99999
    assert found["evenness"].holds
    bounds = [recursion.final_bound(net, who, float(eta[0]), k, drop=1.0) for k in (10, 10**6)]
    assert bounds[0].printed > bounds[1].printed > 0
    assert bounds[1].truth >= bounds[1].printed
    sporadic = Mixing(net.links, np.full(3, 0.5))
    assert (
        recursion.participation(sporadic, who, eta, np.full(3, 1000.0))["recursion"].printed is None
    )
    assert not recursion.final_bound(sporadic, who, 0.01, 10, 1.0).holds
    added = recursion.terms(net, who, eta)
    assert added.gamma0 > 0
    assert min(*added.gamma, *added.omega, *added.psi0, added.omega0) >= 0
    assert recursion.final_rate(net, 2, 2, 2) == pytest.approx(9 / 2 / 8 / 9)
    assert recursion.corollary(99, 1000) == pytest.approx((0.1, 0.1, 1000 / 101))


# MLL-SGD


@pytest.mark.parametrize(("hubs", "zeta"), [(5, 0.8726780), (10, 0.9673710), (20, 0.9917922)])
def test_zeta_of_paths_of_hubs(hubs, zeta):
    H = graphs.path(hubs).peers.matrix()
    assert mll_sgd.zeta(H) == pytest.approx(zeta, abs=1e-7)


def test_zeta_of_unequal_hubs():
    b = np.array([0.2, 0.3, 0.5])
    assert mll_sgd.zeta(np.outer(b, np.ones(3)), b) == pytest.approx(0, abs=1e-8)
    H = graphs.hubs(graphs.path(3), [2, 3, 5]).layers["across"].matrix("a")[10:, 10:].T
    assert mll_sgd.zeta(H, b) == pytest.approx(np.sort(np.abs(np.linalg.eigvals(H)))[-2])


def test_gamma_printed_and_proved():
    assert (mll_sgd.gamma(0.0).truth, mll_sgd.gamma(0.0).printed) == pytest.approx((3, 2))
    assert (mll_sgd.gamma(0.5).truth, mll_sgd.gamma(0.5).printed) == pytest.approx(
        (7.33333, 6.66667), abs=1e-4
    )
    assert not mll_sgd.gamma(1.0).holds


def workers(p, **changes):
    given = {
        "zeta": 0.0,
        "tau": 8,
        "q": 4,
        "a": np.full(100, 0.01),
        "p": np.full(100, p),
        "L": 1.0,
        "sigma": 1.0,
    }
    return mll_sgd.Setting(**given | changes)


def test_condition_12():
    for p, with_the_proofs_gamma in ((1.0, 0.00635857), (0.6, 0.00126842)):
        found = mll_sgd.step(workers(p))
        left, linear = 4 * p - p**2 - 2, 0.01 * p - 0.01 * p**2 + p**2
        for value, factor, gamma in (
            (with_the_proofs_gamma, 8, 3),
            (found.printed, 8, 2),
            (found.truth, 4 * (2 - p), 3),
        ):
            over = left - value * linear - factor * value**2 * 32**2 * gamma
            assert over == pytest.approx(0, abs=1e-6)
    for p in (0.55, 0.5, 0.1, 2 - math.sqrt(2)):
        assert mll_sgd.step(workers(p)).printed is None
    # E-M9: the proof's factor is larger than the printed 8 only where p (beta - 1) > 0.
    assert mll_sgd.step(workers(1.0, beta=3.0)).truth < mll_sgd.step(workers(1.0, beta=3.0)).printed
    s = workers(0.8)
    eta = mll_sgd.step(s).truth
    assert mll_sgd.gap(s, eta / 2).holds
    assert not mll_sgd.gap(s, 2 * eta).holds


def test_bounds_13_and_14():
    s = workers(0.8, zeta=0.5)
    by_hand = 0.01 * 100 * 0.01**2 * 0.8  # sigma^2 eta L sum a^2 p
    across = 0.25 / 0.75 + 1 / 0.5 + 1 / 0.25
    P = 0.8
    by_hand += 4e-4 * 32**2 * across * P + 4e-4 * (1.5 / 0.5) * (64 * 3 * 9 / 6 + 7 * 17 / 6) * P
    assert mll_sgd.gap(s, 0.01).printed == pytest.approx(by_hand)
    far = mll_sgd.bound(s, 0.01, 10**12, drop=1.0)
    assert far.printed == pytest.approx(by_hand, rel=1e-6)
    assert mll_sgd.corollary_step(2.0, 100, 1, 1).printed == pytest.approx(0.05)
    assert not mll_sgd.corollary_step(2.0, 100, 8, 4).holds


# DEPOSITUM


@pytest.mark.parametrize(
    ("graph", "lam"),
    [
        (graphs.ring(10), 0.8726780),
        (graphs.ring(20), 0.9673710),
        (graphs.star(10), 0.9),
        (graphs.complete(10), 0.0),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_lambda_of_graphs(graph, lam):
    assert matrices.second_modulus(graph.peers.matrix()) == pytest.approx(lam, abs=1e-7)


def test_limits_of_beta():
    ring, complete = (
        matrices.second_modulus(g.peers.matrix()) for g in (graphs.ring(10), graphs.complete(10))
    )
    assert depositum.deltas(ring, 1) == pytest.approx((0.0141469, 0.0141469), abs=1e-7)
    assert depositum.deltas(ring, 5)[0] == pytest.approx(0.00298557, abs=1e-8)
    assert depositum.deltas(complete, 1)[0] == pytest.approx(0.25)
    assert depositum.beta_limit(10, ring, 1).printed == pytest.approx(0.0777594, abs=1e-7)
    assert depositum.beta_limit(10, ring, 1, gamma=0.5, nesterov=True).printed == pytest.approx(
        0.0347751, abs=1e-7
    )
    assert depositum.beta_limit(10, ring, 5).printed == pytest.approx(0.00329147, abs=1e-8)
    assert depositum.beta_limit(10, complete, 1).printed == pytest.approx(1.31068, abs=1e-5)
    for lam in (ring, complete):  # E-P9: the safe one is smaller
        found = depositum.beta_limit(10, lam, 5)
        d1, d2 = depositum.deltas(lam, 5)
        assert found.truth == pytest.approx(
            math.sqrt(8 * d1 * d2 * 25 / (9 * 5 * (11 * d1 + 8 * 5)))
        )
        assert found.truth < found.printed
    assert depositum.deltas(0.0, 500)[1] > 0
    assert not depositum.beta_limit(10, 1.0, 1).holds
    assert not depositum.beta_limit(10, 0.9, 5, alpha_rho=0.5).holds  # E-P3


@given(
    st.integers(1, 100),
    st.floats(0.0, 0.99),
    st.integers(1, 30),
    st.booleans(),
    st.integers(1, 10**6),
)
def test_the_beta_of_corollary_1_is_below_the_safe_limit(n, lam, T0, nesterov, rounds):
    found = depositum.corollary(n, 2.0, lam, T0, rounds, nesterov=nesterov)
    if not found.holds:
        assert rounds + 1 < max(n, T0)
        return
    safe = depositum.beta_limit(n, lam, T0, found.gamma, nesterov=nesterov)
    assert found.beta <= safe.truth * (1 + 1e-9)
    assert 0 <= found.gamma < 1


def test_a_larger_lambda_may_be_assumed_where_it_gives_better_limits():
    for lam in (1e-9, 0.01, 0.3, 0.9):
        plain, best = depositum.deltas(lam, 3, 0.01), depositum.deltas(lam, 3, 0.01, larger=True)
        assert best[0] * best[1] >= plain[0] * plain[1]
    assert depositum.deltas(1e-9, 1, larger=True) == pytest.approx(
        depositum.deltas(1 / 3, 1, larger=True), rel=1e-3
    )
    assert depositum.deltas(0.0, 1, larger=True) == depositum.deltas(0.0, 1)


def test_stationarity_by_hand():
    x, nu = np.array([[1.0, 0.0], [3.0, 2.0]]), np.array([[0.5, 0.0], [0.5, 1.0]])

    def soft(z):  # the prox of alpha lambda |.|_1 for alpha = 0.5, lambda = 2
        return np.sign(z) * np.maximum(np.abs(z) - 1.0, 0)

    found = depositum.stationarity(
        x, nu, lambda rows: 2 * rows, np.array([4.0, 2.0]), soft, 0.5, 3.0
    )
    # x - alpha 2 x = 0 and its prox is 0, so G = x / alpha = 2 x
    assert found == pytest.approx(4 * 14 + 9 * 4 + 2 * (3.5**2 + 1.5**2))


def test_theorem_1_of_depositum():
    found = depositum.theorem(10, 0.0, 1, 0.05, 0.1, 10**9, 1.0, 1.0, L=1.0)
    assert found.holds
    noise = 142 / 10 + 512 * 0.25 * 0.01 * (11 + 359 / 12) / (256 / 16 - 6 * 0.01)
    assert found.printed == pytest.approx(noise, rel=1e-6)
    ring = matrices.second_modulus(graphs.ring(20).peers.matrix())
    # The paper's own experiments.
    assert not depositum.theorem(20, ring, 10, 0.05, 0.5, 500, 1.0, 1.0, L=1.0).holds
    assert not depositum.theorem(10, 0.0, 1, 0.2, 0.1, 10, 1.0, 1.0, L=1.0).holds
    assert depositum.alpha_limit(1.0, 0.5).printed == pytest.approx(1 / 24)
    assert depositum.alpha_limit(1.0, 0.5, nesterov=True).printed == pytest.approx(1 / 16)
    assert depositum.alpha_limit(1.0, 0.0, rho=2.0).printed == pytest.approx(1 / 96)
    assert depositum.corollary_bound(4, 1.0, 1, 99, 1.0, 0.0) == pytest.approx(192 / 20)


# PaME


@pytest.mark.parametrize(
    ("m", "t", "c1", "best"),
    [(32, 6, 0.8913, 1.00962), (128, 25, 0.2508, 1.31048), (64, 63, 0.0706, 1.66020)],
)
def test_c_one_and_the_growth_it_allows(m, t, c1, best):
    links = graphs.complete(m).peers
    z = pame.zeta(links)
    assert z.truth == pytest.approx(1 / (m - 1))
    senders = np.full(m, t)
    assert pame.c_one(links, senders, 0.2, z.truth) == pytest.approx(c1, abs=5e-5)
    found = pame.growth(links, senders, 0.2, 5)
    assert found.truth == pytest.approx(best, abs=5e-6)
    assert found.printed is None


@given(
    st.integers(3, 12),
    st.floats(0.05, 1),
    st.floats(0.05, 1),
    st.floats(1.0, 1.2),
    st.integers(1, 8),
)
def test_condition_12_of_pame_never_holds(m, fraction, p, gamma, k0):
    links = graphs.complete(m).peers
    t = np.full(m, max(1, math.ceil(fraction * (m - 1))))
    found = pame.printed_condition(links, t, p, 1 / (m - 1), gamma, k0)
    assert not found.holds


def test_c_one_is_the_variance_it_stands_for():
    """t = |N| leaves the mean of (t - r) / (r (t - 1)), a plain sum over how many sent."""
    t, p = 4, 0.3
    c = sum(
        math.comb(t, r) * p**r * (1 - p) ** (t - r) * (t - r) / (r * (t - 1))
        for r in range(1, t + 1)
    )
    links = graphs.complete(5).peers
    by_hand = (1 - p) ** t * 1.25**2 + c
    assert pame.c_one(links, np.full(5, t), p, 0.25) == pytest.approx(by_hand)
    assert pame.c_one(links, np.full(5, t), 1.0, 0.25) == pytest.approx(0, abs=1e-12)


def test_graphs_pame_is_not_for():
    assert "bipartite" in pame.zeta(graphs.ring(6).peers).why
    assert pame.zeta(graphs.ring(5).peers).holds
    assert "degrees differ" in pame.zeta(graphs.path(4).peers).why
    # zeta + sqrt C_1 >= 1.
    assert not pame.growth(graphs.regular(12, 5, seed=1).peers, np.full(12, 1), 0.2, 5).holds


def test_the_constants_of_pames_rates():
    total, gamma, k0 = 0.9, 1.01, 5
    found = pame.rates(32, 100, 1.0, 1.0, 6, total, gamma, k0)
    assert 1 / gamma > found.M
    assert found.beta > gamma
    assert found.Gamma == pytest.approx(3200 / 36)
    assert found.rho == pytest.approx((1 + found.iota) * total**2)
    assert found.Q > found.P
    with pytest.raises(ValueError, match="not below"):
        pame.rates(32, 100, 1.0, 1.0, 6, total, 1.2, k0)
    assert pame.path_length(1.0, 1.005, 6) == pytest.approx(1.005 / (6 * 0.005))
    assert pame.path_length(1.0, 1.0, 6) == math.inf
    assert pame.sigma_least(2.0, 1.0, 1.005, 10.0, 6) == pytest.approx(max(8, 1.005 / (0.005 * 60)))
    assert pame.message_bits(10**4, 100) == 16_300
    assert pame.dense_bits(10**4) == 640_000


# Graphs, bounds


def test_facts_of_small_graphs_are_right():
    ring = graph_facts(graphs.ring(6).peers)
    assert (ring.connected, ring.bipartite, ring.regular, ring.diameter) == (True, True, True, 3)
    assert not graph_facts(graphs.ring(5).peers).bipartite
    cut = graph_facts(graphs.from_edges(5, [(0, 1), (2, 3)]).peers)
    assert (cut.parts, cut.connected, cut.diameter) == (3, False, None)
    one_way = graph_facts(graphs.from_edges(3, [(0, 1), (1, 2)], directed=True).peers)
    assert (one_way.parts, one_way.strong_parts, one_way.two_way) == (1, 3, False)


@given(undirected_graphs(most=9))
def test_facts_of_graphs_agree_with_networkx(graph):
    shape = nx.Graph(list(zip(graph.peers.src.tolist(), graph.peers.dst.tolist(), strict=True)))
    found = graph_facts(graph.peers)
    assert found.bipartite == nx.is_bipartite(shape)
    assert found.regular == nx.is_regular(shape)
    assert found.diameter == nx.diameter(shape)


def test_the_diameter_of_a_large_graph_lies_between(monkeypatch):
    for graph in (
        graphs.ring(31),
        graphs.grid(5, 8),
        graphs.directed_ring(9),
        graphs.exponential(20),
    ):
        true = graph_facts(graph.peers).diameter
        monkeypatch.setattr(shape, "ALL_PAIRS", 3)
        found = graph_facts(graph.peers)
        monkeypatch.undo()
        assert found.diameter is None
        assert found.diameter_low <= true <= found.diameter_high


def test_a_bound_is_never_silently_nothing():
    with pytest.raises(ValueError, match="not a number"):
        Bound(math.nan, None, True)
    with pytest.raises(ValueError, match="say why"):
        Bound(1.0, None, False)
    assert Bound(1.0, 2.0, True).best == 2.0
    assert Bound(1.0, None, True).best == 1.0
