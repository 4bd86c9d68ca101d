"""Gradient tracking and push-sum (sections 2.2, 2.3): equations, invariants, limits."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.core import ConfigError
from peerloom.core.rates import InverseSqrt, Pieces
from peerloom.rules import AB, DSGD, DSGT, SGP, PushDIGing, PushPull, SubgradientPush, SynchronousGT
from peerloom.runtime import iterate
from peerloom.schedules import Always, Bernoulli
from peerloom.testing import random_quadratic
from tests.builders import (
    directed_graphs,
    experiment,
    final,
    paths,
    quadratic,
    seeds,
    starts,
    trajectory,
    undirected_graphs,
)
from tests.oracles import (
    check_close,
    check_runs_agree,
    check_states,
    gradients,
    mixing_matrices,
    random_weights,
)

DIGRAPH = graphs.random_digraph(6, p=0.4, seed=1)
GRAPH = graphs.geometric(6, radius=0.5, seed=1)


# Equations: generators of (x, and what else the rule keeps) from round 0 on, with dense A and B.


def dsgt(form):
    """X+ = W (X - alpha Y); Y+ = W Y + G+ - G (6) or W (Y + G+ - G) (8); Y0 = G0."""

    def rounds(x, G, alpha, W, _):
        y = g = G(x)
        for t in itertools.count(1):
            yield {"x": x, "y": y}
            x = W @ (x - alpha(t) * y)
            new = G(x)
            y = W @ y + new - g if form == 6 else W @ (y + new - g)
            g = new

    return rounds


def ab(mixed):
    """X+ = A X - alpha Y, or A X - alpha B Y; Y+ = B Y + G+ - G; Y0 = G0."""

    def rounds(x, G, alpha, A, B):
        y = g = G(x)
        for t in itertools.count(1):
            yield {"x": x, "y": y}
            x = A @ x - alpha(t) * (B @ y if mixed else y)
            new = G(x)
            y, g = B @ y + new - g, new

    return rounds


def push_pull(x, G, alpha, R, C):
    """X+ = R (X - alpha Y); Y+ = C Y + G+ - G; Y0 = G0."""
    y = g = G(x)
    for t in itertools.count(1):
        yield {"x": x, "y": y}
        x = R @ (x - alpha(t) * y)
        new = G(x)
        y, g = C @ y + new - g, new


def push_diging(x, G, alpha, _, C):
    """U+ = C (U - alpha Y); v+ = C v from ones; X+ = U+ / v+; Y+ = C Y + G(X+) - G(X)."""
    u, v = x, np.ones((len(x), 1))
    y = g = G(x)
    for t in itertools.count(1):
        yield {"x": x, "y": y, "w": v}
        u, v = C @ (u - alpha(t) * y), C @ v
        x = np.array([row / weight for row, weight in zip(u, v[:, 0], strict=True)])
        new = G(x)
        y, g = C @ y + new - g, new


def sgp(x, G, gamma, _, P):
    """X+ = P (X - gamma G(Z)); w+ = P w from ones; Z+ = X+ / w+."""
    u, w = x, np.ones((len(x), 1))
    for t in itertools.count(1):
        yield {"x": x, "w": w}
        u, w = P @ (u - gamma(t) * G(x)), P @ w
        x = np.array([row / weight for row, weight in zip(u, w[:, 0], strict=True)])


SHRINKING = InverseSqrt(0.1, gamma=4)
SYMMETRIC = {"dsgt 6": (DSGT(0.1), dsgt(6)), "dsgt 8": (DSGT(0.1, form=8), dsgt(8))}
DIRECTED = {
    "ab": (AB(0.1), ab(mixed=False)),
    "ab, mixed": (AB(0.1, tracker_in_step="mixed"), ab(mixed=True)),
    "push-pull": (PushPull(0.1), push_pull),
    "push-diging": (PushDIGing(0.1), push_diging),
    "sgp": (SGP(0.1), sgp),
}
EVERY = SYMMETRIC | DIRECTED
WITH_RATE = {
    "dsgt 6": (DSGT(SHRINKING), dsgt(6)),
    "dsgt 8": (DSGT(SHRINKING, form=8), dsgt(8)),
    "ab": (AB(SHRINKING), ab(mixed=False)),
    "push-pull": (PushPull(SHRINKING), push_pull),
    "push-diging": (PushDIGing(SHRINKING), push_diging),
    "sgp": (SGP(SHRINKING), sgp),
    "subgradient-push": (SubgradientPush(SHRINKING), sgp),
}


def check_equation(exp, path, equation, alpha=lambda t: 0.1, weights=None):
    A, B = mixing_matrices(exp.graph, weights)
    x = exp.start(range(exp.graph.rows)).numpy()
    check_states(exp, path, equation(x, lambda X: gradients(exp.problem, X), alpha, A, B))


@paths
@pytest.mark.parametrize("name", EVERY)
@given(graph=undirected_graphs(), seed=st.integers(0, 99))
@settings(max_examples=8)
def test_rules_are_their_equations_on_undirected_graphs(path, name, graph, seed):
    rule, equation = EVERY[name]
    check_equation(
        experiment(graph, rule, rounds=6, x0=starts(graph.rows, seed=seed)), path, equation
    )


@paths
@pytest.mark.parametrize("name", DIRECTED)
@given(graph=directed_graphs(), seed=st.integers(0, 99))
@settings(max_examples=8)
def test_rules_are_their_equations_on_directed_graphs(path, name, graph, seed):
    rule, equation = DIRECTED[name]
    check_equation(
        experiment(graph, rule, rounds=6, x0=starts(graph.rows, seed=seed)), path, equation
    )


@paths
@pytest.mark.parametrize("name", DIRECTED)
@given(m=st.integers(2, 7), seed=seeds)
@settings(max_examples=8)
def test_rules_are_their_equations_with_weights_of_ones_own(path, name, m, seed):
    rule, equation = DIRECTED[name]
    A, B = random_weights(np.random.default_rng(seed), m)
    check_equation(
        experiment(graphs.from_matrix(A, B), rule, rounds=6, x0=starts(m)),
        path,
        equation,
        weights=(A, B),
    )


@paths
@pytest.mark.parametrize("name", WITH_RATE)
def test_the_step_may_change_with_the_round(path, name):
    rule, equation = WITH_RATE[name]
    exp = experiment(GRAPH if name in SYMMETRIC else DIGRAPH, rule, rounds=15, x0=starts(6))
    check_equation(exp, path, equation, alpha=lambda t: 0.1 / math.sqrt(1 + (t - 1) / 4))


@pytest.mark.parametrize("name", EVERY)
def test_where_clients_and_links_are_sporadic_everybody_is_waited_for(name):
    rule, graph = EVERY[name][0], GRAPH if name in SYMMETRIC else DIGRAPH
    noisy = quadratic(6, noise=0.3)
    sporadic, steady = (
        trajectory(experiment(graph, rule, schedule=schedule, problem=noisy, rounds=12))
        for schedule in (Bernoulli(nodes=0.4, links=0.3), Always())
    )
    assert all(torch.equal(x, y) for x, y in zip(sporadic, steady, strict=True))
    assert not torch.equal(steady[0], steady[-1])


# --- Invariants.

TRACKERS = [name for name in EVERY if name != "sgp"]


@paths
@pytest.mark.parametrize("name", TRACKERS)
@given(seed=st.integers(0, 99))
@settings(max_examples=5)
def test_the_mean_of_the_trackers_is_the_mean_of_the_gradients(path, name, seed):
    graph = (
        graphs.erdos_renyi(7, p=0.4, seed=seed)
        if name in SYMMETRIC
        else graphs.random_digraph(7, p=0.4, seed=seed)
    )
    exp = experiment(graph, EVERY[name][0], x0=starts(7, seed=seed))
    for snapshot in iterate(exp, path=path):
        check_close(
            snapshot.state.y.mean(dim=0).numpy(), gradients(exp.problem, snapshot.x).mean(axis=0)
        )


@paths
@pytest.mark.parametrize("rule", [PushDIGing(0.1), SGP(0.1)])
@given(graph=directed_graphs())
@settings(max_examples=8)
def test_the_weights_of_push_sum_sum_to_the_number_of_clients(path, rule, graph):
    for snapshot in iterate(experiment(graph, rule, x0=starts(graph.rows)), path=path):
        w = snapshot.state.w
        assert w.shape == (graph.rows, 1)
        assert w.min() > 0
        assert float(w.sum()) == pytest.approx(graph.rows, rel=1e-13)


@paths
def test_the_sum_that_sgp_pushes_moves_by_the_gradients_alone(path):
    exp = experiment(DIGRAPH, SGP(0.1), x0=starts(6))
    total = starts(6).sum(axis=0)
    for snapshot in iterate(exp, path=path):
        check_close((snapshot.state.w * snapshot.x).sum(dim=0).numpy(), total)
        total = total - 0.1 * gradients(exp.problem, snapshot.x).sum(axis=0)


@pytest.mark.parametrize(
    ("name", "numbers", "messages"),
    [
        ("dsgt 6", 6, 1),  # x - alpha y and y, of three numbers each
        ("dsgt 8", 6, 2),
        ("ab", 6, 1),
        ("push-pull", 6, 1),
        ("push-diging", 7, 1),  # u - alpha y, y and a weight
        ("sgp", 4, 1),  # x - gamma g and a weight
    ],
)
def test_what_crosses_a_link_in_a_round(name, numbers, messages):
    graph = GRAPH if name in SYMMETRIC else DIGRAPH
    ledger = final(experiment(graph, EVERY[name][0], rounds=5)).ledger
    assert ledger.messages == 5 * messages * len(graph.peers)
    assert ledger.bytes == 5 * numbers * 8 * len(graph.peers)


# --- Reductions.


def noisy(graph, rule):
    return experiment(graph, rule, problem=quadratic(6, noise=0.3), rounds=20, x0=starts(6))


@paths
def test_ab_that_steps_along_the_mixed_tracker_is_synchronous_gt(path):
    ours, theirs = (
        noisy(DIGRAPH, AB(0.1, tracker_in_step="mixed")),
        noisy(DIGRAPH, SynchronousGT(0.1)),
    )
    check_runs_agree(ours, theirs, ("x", "y"), path)
    with pytest.raises(AssertionError, match="off by"):
        check_runs_agree(noisy(DIGRAPH, AB(0.1)), theirs, ("x", "y"), path)


@paths
@pytest.mark.parametrize("rule", [PushPull(0.1), PushDIGing(0.1)])
def test_on_an_undirected_graph_both_directed_rules_are_dsgt_6(path, rule):
    """R = C = W, and push-sum's weights stay at one."""
    check_runs_agree(noisy(GRAPH, rule), noisy(GRAPH, DSGT(0.1)), ("x", "y"), path)


