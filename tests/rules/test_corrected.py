"""EXTRA, D2 and NIDS (section 2.2): equations, relations, limits and refusals."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.core import ConfigError, DivergedError
from peerloom.problems import L1, MCP, Box
from peerloom.rules import D2, EXTRA, NIDS
from peerloom.runtime import iterate
from peerloom.schedules import Always, Bernoulli
from peerloom.testing import random_quadratic
from tests.builders import (
    check_refuses_unequal_links,
    checkpoint_at,
    experiment,
    final,
    paths,
    quadratic,
    starts,
    trajectory,
    undirected_graphs,
)
from tests.oracles import (
    check_close,
    check_states,
    composite_solution,
    gradients,
    mixing_matrices,
    prox_mcp,
    proximal,
    random_weights,
    soft,
)

RULES = [EXTRA, D2, NIDS]
GRAPH = graphs.geometric(6, radius=0.5, seed=1)


def symmetric_weights(seed, m):
    """Symmetric and doubly stochastic: (S + S') / 2 of a random S, scaled, with its diagonal."""
    S = random_weights(np.random.default_rng(seed), m)[0]
    W = (S + S.T) / 2
    np.fill_diagonal(W, 0)
    W /= 1.25 * W.sum(axis=1).max()
    return W + np.diag(1 - W.sum(axis=1))


# --- The equations: x[0], x[1], ... with a dense W.


def extra(x, G, alpha, W):
    """X1 = W X0 - alpha G0; X[k+2] = (I + W) X[k+1] - (I + W)/2 X[k] - alpha (G[k+1] - G[k])."""
    eye = np.eye(len(x))
    yield x
    before, x = x, W @ x - alpha * G(x)
    while True:
        yield x
        before, x = x, (eye + W) @ x - (eye + W) / 2 @ before - alpha * (G(x) - G(before))


def d2(x, G, gamma, W):
    """X1 = W (X0 - gamma G0); X[k+1] = W (2 X[k] - X[k-1] - gamma (G[k] - G[k-1]))."""
    yield x
    before, x = x, W @ (x - gamma * G(x))
    while True:
        yield x
        before, x = x, W @ (2 * x - before - gamma * (G(x) - G(before)))


def nids(x, G, alpha, W, prox=lambda x, step: x):
    """NIDS in plain loops.

    Z1 = X0 - alpha G0, X1 = prox(Z1); Z+ = Z - X + (I + W)/2 (2 X - X- - alpha (G - G-)), X+ =
    prox(Z+).
    """
    half = (np.eye(len(x)) + W) / 2
    yield x
    before, z = x, x - alpha * G(x)
    x = proximal(prox, z, alpha)
    while True:
        yield x
        z = z - x + half @ (2 * x - before - alpha * (G(x) - G(before)))
        before, x = x, proximal(prox, z, alpha)


def check_equation(rule, graph, path, points, problem=None, x0=None, W=None):
    """`points` are x[0], x[1], ...; NIDS takes its first step in `init`: round 0 holds x[1]."""
    exp = experiment(graph, rule, rounds=7, x0=x0, problem=problem)
    W = mixing_matrices(graph)[0] if W is None else W
    x = exp.start(range(graph.rows)).numpy()
    orbit = points(x, lambda X: gradients(exp.problem, X), rule.lr, W)
    check_states(
        exp, path, ({"x": x} for x in itertools.islice(orbit, isinstance(rule, NIDS), None))
    )


EQUATIONS = {EXTRA: extra, D2: d2, NIDS: nids}


@paths
@pytest.mark.parametrize("rule", RULES)
@given(graph=undirected_graphs(), seed=st.integers(0, 99), alpha=st.floats(0.01, 0.3))
@settings(max_examples=10)
def test_rules_are_their_equations(path, rule, graph, seed, alpha):
    check_equation(rule(alpha), graph, path, EQUATIONS[rule], x0=starts(graph.rows, seed=seed))


@paths
@pytest.mark.parametrize("rule", RULES)
@given(m=st.integers(2, 7), seed=st.integers(0, 99))
@settings(max_examples=6)
def test_rules_are_their_equations_with_weights_of_ones_own(path, rule, m, seed):
    W = symmetric_weights(seed, m)
    check_equation(rule(0.1), graphs.from_matrix(W), path, EQUATIONS[rule], x0=starts(m), W=W)


@paths
@pytest.mark.parametrize(
    ("h", "prox"),
    [
        (L1(0.7), lambda x, step: soft(x, 0.7 * step)),
        (MCP(0.9, 2.0), lambda x, step: prox_mcp(x, step, 0.9, 2.0)),
        (Box(-0.4, 0.6), lambda x, step: min(max(x, -0.4), 0.6)),
    ],
    ids=["L1", "MCP", "Box"],
)
@given(graph=undirected_graphs(), seed=st.integers(0, 99))
@settings(max_examples=6)
def test_nids_with_a_regulariser_is_its_equation(path, h, prox, graph, seed):
    def points(x, G, alpha, W):
        return nids(x, G, alpha, W, prox)

    problem = replace(quadratic(graph.rows), h=h)
    check_equation(NIDS(0.2), graph, path, points, problem, starts(graph.rows, seed=seed))


@pytest.mark.parametrize("rule", RULES)
def test_where_clients_and_links_are_sporadic_everybody_is_waited_for(rule):
    sporadic, steady = (
        trajectory(
            experiment(
                GRAPH, rule(0.1), schedule=schedule, problem=quadratic(6, noise=0.3), rounds=12
            )
        )
        for schedule in (Bernoulli(nodes=0.4, links=0.3), Always())
    )
    assert all(torch.equal(x, y) for x, y in zip(sporadic, steady, strict=True))
    assert not torch.equal(steady[0], steady[-1])


@pytest.mark.parametrize("rule", RULES)
def test_one_vector_crosses_a_link_in_a_round(rule):
    ledger = final(experiment(GRAPH, rule(0.1), rounds=5)).ledger
    assert ledger.messages == 5 * len(GRAPH.peers)
    assert ledger.bytes == 5 * 3 * 8 * len(GRAPH.peers)


# --- Invariants: W keeps the mean, so the mean of the models moves as the second differences say.


@paths
@pytest.mark.parametrize("rule", RULES)
def test_the_mean_of_the_models_descends_along_the_mean_gradient(path, rule):
    """1'X[k+1] - 1'X[k] = -alpha 1'G[k]: the increments telescope on any graph."""
    exp = experiment(GRAPH, rule(0.1), x0=starts(6))
    xs = trajectory(exp, path=path)
    for before, after in itertools.pairwise(xs):
        move = after.mean(dim=0) - before.mean(dim=0)
        check_close(move.numpy(), -0.1 * gradients(exp.problem, before).mean(axis=0))


# --- Reductions.


@paths
def test_nids_with_w_in_place_of_its_half_is_d2_after_the_first_step(path):
    """(I + W')/2 = W for W' = 2W - I, which is non-negative where W keeps at least a half."""
    W = mixing_matrices(GRAPH)[0]
    W = (np.eye(6) + W) / 2
    slow, fast = graphs.from_matrix(2 * W - np.eye(6)), graphs.from_matrix(W)
    run = list(iterate(experiment(slow, NIDS(0.1), rounds=15, x0=starts(6)), path=path))
    states = [snapshot.state for snapshot in run]
    exp = experiment(fast, D2(0.1), rounds=15)
    first = states[1]
    D2State = type(D2(0.1).init(first.x, None))
    resume = checkpoint_at(exp, 1, D2State(first.x, first.before, first.g))
    found = [snapshot.x for snapshot in iterate(exp, path=path, resume=resume)]
    assert len(found) == 15
    for ours, theirs in zip(found, states[1:], strict=True):
        check_close(ours.numpy(), theirs.x.numpy())


@paths
def test_without_a_regulariser_nids_keeps_z_at_x(path):
    for snapshot in iterate(experiment(GRAPH, NIDS(0.1), x0=starts(6)), path=path):
        check_close(snapshot.state.z.numpy(), snapshot.x.numpy())


# --- Limits.

PROBLEM = random_quadratic(6, 3, seed=1)
OPTIMUM = np.linalg.solve(PROBLEM.A.sum(axis=0), PROBLEM.b.sum(axis=0))
LARGEST = float(np.linalg.eigvalsh(PROBLEM.A).max())


@pytest.mark.parametrize("graph", [graphs.ring(6), graphs.path(6), graphs.complete(6), GRAPH])
@pytest.mark.parametrize("rule", RULES)
def test_a_constant_step_leads_every_client_to_the_optimum(rule, graph):
    x = final(experiment(graph, rule(0.25), problem=PROBLEM, rounds=600)).x.numpy()
    assert np.abs(x - OPTIMUM).max() < 1e-8


def test_the_step_limit_of_nids_does_not_depend_on_the_graph():
    """alpha < 2 / L: 1.9 / L works on the slowest graph, where EXTRA with it does not."""
    alpha = 1.9 / LARGEST
    x = final(experiment(graphs.path(6), NIDS(alpha), problem=PROBLEM, rounds=2500)).x.numpy()
    assert np.abs(x - OPTIMUM).max() < 1e-8
    with pytest.raises(DivergedError):
        final(experiment(graphs.path(6), EXTRA(alpha), problem=PROBLEM, rounds=2500))


def test_d2_needs_eigenvalues_above_minus_a_third_and_nids_does_not():
    """On this ring the least eigenvalue of W is 1 - 4 * 0.4 = -0.6."""
    W = 0.2 * np.eye(6) + 0.4 * (np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0))
    graph = graphs.from_matrix(W)
    with pytest.raises(DivergedError):
        final(experiment(graph, D2(0.1), problem=PROBLEM, rounds=3000))
    x = final(experiment(graph, NIDS(0.1), problem=PROBLEM, rounds=600)).x.numpy()
    assert np.abs(x - OPTIMUM).max() < 1e-8


