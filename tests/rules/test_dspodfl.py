"""DSpodFL and its presets (section 1.1): the equation in loops, invariants, reductions."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from peerloom import graphs
from peerloom.core import Draws
from peerloom.core.rates import InverseSqrt, Pieces
from peerloom.problems import Classification, Labels, blobs
from peerloom.rules import DGD, DFedAvg, DSpodFL, RandomizedGossip, SporadicSGD
from peerloom.runtime import build_port
from peerloom.schedules import Always, Bernoulli, Explicit, distributions
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
from tests.oracles import check_close, check_doubly_stochastic, check_dspodfl, gradient

PRESETS = [DSpodFL, DGD, RandomizedGossip, SporadicSGD, DFedAvg]
COINS = Bernoulli(nodes=distributions.Uniform(), links=distributions.Beta(0.5, 0.5))
GRAPH = graphs.geometric(6, radius=0.5, seed=1)


@paths
@given(graph=undirected_graphs(), seed=seeds)
@settings(max_examples=15)
def test_the_rule_is_its_equation(path, graph, seed):
    exp = experiment(
        graph, DSpodFL(0.1), schedule=COINS, seed=seed, rounds=6, x0=starts(graph.rows)
    )
    check_dspodfl(exp, path, lambda t: 0.1)


@paths
@pytest.mark.parametrize("rule", PRESETS)
def test_the_presets_are_the_same_equation(path, rule):
    check_dspodfl(
        experiment(GRAPH, rule(0.1), schedule=COINS, rounds=30, x0=starts(6)), path, lambda t: 0.1
    )


def test_the_step_may_change_with_the_round():
    shrinking = experiment(GRAPH, DSpodFL(InverseSqrt(0.2, gamma=5)), schedule=COINS, rounds=20)
    check_dspodfl(shrinking, "matrix", lambda t: 0.2 / math.sqrt(1 + (t - 1) / 5))
    pieces = experiment(GRAPH, DGD(Pieces((0.2, 0.05), (1, 8))), rounds=20)
    check_dspodfl(pieces, "matrix", lambda t: 0.2 if t < 8 else 0.05)


def matrices(graph, schedule, rounds, seed=0):
    """P of each round, as the net applies it: what becomes of the identity."""
    net = build_port(experiment(graph, schedule=schedule, problem=quadratic(graph.rows), seed=seed))
    found = []
    for net.t in range(1, rounds + 1):
        found.append(net.mix(torch.eye(graph.rows, dtype=torch.float64)).numpy())
    return np.array(found)


@given(graph=undirected_graphs(), seed=seeds)
@settings(max_examples=15)
def test_invariant_1_every_draw_is_symmetric_and_doubly_stochastic(graph, seed):
    for P in matrices(graph, COINS, 10, seed):
        check_doubly_stochastic(P)


@paths
@given(graph=undirected_graphs(), seed=seeds)
@settings(max_examples=10)
def test_invariant_2_mixing_preserves_the_mean(path, graph, seed):
    exp = experiment(
        graph, DSpodFL(0.1), schedule=COINS, seed=seed, rounds=6, x0=starts(graph.rows)
    )
    activity = COINS.bind(graph, Draws(seed))
    A, b = exp.problem.A, exp.problem.b
    xs = trajectory(exp, path=path)
    for t in range(1, 7):
        before, v = xs[t - 1].tolist(), activity.nodes(t)
        moves = [gradient(A[i], b[i], before[i]) for i in range(graph.rows) if v[i]]
        moved = np.sum(moves, axis=0) / graph.rows if moves else 0.0
        check_close(xs[t].mean(dim=0).numpy(), np.mean(before, axis=0) - 0.1 * moved, 1e-13)


@paths
def test_invariant_3_without_links_and_gradients_nothing_moves(path):
    nobody = Explicit(nodes=np.zeros((11, 6), bool), links=np.zeros((11, 6, 6), bool))
    xs = trajectory(experiment(GRAPH, DSpodFL(0.1), schedule=nobody, x0=starts(6)), path=path)
    assert all(torch.equal(x, xs[0]) for x in xs)


@given(graph=undirected_graphs(), seed=seeds)
@settings(max_examples=10)
def test_invariant_3_gossip_alone_never_spreads_models(graph, seed):
    idle = Bernoulli(nodes=0.0, links=0.4)
    xs = trajectory(
        experiment(graph, DSpodFL(0.1), schedule=idle, seed=seed, rounds=20, x0=starts(graph.rows))
    )
    spread = [float((x - x.mean(dim=0)).norm()) for x in xs]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in itertools.pairwise(spread))


def test_gossip_alone_reaches_the_mean_of_the_starts():
    x0 = starts(6)
    x = final(
        experiment(GRAPH, DSpodFL(0.1), schedule=Bernoulli(nodes=0.0, links=0.5), rounds=600, x0=x0)
    ).x
    check_close(x.numpy(), np.tile(x0.mean(axis=0), (6, 1)), 1e-10)


def test_invariant_4_the_first_two_moments_of_the_matrix():
    """Section 3.1's reference: path 0-1-2, r = 1/3, b01 = 0.5, b12 = 0.25."""
    b = np.array([[0, 0.5, 0], [0.5, 0, 0.25], [0, 0.25, 0]])
    P = matrices(graphs.path(3), Bernoulli(links=b), 6000)
    first = [
        [1 - 0.5 / 3, 0.5 / 3, 0],
        [0.5 / 3, 1 - 0.75 / 3, 0.25 / 3],
        [0, 0.25 / 3, 1 - 0.25 / 3],
    ]
    second = [
        [0.777778, 0.208333, 0.013889],
        [0.208333, 0.694444, 0.097222],
        [0.013889, 0.097222, 0.888889],
    ]
    for moment, wanted in ((P, first), (P @ P, second)):
        error = np.abs(moment.mean(axis=0) - wanted)
        assert (error <= 5 * moment.std(axis=0) / math.sqrt(len(P)) + 1e-6).all()
    largest = np.abs(np.linalg.eigvalsh((P @ P).mean(axis=0) - 1 / 3)).max()
    assert largest == pytest.approx(0.8495211814, abs=0.01)


