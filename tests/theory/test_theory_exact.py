"""Exact moments against all outcomes of the coins, and constants against closed forms."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.core import ConfigError, Draws, Evaluation, Placement
from peerloom.problems import IID, MLP, Classification, Dataset, Labels, Quadratic
from peerloom.problems.properties import properties_of
from peerloom.theory.constants import estimate, quadratics_of
from peerloom.theory.exact import Linear, mixing_rate
from peerloom.theory.matrices import pull_contraction
from tests.builders import directed_graphs, quadratic, seeds, undirected_graphs


def outcomes(model):
    """Every outcome of all coins, with its probability: (T, c) of x+ = T x + c for n = 1."""
    links, m = model.links, model.m
    coins = np.unique(links.coin)
    for fell in itertools.product([0, 1], repeat=len(coins) + m):
        on, v = dict(zip(coins, fell, strict=False)), fell[len(coins) :]
        chance = math.prod(
            model.p[links.coin == c][0] if on[c] else 1 - model.p[links.coin == c][0] for c in coins
        ) * math.prod(model.d[i] if v[i] else 1 - model.d[i] for i in range(m))
        T, c = np.eye(m), np.zeros(m)
        for e in range(len(links)):
            i, j, fired = links.dst[e], links.src[e], on[links.coin[e]]
            T[i, j] += links.a[e] * fired
            T[i, i] -= links.a[e] * fired
        for i in range(m):
            T[i, i] -= model.alpha * v[i] * model.A[i, 0, 0]
            c[i] += model.alpha * v[i] * model.b[i, 0]
        yield chance, T, c, np.array(v)


def small(graph, seed, alpha=0.1, noise=0.3):
    rng = np.random.default_rng(seed)
    coins, at = np.unique(graph.peers.coin, return_inverse=True)
    m = graph.rows
    return Linear(
        graph.peers, rng.uniform(0.2, 1, len(coins))[at], rng.uniform(0.5, 2, (m, 1, 1)),
        rng.normal(size=(m, 1)), rng.uniform(0.3, 1, m), alpha, noise,
    )  # fmt: skip


@given(st.one_of(undirected_graphs(most=3), directed_graphs(most=3)), seeds)
def test_moments_are_those_of_all_outcomes(graph, seed):
    model = small(graph, seed)
    m, x = model.m, np.random.default_rng(seed).normal(size=model.m)
    states = [(1.0, x, np.zeros((m, m)))]  # chance, mean and covariance given the coins so far
    for rounds in (1, 2) if m == 2 else (1,):
        states = [
            (w * chance, T @ u + c, T @ C @ T.T + model.alpha**2 * model.noise**2 * np.diag(v))
            for w, u, C in states
            for chance, T, c, v in outcomes(model)
        ]
        mean = sum(w * u for w, u, _ in states)
        S = sum(w * (C + np.outer(u, u)) for w, u, C in states)
        *_, found = model.after(x[:, None], rounds)
        one = np.full(m, 1 / m)
        error = one @ S @ one - 2 * (one @ mean) * model.optimum[0] + model.optimum[0] ** 2
        assert found.error == pytest.approx(error, abs=1e-10)
        assert found.consensus == pytest.approx((np.trace(S) - m * (one @ S @ one)) / m, abs=1e-10)
        assert found.excess == pytest.approx(model.A.mean() * error / 2, abs=1e-10)


@given(undirected_graphs(most=6), seeds)
def test_the_floor_is_where_the_moments_settle(graph, seed):
    model = small(graph, seed)
    floor = model.floor()
    *_, late = model.after(np.zeros((model.m, 1)), 600)
    for name in ("error", "bias", "consensus", "excess"):
        assert getattr(floor, name) == pytest.approx(getattr(late, name), rel=1e-5, abs=1e-9)
    assert model.radius() < 1


def test_too_large_a_step_has_no_floor():
    model = small(graphs.ring(5), 1, alpha=2.5)
    assert model.floor() is None
    assert model.radius() > 1


@given(undirected_graphs(most=5), seeds, st.floats(0.2, 2.5))
def test_a_run_settles_where_the_radius_is_below_one(graph, seed, alpha):
    model = small(graph, seed, alpha)
    assert model.settles() == (model.radius() < 1)


@given(undirected_graphs(most=6), seeds)
def test_in_the_long_run_disagreement_shrinks_at_least_as_fast_as_in_the_worst_round(graph, seed):
    p = small(graph, seed).p
    worst, _ = pull_contraction(graph.peers, p)
    assert mixing_rate(graph.peers, p) <= worst + 1e-8
    sure = np.ones(len(p))
    assert mixing_rate(graph.peers, sure, rounds=3000) == pytest.approx(
        pull_contraction(graph.peers, sure)[0], abs=1e-4
    )


def test_constants_of_quadratics_are_exact():
    problem = quadratic(4, n=3, noise=0.5)
    found = estimate(problem, 4)
    curves = np.linalg.eigvalsh(problem._A)
    assert found.smoothness.value == pytest.approx(curves.max())
    assert found.convexity.value == pytest.approx(curves.min())
    assert found.noise.value == pytest.approx(0.5 * math.sqrt(3))
    best = problem.solution()
    assert found.diversity.value == pytest.approx(
        max(np.linalg.norm(A @ best - b) for A, b in zip(problem._A, problem._b, strict=True))
    )
    rng = np.random.default_rng(0)
    for _ in range(50):  # |grad F - grad F_i| <= delta + zeta |x - x*|, wherever one looks
        x = rng.normal(size=3) * 10 ** rng.uniform(-1, 2)
        g = problem._A @ x - problem._b
        apart = np.linalg.norm(g - g.mean(axis=0), axis=1).max()
        assert apart <= found.diversity.value + found.slope.value * np.linalg.norm(x - best) + 1e-9
    local_drop = 0.5 * best @ problem._A.mean(axis=0) @ best
    assert found.drop.value == pytest.approx(local_drop)
    assert not found.alike


def regression():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(90, 4)).astype(np.float32)
    return Dataset.of(x, (x @ rng.normal(size=4) + 0.1 * rng.normal(size=90)).astype(np.float32))


def test_least_squares_is_a_quadratic():
    problem = Classification("least_squares", data=regression(), batch="all", l2=0.1)
    A, b = quadratics_of(properties_of(problem, 3), 3, problem.n)
    twin = Quadratic(A, b)
    x = torch.linspace(-1, 1, 5, dtype=torch.float64).repeat(3, 1)
    place = Placement(np.arange(3), 3, torch.device("cpu"), torch.float64)
    ours, theirs = (q.bind(place, Draws(0)).grad(x, np.arange(3), 1) for q in (problem, twin))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
    found = estimate(problem, 3)
    assert found.smoothness.how == "exact"
    assert found.convexity.value > 0.1
    assert found.noise.value == 0
    assert found.alike


@pytest.mark.parametrize("model", ["softmax", "logistic"])
def test_linear_classifiers_are_bounded_in_closed_form(model):
    rng = np.random.default_rng(2)
    data = Dataset.of(rng.normal(size=(120, 5)).astype(np.float32), rng.integers(0, 2, 120))
    problem = Classification(model, data=data, l2=0.01, batch="all")
    found = estimate(problem, 4, seed=3)
    assert found.smoothness.how == "bound"
    assert found.convexity.value == 0.01
    local = problem.bind(Placement(np.arange(4), 4, torch.device("cpu"), torch.float64), Draws(3))
    for k in range(20):  # no pair of points shows more curvature than the bound
        x, y = (
            torch.from_numpy(np.random.default_rng([k, s]).normal(size=(4, problem.n)))
            for s in (0, 1)
        )
        rows = np.arange(4)
        slope = (local.grad(x, rows, 1) - local.grad(y, rows, 1)).norm(dim=1) / (x - y).norm(dim=1)
        assert float(slope.max()) <= found.smoothness.value


def test_the_hinge_is_not_smooth_and_labels_are_not_alike():
    found = estimate(Classification("svm", partition=Labels(per_client=1)), 10)
    assert found.smoothness.value == math.inf
    assert not found.alike
    assert found.diversity.value > 0
    assert 0 < found.noise.low < found.noise.value < found.noise.high


def test_power_iteration_finds_the_curvature_of_what_is_known():
    class Hidden:
        """A quadratic that does not say it is one."""

        def __init__(self, inner):
            self.inner, self.n = inner, inner.n

        def start(self, seed):
            return torch.ones(self.n, dtype=torch.float64)

        def bind(self, place, draws):
            return _NotSaying(self.inner.bind(place, draws))

    class _NotSaying:
        def __init__(self, inner):
            self.grad, self.prox = inner.grad, inner.prox

        def evaluate(self, x):
            return Evaluation(np.ones(len(x)), None)

    problem = quadratic(4, n=3, noise=0.0)
    found = estimate(Hidden(problem), 4)
    assert found.smoothness.how == "estimated"
    assert found.smoothness.value == pytest.approx(np.linalg.eigvalsh(problem._A).max(), rel=0.05)
    noisy = estimate(Hidden(quadratic(4, n=3, noise=0.5)), 4)
    assert noisy.noise.value == pytest.approx(0.5 * math.sqrt(3), rel=0.35)


def test_a_network_is_estimated_and_constants_can_be_given():
    problem = Classification(MLP(hidden=(8,)), partition=IID())
    found = estimate(problem, 4, given={"smoothness": 7.0, "noise": 0.0})
    assert (found.smoothness.value, found.smoothness.how) == (7.0, "given")
    assert found.noise.value == 0
    assert estimate(problem, 4).smoothness.value > 0
    with pytest.raises(ConfigError, match="smoothness"):
        estimate(problem, 4, given={"smothness": 1.0})
    with pytest.raises(ConfigError, match="negative"):
        estimate(problem, 4, given={"noise": -1.0})
