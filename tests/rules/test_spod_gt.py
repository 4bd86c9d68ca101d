"""Spod-GT and its presets (section 1.2): plain loops, invariants, reductions, limits."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.core import ConfigError, Draws
from peerloom.core.rates import InverseSqrt, Pieces
from peerloom.rules import DSGT, PeriodicGT, SpodGT, SporadicKGT, SporadicPushPull, SynchronousGT
from peerloom.runtime import iterate
from peerloom.schedules import Always, Bernoulli, Explicit, distributions
from peerloom.testing import random_quadratic
from tests.builders import (
    directed_graphs,
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
    check_runs_agree,
    check_states,
    degree_weights,
    fired_matrix,
    gradient,
    gradients,
    mixing_matrices,
    random_weights,
)

PRESETS = [SynchronousGT, SporadicPushPull, SporadicKGT, PeriodicGT]
COINS = Bernoulli(nodes=distributions.Uniform(), links=distributions.Beta(0.5, 0.5))
DIGRAPH = graphs.random_digraph(6, p=0.4, seed=1)
skips = pytest.mark.parametrize("skip", ["zero", "hold"])


def spod_gt(exp, skip, eta, weights=None):
    """Steps 1 to 4 in plain loops with step sizes eta(t, i); `weights` are (a, b)."""
    m, A, B = exp.graph.rows, exp.problem.A.tolist(), exp.problem.b.tolist()
    a, b = degree_weights(exp.graph) if weights is None else weights
    activity = exp.schedule.bind(exp.graph, Draws(exp.seed))

    def contributions(t, x, last):
        v, c = activity.nodes(t), []
        for i in range(m):
            skipped = last[i] if skip == "hold" else np.zeros_like(x[i])
            c.append(np.array(gradient(A[i], B[i], x[i])) if v[i] else skipped)
        return np.array(c)

    x = exp.start(range(m)).numpy().copy()
    c = contributions(0, x, np.zeros_like(x))
    y = c.copy()
    for t in itertools.count(1):
        yield {"x": x, "y": y, "c": c}
        fired = fired_matrix(exp.graph, activity.links(t, "peers"))
        half_x, half_y = x.copy(), y.copy()
        for i, j in itertools.product(range(m), repeat=2):
            if fired[i][j]:  # j sends to i
                half_x[i] += a[i][j] * (x[j] - x[i])
                half_y[i] += b[i][j] * y[j]
                half_y[j] -= b[i][j] * y[j]
        x = np.array([half_x[i] - eta(t, i) * half_y[i] for i in range(m)])
        new = contributions(t, x, c)
        y, c = half_y + new - c, new


step_sizes = st.lists(st.floats(0.01, 0.3), min_size=9, max_size=9)


@paths
@skips
@given(graph=directed_graphs(), seed=seeds, etas=step_sizes)
@settings(max_examples=12)
def test_the_rule_is_its_equation_on_digraphs_with_step_sizes_per_client(
    path, skip, graph, seed, etas
):
    rule = SpodGT(tuple(etas[: graph.rows]), skip=skip)
    exp = experiment(graph, rule, schedule=COINS, seed=seed, rounds=7, x0=starts(graph.rows))
    check_states(exp, path, spod_gt(exp, skip, lambda t, i: etas[i]))


@paths
@skips
@given(graph=directed_graphs(), seed=seeds, etas=step_sizes)
@settings(max_examples=8)
def test_every_client_may_have_a_step_size_that_changes_with_the_round(
    path, skip, graph, seed, etas
):
    """eta_i^(k): some shrink, some fall once, some stay."""

    def eta(t, i):
        return (etas[i] / math.sqrt(1 + (t - 1) / 5), etas[i] if t < 4 else 0.01, etas[i])[i % 3]

    rates = [(InverseSqrt(e, 5.0), Pieces((e, 0.01), (1, 4)), e)[i % 3] for i, e in enumerate(etas)]
    rule = SpodGT(tuple(rates[: graph.rows]), skip=skip)
    exp = experiment(graph, rule, schedule=COINS, seed=seed, rounds=7, x0=starts(graph.rows))
    check_states(exp, path, spod_gt(exp, skip, eta))


@paths
@skips
@given(graph=undirected_graphs(), seed=seeds)
@settings(max_examples=8)
def test_the_rule_is_its_equation_on_undirected_graphs(path, skip, graph, seed):
    exp = experiment(
        graph, SpodGT(0.1, skip=skip), schedule=COINS, seed=seed, rounds=7, x0=starts(graph.rows)
    )
    check_states(exp, path, spod_gt(exp, skip, lambda t, i: 0.1))


@paths
@skips
@given(m=st.integers(2, 7), seed=seeds)
@settings(max_examples=8)
def test_the_rule_is_its_equation_with_weights_of_ones_own(path, skip, m, seed):
    A, B = random_weights(np.random.default_rng(seed), m)
    coins = Bernoulli(nodes=0.5, links=0.6)
    exp = experiment(
        graphs.from_matrix(A, B),
        SpodGT(0.1, skip=skip),
        schedule=coins,
        seed=seed,
        rounds=7,
        x0=starts(m),
    )
    check_states(exp, path, spod_gt(exp, skip, lambda t, i: 0.1, (A, B)))


@paths
def test_the_step_may_change_with_the_round(path):
    exp = experiment(DIGRAPH, SpodGT(InverseSqrt(0.2, gamma=5)), schedule=COINS, rounds=20)
    check_states(exp, path, spod_gt(exp, "zero", lambda t, i: 0.2 / math.sqrt(1 + (t - 1) / 5)))


@paths
@given(graph=directed_graphs(), seed=seeds)
@settings(max_examples=10)
def test_invariant_2_trackers_sum_to_the_gradients_of_this_very_round(path, graph, seed):
    exp = experiment(graph, SpodGT(0.1), schedule=COINS, seed=seed, rounds=8, x0=starts(graph.rows))
    activity = COINS.bind(graph, Draws(seed))
    for snapshot in iterate(exp, path=path):
        v = activity.nodes(snapshot.t).astype(float)[:, None]
        wanted = (v * gradients(exp.problem, snapshot.x)).sum(axis=0)
        check_close(snapshot.state.y.sum(dim=0).numpy(), wanted)


@paths
@given(graph=directed_graphs(), seed=seeds)
@settings(max_examples=10)
def test_with_hold_trackers_sum_to_the_last_gradients_each_computed(path, graph, seed):
    exp = experiment(
        graph, SpodGT(0.1, skip="hold"), schedule=COINS, seed=seed, rounds=8, x0=starts(graph.rows)
    )
    activity, last = COINS.bind(graph, Draws(seed)), np.zeros((graph.rows, 3))
    for snapshot in iterate(exp, path=path):
        now = gradients(exp.problem, snapshot.x)
        for i in np.flatnonzero(activity.nodes(snapshot.t)):
            last[i] = now[i]
        check_close(snapshot.state.y.sum(dim=0).numpy(), last.sum(axis=0))


@paths
def test_invariant_3_without_links_clients_descend_alone(path):
    silent = Explicit(links=np.zeros((13, 6, 6), bool))
    exp = experiment(DIGRAPH, SpodGT(0.1), schedule=silent, rounds=12, x0=starts(6))
    x = starts(6)
    for found in trajectory(exp, path=path):
        check_close(found.numpy(), x)
        x = x - 0.1 * gradients(exp.problem, x)


def test_a_round_sends_both_vectors_once_per_link_that_fired():
    exp = experiment(DIGRAPH, SpodGT(0.1), schedule=COINS, rounds=15)
    activity = COINS.bind(DIGRAPH, Draws(0))
    fired = sum(int(activity.links(t, "peers").sum()) for t in range(1, 16))
    computed = sum(int(activity.nodes(t).sum()) for t in range(16))
    ledger = final(exp).ledger
    assert (ledger.messages, ledger.gradients) == (fired, computed)
    assert ledger.bytes == fired * 2 * exp.problem.n * 8


# --- Reductions.

NOISY = quadratic(6, noise=0.3)


def run(rule, schedule, graph=DIGRAPH, problem=NOISY, rounds=24):
    return experiment(
        graph, rule, schedule=schedule, problem=problem, rounds=rounds, seed=5, x0=starts(6)
    )


@paths
@pytest.mark.parametrize(
    "graph", [graphs.ring(6), graphs.star(6), graphs.geometric(6, radius=0.5, seed=1)]
)
def test_with_everything_on_and_one_symmetric_matrix_it_is_dsgt_6(path, graph):
    able = Bernoulli(nodes=1.0, links=1.0)
    check_runs_agree(
        run(SpodGT(0.1), able, graph), run(DSGT(0.1, form=6), Always(), graph), ("x", "y"), path
    )


@paths
def test_with_a_doubly_stochastic_matrix_that_is_not_symmetric_it_is_form_6_as_well(path):
    W = 0.5 * np.eye(6) + 0.3 * np.roll(np.eye(6), 1, axis=0) + 0.2 * np.roll(np.eye(6), 2, axis=0)
    exp = experiment(graphs.from_matrix(W), SpodGT(0.1), x0=starts(6))

    def form_6():
        x = starts(6)
        y = gradients(exp.problem, x)
        while True:
            yield {"x": x, "y": y}
            old, x = x, W @ (x - 0.1 * y)
            y = W @ y + gradients(exp.problem, x) - gradients(exp.problem, old)

    check_states(exp, path, form_6())


@paths
def test_with_everything_on_it_is_ab_that_mixes_after_adding(path):
    """With z = B y: x <- A x - eta z, z <- B (z + change of g), from z = B g."""
    exp = experiment(DIGRAPH, SpodGT(0.1), x0=starts(6))
    A, B = mixing_matrices(DIGRAPH)

    def after_adding():
        x = starts(6)
        z = B @ gradients(exp.problem, x)
        while True:
            yield {"x": x}
            old, x = x, A @ x - 0.1 * z
            z = B @ (z + gradients(exp.problem, x) - gradients(exp.problem, old))

    check_states(exp, path, after_adding())


@paths
@skips
@pytest.mark.parametrize(
    ("rule", "matching"),
    [
        (SynchronousGT, Bernoulli(nodes=1.0, links=1.0)),
        (SporadicPushPull, Bernoulli(nodes=1.0, links=0.3)),
        (SporadicKGT, Bernoulli(nodes=0.4, links=1.0)),
    ],
)
def test_presets_are_spod_gt_under_the_matching_coins_bit_for_bit(path, skip, rule, matching):
    coins = Bernoulli(nodes=0.4, links=0.3)
    # Under the other two nobody skips, and they refuse to be told how.
    preset = rule(0.1, skip=skip) if rule is SporadicKGT else rule(0.1)
    assert same_run(run(preset, coins), run(SpodGT(0.1, skip=skip), matching), path)
    assert not same_run(run(preset, coins), run(SpodGT(0.1, skip=skip), coins), path)


def every_so_many(K, rounds=24):
    """All links in rounds 1, K + 1, 2K + 1, ..., every client in every round."""
    talks = np.array([t > 0 and (t - 1) % K == 0 for t in range(rounds + 1)])
    return Explicit(links=np.tile(talks[:, None, None], (1, 6, 6)))


@paths
@pytest.mark.parametrize(
    ("p", "K"),
    [
        (1.0, 1),
        (0.5, 2),
        (0.3, 4),
        ([1.0, 1.0, 1.0, 0.5, 0.5, 0.2], 2),
        ([1.0, 1.0, 1.0, 0.5, 0.5, 0.1], 3),
    ],
)
def test_periodic_gt_takes_its_period_from_the_coins(path, p, K):
    """K is the mean of 1 / p_i rounded up: 1, 2, 10/3, 2, 17/6."""
    coins = Bernoulli(nodes=p, links=0.2)
    assert same_run(run(PeriodicGT(0.1), coins), run(SpodGT(0.1), every_so_many(K)), path)
    assert not same_run(run(PeriodicGT(0.1), coins), run(SpodGT(0.1), every_so_many(K + 1)), path)


@paths
def test_periodic_gt_with_a_given_period(path):
    for schedule in (Always(), Bernoulli(nodes=0.5, links=0.2)):
        assert same_run(
            run(PeriodicGT(0.1, K=5), schedule), run(SpodGT(0.1), every_so_many(5)), path
        )


def test_presets_take_a_step_size_per_client():
    etas = (0.1, 0.05, InverseSqrt(0.02, 3.0), 0.2, 0.1, 0.03)
    for rule in PRESETS:
        one = run(rule(etas), Always())
        assert same_run(one, run(SpodGT(etas), Always()), "auto")
        assert not same_run(one, run(SpodGT(0.1), Always()), "auto")


# --- Limits.

PROBLEM = random_quadratic(6, 3, seed=1)
OPTIMUM = np.linalg.solve(PROBLEM.A.sum(axis=0), PROBLEM.b.sum(axis=0))


@pytest.mark.parametrize(
    ("rule", "schedule", "rounds"),
    [
        (SpodGT(0.1), Always(), 500),
        (SpodGT((0.1, 0.05, 0.08, 0.02, 0.1, 0.06)), Always(), 700),
        (
            SpodGT(0.05, skip="hold"),
            Bernoulli(nodes=[0.9, 0.3, 0.5, 0.7, 0.4, 0.6], links=0.6),
            1500,
        ),
        (SynchronousGT(0.1), COINS, 500),
        (SporadicPushPull(0.05), Bernoulli(nodes=0.3, links=0.5), 1200),
        (SporadicKGT(0.05, skip="hold"), Bernoulli(nodes=0.4, links=0.2), 1200),
        (PeriodicGT(0.02, K=3), Always(), 1800),
    ],
    ids=lambda value: type(value).__name__,
)
def test_where_nothing_is_withdrawn_every_client_reaches_the_optimum(rule, schedule, rounds):
    """Clients differ, so that only a tracker of all gradients can lead there."""
    x = final(
        experiment(DIGRAPH, rule, schedule=schedule, problem=PROBLEM, rounds=rounds)
    ).x.numpy()
    assert np.abs(x - OPTIMUM).max() < 1e-8


def test_skipping_clients_withdraw_and_the_mean_settles_where_gradients_weighted_by_p_cancel():
    """On quadratics the mean of x tends to where sum_i p_i grad F_i = 0.

    That is the only fixed point of the closed recursion which the mean obeys. The long-run mean is
    within five standard errors of it, by batch means.
    """
    p, blocks = np.array([1.0, 0.3, 0.8, 0.2, 0.6, 0.9]), 20
    weighted = np.linalg.solve(np.einsum("i,ijk->jk", p, PROBLEM.A), p @ PROBLEM.b)
    schedule = Bernoulli(nodes=p, links=0.7)
    exp = experiment(DIGRAPH, SpodGT(0.02), problem=PROBLEM, schedule=schedule, rounds=6500, seed=1)
    means = np.array([snapshot.x.mean(dim=0).numpy() for snapshot in iterate(exp)])[501:]
    batches = means.reshape(blocks, -1, 3).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(blocks)
    apart = np.linalg.norm(weighted - OPTIMUM)
    assert (5 * error < 0.15 * apart).all()  # sharp enough to tell the two points apart
    assert (np.abs(batches.mean(axis=0) - weighted) < 5 * error).all()


# --- What is refused.


@pytest.mark.parametrize("rule", [SpodGT, *PRESETS])
@pytest.mark.parametrize(
    "lr",
    [
        0.0, -0.1, math.inf, math.nan, (), (0.1, 0.0), (0.1, -0.2), (0.1, math.nan),
        (math.inf, 0.1), "fast", None, True, (0.1, "fast"), (0.1, None), ((0.1, 0.2), 0.1),
    ],
)  # fmt: skip
def test_impossible_step_sizes_are_refused(rule, lr):
    with pytest.raises(ConfigError, match=rf"{rule.__name__}\.lr must be"):
        rule(lr)


@pytest.mark.parametrize("rule", [SpodGT, *PRESETS])
def test_other_ways_to_skip_are_refused(rule):
    with pytest.raises(
        ConfigError, match=rf"{rule.__name__}\.skip must be 'zero' or 'hold', found 'keep'"
    ):
        rule(0.1, skip="keep")


@pytest.mark.parametrize("count", [1, 5, 7])
def test_as_many_step_sizes_as_clients_are_needed(count):
    for eta in (0.1, InverseSqrt(0.1, 5.0)):
        with pytest.raises(ConfigError, match=rf"SpodGT\.lr has {count} entries for 6 clients"):
            experiment(DIGRAPH, SpodGT((eta,) * count), rounds=1)


def test_a_period_below_one_round_is_refused():
    with pytest.raises(ConfigError, match="at least 1 round"):
        final(experiment(DIGRAPH, PeriodicGT(0.1, K=0), rounds=1))