@paths
def test_on_an_undirected_graph_sgp_is_dsgd(path):
    """SGP draws its first batch in round 1, as DSGD does."""
    check_runs_agree(noisy(GRAPH, SGP(0.1)), noisy(GRAPH, DSGD(0.1)), ("x",), path)


def test_the_two_forms_of_dsgt_differ():
    with pytest.raises(AssertionError, match="off by"):
        check_runs_agree(noisy(GRAPH, DSGT(0.1)), noisy(GRAPH, DSGT(0.1, form=8)))


# --- Limits.

PROBLEM = random_quadratic(6, 3, seed=1)
OPTIMUM = np.linalg.solve(PROBLEM.A.sum(axis=0), PROBLEM.b.sum(axis=0))


@pytest.mark.parametrize("graph", [graphs.directed_ring(6), DIGRAPH, graphs.star(6)])
@pytest.mark.parametrize(
    "rule", [AB(0.06), AB(0.06, tracker_in_step="mixed"), PushPull(0.06), PushDIGing(0.06)]
)
def test_trackers_on_directed_graphs_are_exact(rule, graph):
    x = final(experiment(graph, rule, problem=PROBLEM, rounds=900)).x.numpy()
    assert np.abs(x - OPTIMUM).max() < 1e-8


@pytest.mark.parametrize("graph", [graphs.ring(6), graphs.path(6), GRAPH])
@pytest.mark.parametrize("form", [6, 8])
def test_dsgt_is_exact(form, graph):
    x = final(experiment(graph, DSGT(0.1, form=form), problem=PROBLEM, rounds=700)).x.numpy()
    assert np.abs(x - OPTIMUM).max() < 1e-8


