"""DSGD and Cooperative SGD (section 2.1): equations, reductions and fixed points."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.core import ConfigError, Draws
from peerloom.core.rates import InverseSqrt
from peerloom.rules import DGD, DSGD, CooperativeSGD
from peerloom.schedules import Always, Bernoulli, Explicit, distributions
from peerloom.testing import random_quadratic
from tests.builders import (
    check_refuses_unequal_links,
    experiment,
    final,
    paths,
    quadratic,
    same_run,
    seeds,
    starts,
    trajectory,
    undirected_graphs,
)
from tests.oracles import (
    check_close,
    check_states,
    fired_matrix,
    gradient,
    gradients,
    local_steps_fixed_point,
    metropolis,
    mixing_matrices,
)

COINS = Bernoulli(nodes=distributions.Uniform(), links=distributions.Beta(0.5, 0.5))
GRAPH = graphs.geometric(6, radius=0.5, seed=1)


def adapt_then_combine(exp, alpha):
    """z_i = x_i - alpha v_i g_i, then z_i + sum_j r_ij vhat_ij (z_j - z_i)."""
    m, A, b, R = (
        exp.graph.rows,
        exp.problem.A.tolist(),
        exp.problem.b.tolist(),
        metropolis(exp.graph),
    )
    activity = exp.schedule.bind(exp.graph, Draws(exp.seed))
    x = exp.start(range(m)).numpy()
    for t in itertools.count(1):
        yield {"x": x}
        v, fired = activity.nodes(t), fired_matrix(exp.graph, activity.links(t, "peers"))
        z = [
            x[i] - alpha(t) * np.array(gradient(A[i], b[i], x[i])) if v[i] else x[i]
            for i in range(m)
        ]
        x = np.array(
            [
                z[i] + sum((R[i][j] * (z[j] - z[i]) for j in range(m) if fired[i][j]), 0.0)
                for i in range(m)
            ]
        )


@paths
@given(graph=undirected_graphs(), seed=seeds, alpha=st.floats(0.01, 0.3))
@settings(max_examples=15)
def test_dsgd_is_its_equation(path, graph, seed, alpha):
    exp = experiment(graph, DSGD(alpha), schedule=COINS, seed=seed, rounds=7, x0=starts(graph.rows))
    check_states(exp, path, adapt_then_combine(exp, lambda t: alpha))


@paths
def test_the_step_may_change_with_the_round(path):
    exp = experiment(GRAPH, DSGD(InverseSqrt(0.2, gamma=5)), schedule=COINS, rounds=20)
    check_states(exp, path, adapt_then_combine(exp, lambda t: 0.2 / math.sqrt(1 + (t - 1) / 5)))


def cooperative(x, G, eta, W, tau):
    """X+ = S_k (X - eta G), S_k = W if tau divides k, else the identity; k = 1, 2, ..."""
    for k in itertools.count(1):
        yield {"x": x}
        x = x - eta * G(x)
        if k % tau == 0:
            x = W @ x


@paths
@pytest.mark.parametrize("tau", [1, 2, 5])
@pytest.mark.parametrize(
    "schedule", [Always(), Bernoulli(nodes=0.3, links=0.4)], ids=["always", "coins"]
)
@given(graph=undirected_graphs(), seed=st.integers(0, 99))
@settings(max_examples=6)
def test_cooperative_sgd_is_its_equation_whatever_the_coins(path, tau, schedule, graph, seed):
    x = starts(graph.rows, seed=seed)
    exp = experiment(graph, CooperativeSGD(0.1, tau=tau), schedule=schedule, rounds=11, x0=x)
    check_states(
        exp,
        path,
        cooperative(x, lambda X: gradients(exp.problem, X), 0.1, mixing_matrices(graph)[0], tau),
    )


@paths
@given(graph=undirected_graphs(), seed=seeds)
@settings(max_examples=8)
def test_mixing_keeps_the_mean_which_moves_by_the_gradients_that_were_computed(path, graph, seed):
    exp = experiment(graph, DSGD(0.1), schedule=COINS, seed=seed, rounds=6, x0=starts(graph.rows))
    activity = COINS.bind(graph, Draws(seed))
    for t, (before, after) in enumerate(itertools.pairwise(trajectory(exp, path=path)), start=1):
        v = activity.nodes(t).astype(float)[:, None]
        moved = (v * gradients(exp.problem, before)).mean(axis=0)
        check_close(after.mean(dim=0).numpy(), before.mean(dim=0).numpy() - 0.1 * moved)


@pytest.mark.parametrize(("tau", "talks"), [(1, 13), (4, 3), (20, 0)])
def test_one_vector_per_link_in_every_tau_th_round(tau, talks):
    ledger = final(experiment(GRAPH, CooperativeSGD(0.1, tau=tau), rounds=13)).ledger
    assert ledger.messages == talks * len(GRAPH.peers)
    assert ledger.bytes == talks * 3 * 8 * len(GRAPH.peers)
    assert ledger.gradients == 13 * 6


# --- Reductions.

NOISY = quadratic(6, noise=0.3)


def run(rule, schedule=None, graph=GRAPH):
    return experiment(
        graph, rule, schedule=schedule or Always(), problem=NOISY, rounds=20, seed=5, x0=starts(6)
    )


@paths
def test_cooperative_sgd_that_talks_in_every_round_is_dsgd_bit_for_bit(path):
    for schedule in (Always(), Bernoulli(nodes=0.3, links=0.4)):
        assert same_run(run(CooperativeSGD(0.1, tau=1), schedule), run(DSGD(0.1)), path)
    assert not same_run(run(CooperativeSGD(0.1, tau=2)), run(DSGD(0.1)), path)


@paths
@pytest.mark.parametrize("tau", [2, 5])
def test_cooperative_sgd_is_dsgd_under_its_cycle_bit_for_bit(path, tau):
    talks = np.array([t > 0 and t % tau == 0 for t in range(21)])
    cycle = Explicit(links=np.tile(talks[:, None, None], (1, 6, 6)))
    assert same_run(run(CooperativeSGD(0.1, tau=tau)), run(DSGD(0.1), cycle), path)


@paths
def test_on_the_complete_graph_it_is_descent_on_the_mean(path):
    """W = J: after one round all are equal, and from there on follow the mean gradient."""
    exp = experiment(graphs.complete(6), DSGD(0.1), x0=starts(6))
    xs = trajectory(exp, path=path)
    x = (starts(6) - 0.1 * gradients(exp.problem, starts(6))).mean(axis=0)
    for found in xs[1:]:
        check_close(found.numpy(), np.tile(x, (6, 1)))
        x = x - 0.1 * (exp.problem.A.mean(axis=0) @ x - exp.problem.b.mean(axis=0))


def test_it_is_not_combine_then_adapt():
    ours, theirs = final(run(DSGD(0.1))).x, final(run(DGD(0.1))).x
    assert (ours - theirs).abs().max() > 1e-3


# --- Limits.

PROBLEM = random_quadratic(6, 3, seed=1)
OPTIMUM = np.linalg.solve(PROBLEM.A.sum(axis=0), PROBLEM.b.sum(axis=0))


def fixed_point(eta, tau):
    return local_steps_fixed_point(PROBLEM, mixing_matrices(GRAPH)[0], eta, tau)


def distance(x):
    return np.linalg.norm(x - OPTIMUM)


def test_both_settle_at_their_fixed_point_which_drifts_with_the_local_steps():
    """1608 rounds end with a mixing for every tau here."""
    off = []
    for rule, tau in (
        (DSGD(0.02), 1),
        (CooperativeSGD(0.02, tau=4), 4),
        (CooperativeSGD(0.02, tau=12), 12),
    ):
        x = final(experiment(GRAPH, rule, problem=PROBLEM, rounds=1608)).x.numpy()
        check_close(x, fixed_point(0.02, tau), 1e-9)
        off.append(distance(x))
        # Of the order of the step.
        shrinking = [distance(fixed_point(eta, tau)) for eta in (1e-4, 1e-5)]
        assert shrinking[0] / shrinking[1] == pytest.approx(10, rel=0.1)
    assert 1e-3 < off[0] < off[1] < off[2] < 1


# --- What is refused.


@pytest.mark.parametrize("rule", [DSGD, CooperativeSGD])
@pytest.mark.parametrize("lr", [0.0, -0.1, math.inf, math.nan])
def test_impossible_step_sizes_are_refused(rule, lr):
    with pytest.raises(ConfigError, match=rf"{rule.__name__}\.lr must be"):
        rule(lr)


@pytest.mark.parametrize("tau", [0, -3])
def test_a_period_below_one_round_is_refused(tau):
    with pytest.raises(
        ConfigError, match=rf"CooperativeSGD\.tau must be at least 1 round, found {tau}"
    ):
        CooperativeSGD(0.1, tau=tau)


@pytest.mark.parametrize("rule", [DSGD, CooperativeSGD])
def test_directed_graphs_and_unequal_weights_are_refused(rule):
    check_refuses_unequal_links(rule(0.1))