def test_invariant_5_links_that_always_fire_contract_by_the_square():
    P = matrices(graphs.path(3), Bernoulli(links=1.0), 3)
    assert np.array_equal(P, [P[0]] * 3)
    J = np.full((3, 3), 1 / 3)
    assert np.abs(np.linalg.eigvalsh(P[0] @ P[0] - J)).max() == pytest.approx(4 / 9, rel=1e-12)
    assert np.abs(np.linalg.eigvalsh(P[0] - J)).max() ** 2 == pytest.approx(4 / 9, rel=1e-12)


NOISY = quadratic(6, noise=0.3)


def run(rule, schedule, problem=NOISY, **options):
    return experiment(
        GRAPH, rule(0.1), schedule=schedule, problem=problem, rounds=24, seed=5, **options
    )


@paths
def test_invariant_6_with_everybody_always_able_it_is_dgd_bit_for_bit(path):
    able, coins = Bernoulli(nodes=1.0, links=1.0), Bernoulli(nodes=0.3, links=0.2)
    for schedule in (coins, able, Always()):
        assert same_run(run(DSpodFL, able), run(DGD, schedule), path)
    assert not same_run(run(DSpodFL, coins), run(DGD, coins), path)


@paths
@pytest.mark.parametrize("wait", [1, 3, 5])
def test_with_an_explicit_cycle_it_is_dfedavg_bit_for_bit(path, wait):
    talks = np.array([t > 0 and t % (wait + 1) == 0 for t in range(25)])
    cycle = Explicit(
        nodes=np.tile(~talks[:, None], (1, 6)), links=np.tile(talks[:, None, None], (1, 6, 6))
    )
    coins = Bernoulli(nodes=1 / wait, links=0.2)
    assert same_run(run(DSpodFL, cycle), run(DFedAvg, coins), path)
    assert not same_run(run(DSpodFL, cycle), run(DGD, coins), path)


@paths
@pytest.mark.parametrize(
    ("rule", "matching"),
    [
        (RandomizedGossip, Bernoulli(nodes=1.0, links=0.3)),
        (SporadicSGD, Bernoulli(nodes=0.4, links=1.0)),
    ],
)
def test_presets_are_dspodfl_under_the_matching_coins_bit_for_bit(path, rule, matching):
    coins = Bernoulli(nodes=0.4, links=0.3)
    assert same_run(run(rule, coins), run(DSpodFL, matching), path)
    assert not same_run(run(rule, coins), run(DSpodFL, coins), path)


def test_reductions_hold_with_mini_batches():
    learning = Classification("softmax", blobs(120, 4, 3), Labels(1), batch=4)
    able, coins = Bernoulli(nodes=1.0, links=1.0), Bernoulli(nodes=0.4, links=0.3)
    assert same_run(run(DSpodFL, able, learning), run(DGD, coins, learning), "auto")
    links_only = Bernoulli(nodes=1.0, links=0.3)
    assert same_run(
        run(RandomizedGossip, coins, learning), run(DSpodFL, links_only, learning), "auto"
    )


def test_without_links_clients_descend_alone():
    problem = quadratic(6)
    exp = experiment(
        GRAPH, DSpodFL(0.1), problem=problem, schedule=Bernoulli(links=0.0), rounds=400
    )
    alone = [np.linalg.solve(A, b) for A, b in zip(problem.A, problem.b, strict=True)]
    check_close(final(exp).x.numpy(), alone, 1e-7)


@pytest.mark.parametrize("rule", PRESETS)
def test_directed_graphs_and_unequal_weights_are_refused(rule):
    check_refuses_unequal_links(rule(0.1))