def sgp_fixed_point(gamma):
    """u = P (u - gamma (A u / w - b)) with w = P w, sum m, as one system; models are u / w."""
    m, n = PROBLEM.b.shape
    _, P = mixing_matrices(DIGRAPH)
    w = np.linalg.solve(P - np.eye(m) + np.ones((m, m)), np.full(m, float(m)))
    spread, curvature = np.kron(P, np.eye(n)), np.zeros((m * n, m * n))
    for i in range(m):
        curvature[i * n : i * n + n, i * n : i * n + n] = PROBLEM.A[i] / w[i]
    u = np.linalg.solve(
        np.eye(m * n) - spread + gamma * spread @ curvature, gamma * spread @ PROBLEM.b.ravel()
    )
    return u.reshape(m, n) / w[:, None]


def test_sgp_settles_at_its_fixed_point_a_step_size_away_from_the_optimum():
    off = []
    for gamma in (0.02, 0.01):
        x = final(experiment(DIGRAPH, SGP(gamma), problem=PROBLEM, rounds=2500)).x.numpy()
        check_close(x, sgp_fixed_point(gamma), 1e-9)
        off.append(np.linalg.norm(x - OPTIMUM))
    assert off[0] / off[1] == pytest.approx(2, rel=0.1)
    assert 1e-4 < off[1] < 0.1


