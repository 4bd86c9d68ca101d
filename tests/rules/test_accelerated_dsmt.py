"""DSMT with loopless Chebyshev acceleration, in plain loops with the augmented matrix."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.codecs import Coordinates, Dense
from peerloom.core import ConfigError
from peerloom.problems import Quadratic
from peerloom.rules import DSMT, AcceleratedDSMT
from peerloom.runtime import iterate
from peerloom.schedules import Bernoulli, Explicit
from peerloom.theory.matrices import second_modulus
from tests.builders import (
    check_refuses_unequal_links,
    experiment,
    final,
    paths,
    starts,
    trajectory,
    undirected_graphs,
)
from tests.oracles import check_close, check_states, gradients, mixing_matrices

GRAPH = graphs.geometric(6, radius=0.5, seed=1)


def doubled(W, modulus):
    """[(1 + eta) W, -eta I; I, 0]."""
    root = math.sqrt(1 - modulus**2)
    eta, m = (1 - root) / (1 + root), len(W)
    return np.block([[(1 + eta) * W, -eta * np.eye(m)], [np.eye(m), np.zeros((m, m))]])


def loops(x, G, alpha, gamma, W):
    """DSMT on pairs, one above the other, with the augmented matrix in the place of W."""
    m = len(x)
    pair, nu = np.vstack([x, x]), (1 - gamma) * G(x)
    y = np.vstack([nu, nu])
    while True:
        yield {"x": pair[:m], "y": y[:m], "x_before": pair[m:], "y_before": y[m:]}
        pair = W @ (pair - alpha * y)
        new = gamma * nu + (1 - gamma) * G(pair[:m])
        y, nu = W @ (y + np.vstack([new - nu, new - nu])), new


@paths
@given(
    graph=undirected_graphs(),
    seed=st.integers(0, 99),
    alpha=st.floats(0.02, 0.2),
    gamma=st.floats(0, 0.95),
    modulus=st.floats(0, 0.99),
)
@settings(max_examples=15)
def test_it_is_its_equation(path, graph, seed, alpha, gamma, modulus):
    x = starts(graph.rows, seed=seed)
    exp = experiment(graph, AcceleratedDSMT(alpha, modulus, gamma), x0=x, rounds=8)
    W = doubled(mixing_matrices(graph)[0], modulus)
    check_states(exp, path, loops(x, lambda X: gradients(exp.problem, X), alpha, gamma, W))


def test_with_modulus_zero_it_is_dsmt():
    exp, plain = (
        experiment(GRAPH, rule, x0=starts(6))
        for rule in (AcceleratedDSMT(0.1, 0.0, 0.5), DSMT(0.1, 0.5))
    )
    for one, two in zip(trajectory(exp), trajectory(plain), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


@paths
def test_means_are_those_of_momentum_and_of_plain_steps(path):
    exp = experiment(GRAPH, AcceleratedDSMT(0.1, 0.8, 0.7), x0=starts(6))
    nu, before = 0.0, None
    for snapshot in iterate(exp, path=path):
        s = snapshot.state
        nu = 0.7 * nu + 0.3 * gradients(exp.problem, snapshot.x).mean(axis=0)
        check_close(s.y.mean(dim=0).numpy(), nu)
        check_close(s.y_before.mean(dim=0).numpy(), nu)
        check_close(s.x_before.mean(dim=0).numpy(), s.x.mean(dim=0).numpy())
        if before is not None:
            wanted = (before.x - 0.1 * before.y).mean(dim=0).numpy()
            check_close(s.x.mean(dim=0).numpy(), wanted)
        before = s


@pytest.mark.parametrize("clients", [10, 20])
def test_agreement_comes_by_the_square_root_of_eta_a_round(clients):
    graph = graphs.ring(clients)
    modulus = second_modulus(graph.peers.matrix())
    nothing = Quadratic(np.zeros((clients, 3, 3)), np.zeros((clients, 3)))
    rule = AcceleratedDSMT(0.1, modulus)
    exp = experiment(graph, rule, problem=nothing, x0=starts(clients), rounds=50)
    models = [x.numpy() for x in trajectory(exp)]
    apart = [np.linalg.norm(x - x.mean(axis=0)) for x in models]
    # A double root: k times the power, so the tail of the sequence tells.
    rate = (apart[50] / 51 / (apart[20] / 21)) ** (1 / 30)
    assert rate == pytest.approx(modulus / (1 + math.sqrt(1 - modulus**2)), rel=0.02)


def test_it_reaches_the_optimum_and_sooner_than_dsmt_on_a_ring():
    graph = graphs.ring(20)
    modulus, first = second_modulus(graph.peers.matrix()), {}
    for rule in (DSMT(0.05, 0.5), AcceleratedDSMT(0.05, modulus, 0.5)):
        exp = experiment(graph, rule, rounds=4000)
        best = exp.problem.solution()
        off = [np.abs(x.numpy() - best).max() for x in trajectory(exp)]
        assert off[-1] < 1e-8
        first[type(rule).__name__] = next(t for t, error in enumerate(off) if error < 1e-6)
    assert first["AcceleratedDSMT"] < first["DSMT"]


def test_messages_are_those_of_dsmt():
    one, two = (
        final(experiment(GRAPH, rule, rounds=5)).ledger
        for rule in (DSMT(0.1), AcceleratedDSMT(0.1, 0.7))
    )
    assert (one.bytes, one.messages, one.gradients) == (two.bytes, two.messages, two.gradients)


def test_what_it_cannot_bear_is_refused():
    rule = AcceleratedDSMT(0.1, 0.7)
    check_refuses_unequal_links(rule)
    rests = np.ones((11, 6, 6), bool)
    rests[3, 0] = False
    with pytest.raises(ConfigError, match="in round 3 the schedule lets"):
        final(experiment(GRAPH, rule, schedule=Explicit(links=rests)))
    assert torch.equal(  # as DSMT does, it waits for all where there are coins
        final(experiment(GRAPH, rule, schedule=Bernoulli(links=0.5))).x,
        final(experiment(GRAPH, rule)).x,
    )
    for message in (Coordinates(0.5, per_pair=True), Dense("float16")):
        with pytest.raises(ConfigError, match="AcceleratedDSMT cannot use"):
            experiment(GRAPH, rule, message=message)
    for lr in (0.0, math.nan, math.inf):
        with pytest.raises(ConfigError, match="AcceleratedDSMT needs lr > 0"):
            AcceleratedDSMT(lr, 0.5)
    for modulus in (-0.1, 1.0):
        with pytest.raises(ConfigError, match=r"AcceleratedDSMT\.modulus"):
            AcceleratedDSMT(0.1, modulus)