@pytest.mark.parametrize("graph", [graphs.ring(6), graphs.star(6)])
def test_nids_with_l1_ends_where_a_subgradient_cancels_the_mean_gradient(graph):
    lam = 0.25
    problem = replace(random_quadratic(6, 4, seed=1), h=L1(lam))
    rows = final(experiment(graph, NIDS(0.5), problem=problem, rounds=800)).x.numpy()
    x = rows[0]
    check_close(rows, np.tile(x, (6, 1)), 1e-10)
    slope = problem.A.mean(axis=0) @ x - problem.b.mean(axis=0)
    zero = np.abs(x) < 1e-10
    assert zero.sum() == 1  # both kinds of coordinates are there to be tested
    assert (np.abs(slope[zero]) < lam).all()
    assert np.abs(slope[~zero] + lam * np.sign(x[~zero])).max() < 1e-9
    assert np.abs(x - composite_solution(problem, lambda z, step: soft(z, lam * step))).max() < 1e-8


# --- What is refused.


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lr", [0.0, -0.1, math.inf, math.nan])
def test_step_sizes_that_are_no_constant_above_zero_are_refused(rule, lr):
    with pytest.raises(ConfigError, match=rf"{rule.__name__}\.lr must be a constant above 0"):
        rule(lr)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("number", [np.float64(0.25), np.float32(0.25), np.int64(1)])
def test_numpys_numbers_are_numbers(rule, number):
    assert rule(number).lr == number


@pytest.mark.parametrize("rule", RULES)
def test_directed_graphs_and_unequal_weights_are_refused(rule):
    check_refuses_unequal_links(rule(0.1))