def test_a_shrinking_step_closes_the_gap_that_sgp_leaves():
    fixed = experiment(DIGRAPH, SGP(0.1), problem=PROBLEM, rounds=2000)
    shrinking = experiment(
        DIGRAPH, SubgradientPush(InverseSqrt(0.1, gamma=10)), problem=PROBLEM, rounds=2000
    )
    gap = [np.linalg.norm(final(exp).x.numpy() - OPTIMUM) for exp in (fixed, shrinking)]
    assert gap[1] < gap[0] / 5


# --- What is refused.


@pytest.mark.parametrize("graph", [graphs.directed_ring(6), graphs.exponential(6)])
@pytest.mark.parametrize("form", [6, 8])
def test_dsgt_refuses_a_directed_graph(graph, form):
    with pytest.raises(
        ConfigError, match=f"DSGT needs symmetric links, but graph '{graph.name}' is directed"
    ):
        experiment(graph, DSGT(0.1, form=form))


@pytest.mark.parametrize("rule", [DSGT, AB, PushPull, PushDIGing, SGP])
@pytest.mark.parametrize("lr", [0.0, -0.1, math.inf, math.nan])
def test_impossible_step_sizes_are_refused(rule, lr):
    with pytest.raises(ConfigError, match=rf"{rule.__name__}\.lr must be"):
        rule(lr)


def test_forms_that_do_not_exist_are_refused():
    with pytest.raises(ConfigError, match=r"DSGT\.form must be 6 or 8, found 7"):
        DSGT(0.1, form=7)
    with pytest.raises(
        ConfigError, match=r"AB\.tracker_in_step must be 'old' or 'mixed', found 'new'"
    ):
        AB(0.1, tracker_in_step="new")


def test_subgradient_push_wants_a_rate():
    with pytest.raises(ConfigError, match=r"SubgradientPush\.lr must be a rate"):
        SubgradientPush(0.1)
    assert SubgradientPush(Pieces((0.1, 0.01), (1, 50))).lr.at(60) == 0.01
