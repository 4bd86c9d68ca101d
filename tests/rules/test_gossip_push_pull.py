"""G-Push-Pull, one node at a time, against plain loops; and the schedule OneNode."""

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.core import Draws
from peerloom.errors import ConfigError
from peerloom.runtime import iterate
from peerloom.schedules import OneNode

GRAPH = pl.graphs.random_digraph(6, p=0.5, seed=2)
PROBLEM = pl.testing.random_quadratic(6, 4, seed=3)
B = np.zeros((6, 6))
B[GRAPH.peers.dst, GRAPH.peers.src] = 1 / (1 + GRAPH.peers.out_degree[GRAPH.peers.src])


def gradient(i, x):
    return np.asarray(PROBLEM.A)[i] @ x - np.asarray(PROBLEM.b)[i]


def experiment(rounds=40, lr=0.05, gamma=0.4, links=0.7, **changes):
    rule = pl.rules.GossipPushPull(lr, gamma)
    x0 = np.random.default_rng(1).normal(size=(6, 4))
    changes = {"x0": x0, "dtype": "float64", "seed": 4, **changes}
    return pl.Experiment(GRAPH, PROBLEM, rule, OneNode(links), rounds=rounds, **changes)


def oracle(exp, alpha, gamma):
    """One node wakes; it and its receivers step along their old trackers, and refresh them."""
    x = np.array(exp.x0)
    g = np.stack([gradient(i, x[i]) for i in range(6)])
    y = g.copy()
    activity = exp.schedule.bind(exp.graph, Draws(exp.seed))
    yield x.copy(), y.copy()
    for t in range(1, exp.rounds + 1):
        live = activity.links(t, "peers")
        heard = [
            (int(j), int(i))
            for j, i, on in zip(GRAPH.peers.dst, GRAPH.peers.src, live, strict=True)
            if on
        ]
        new_x, new_y = x.copy(), y.copy()
        awake = {i for _, i in heard}
        for i in awake:
            new_x[i] = x[i] - alpha * y[i]
        for j, i in heard:
            new_x[j] = (1 - gamma) * x[j] + gamma * x[i] - alpha * y[j]
            new_y[j] += B[j, i] * y[i]
            new_y[i] -= B[j, i] * y[i]
        for j in awake | {j for j, _ in heard}:
            fresh = gradient(j, new_x[j])
            new_y[j] += fresh - g[j]
            g[j] = fresh
        x, y = new_x, new_y
        yield x.copy(), y.copy()


@pytest.mark.parametrize("path", ["auto", "links"])
def test_the_rule_is_its_equation(path):
    exp = experiment()
    for snapshot, (x, y) in zip(iterate(exp, path=path), oracle(exp, 0.05, 0.4), strict=True):
        np.testing.assert_allclose(snapshot.state.x.numpy(), x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(snapshot.state.y.numpy(), y, rtol=0, atol=1e-12)


def test_the_node_that_wakes_steps_and_who_has_no_part_rests():
    exp = experiment(rounds=200)
    activity, links = exp.schedule.bind(exp.graph, Draws(exp.seed)), GRAPH.peers
    before, woken = None, 0
    for snapshot in iterate(exp):
        x = snapshot.state.x.numpy()
        if before is not None:
            live = activity.links(snapshot.t, "peers")
            takes_part = np.isin(range(6), [links.src[live], links.dst[live]])
            np.testing.assert_array_equal((x != before).any(axis=1), takes_part)
            woken += len(np.unique(links.src[live]))
        before = x
    assert woken > 150


def test_trackers_sum_to_the_last_gradients():
    for snapshot in iterate(experiment(rounds=200)):
        state = snapshot.state
        assert torch.allclose(state.y.sum(dim=0), state.g.sum(dim=0), atol=1e-11)


@pytest.mark.slow
def test_it_reaches_the_optimum():
    result = pl.simulate(experiment(rounds=40_000, lr=0.02, gamma=0.5, links=1.0))
    assert np.abs(result.x.numpy() - PROBLEM.solution()).max() < 1e-6


def test_one_node_wakes_and_all_are_as_likely():
    activity = OneNode(0.5).bind(GRAPH, Draws(1))
    counts, fired = np.zeros(6), 0
    for t in range(1, 3001):
        live = activity.links(t, "peers")
        senders = np.unique(GRAPH.peers.src[live])
        assert len(senders) <= 1
        counts[senders] += 1
        fired += live.sum()
    assert fired == pytest.approx(3000 * 0.5 * GRAPH.peers.out_degree.mean(), rel=0.06)
    awake = 3000 / 6 * (1 - 0.5**GRAPH.peers.out_degree)
    assert np.abs(counts - awake).max() < 5 * np.sqrt(500)


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="OneNode"):
        OneNode(0.0)
    with pytest.raises(ConfigError, match="gamma"):
        pl.rules.GossipPushPull(0.1, gamma=1.5)


def test_theory_counts_the_gradients_of_those_who_take_part():
    exp = experiment(rounds=3000)
    ledger, found = pl.simulate(exp).ledger, pl.theory.advise(exp).costs
    assert found.gradients == pytest.approx((ledger.gradients - 6) / exp.rounds, rel=0.04)
    assert found.messages == pytest.approx(ledger.messages / exp.rounds, rel=0.04)
    assert found.gradients < 4
