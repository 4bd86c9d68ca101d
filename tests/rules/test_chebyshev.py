"""Chebyshev-accelerated mixing against numpy's Chebyshev polynomials of W."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.chebyshev import Chebyshev as Series

import peerloom as pl
from peerloom import graphs
from peerloom.codecs import Coordinates, Dense, TopK
from peerloom.config import comparison_from
from peerloom.core import ConfigError, average, equal_average, pull, push
from peerloom.problems import L1, Quadratic
from peerloom.registry import describe
from peerloom.rules import (
    BEER,
    CHOCO,
    DGD,
    DSGT,
    EXTRA,
    Chebyshev,
    CooperativeSGD,
    Depositum,
    DSpodFL,
    EpidemicLearning,
    PaME,
    ProxGT,
    SpodGT,
)
from peerloom.runtime import trace
from peerloom.runtime.shards import run_sharded
from peerloom.schedules import Always, Bernoulli, Every, Explicit
from peerloom.testing import check_rule
from peerloom.theory import advise
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
from tests.oracles import gradients

GRAPH = graphs.geometric(7, radius=0.5, seed=1)
moduli = st.floats(0, 0.999)


def polynomial(W, K, modulus):
    """T_K(W / modulus) / T_K(1 / modulus), eigenvalue by eigenvalue."""
    values, vectors = np.linalg.eigh(W)
    if modulus == 0:
        left = values**K
    else:
        T = Series.basis(K)
        left = T(values / modulus) / T(1 / modulus)
    return vectors @ np.diag(left) @ vectors.T


def still(graph, rule, **options):
    """An experiment in which there is nothing to learn."""
    m = graph.rows
    problem = Quadratic(np.zeros((m, 3, 3)), np.zeros((m, 3)))
    return experiment(graph, rule, problem=problem, **{"x0": starts(m), **options})


@paths
@given(graph=undirected_graphs(), K=st.integers(2, 9), modulus=st.floats(0.05, 0.999))
@settings(max_examples=25)
def test_a_mixing_is_the_polynomial_of_w(path, graph, K, modulus):
    exp = still(graph, Chebyshev(DGD(0.1), K, modulus), rounds=1)
    first, second = (x.numpy() for x in trajectory(exp, path=path))
    wanted = polynomial(graph.peers.matrix(), K, modulus) @ first
    np.testing.assert_allclose(second, wanted, rtol=0, atol=1e-10)


@given(graph=undirected_graphs(), K=st.integers(2, 40), modulus=moduli)
@settings(max_examples=40)
def test_the_mean_is_kept_and_nothing_grows_whatever_the_modulus(graph, K, modulus):
    exp = still(graph, Chebyshev(DGD(0.1), K, modulus), rounds=3)
    found = np.stack([x.numpy() for x in trajectory(exp)])
    np.testing.assert_allclose(found.mean(axis=1), found[:1].mean(axis=1).repeat(4, 0), atol=1e-10)
    apart = np.linalg.norm(found - found.mean(axis=1, keepdims=True), axis=(1, 2))
    assert (np.diff(apart) <= 1e-10).all()


@given(graph=undirected_graphs(least=3), K=st.integers(2, 12))
@settings(max_examples=25)
def test_it_contracts_by_one_over_t_k(graph, K):
    """The eigenvector at the modulus itself shrinks by 1 / T_K(1 / modulus), no other by less."""
    W, modulus = graph.peers.matrix(), second_modulus(graph.peers.matrix())
    if not 0.05 < modulus < 0.999:
        return
    values, vectors = np.linalg.eigh(W)
    wanted = 1 / Series.basis(K)(1 / modulus)
    others = [k for k in range(len(values)) if k != np.argmax(values)]
    shrunk = []
    for k in others:
        x0 = np.repeat(vectors[:, k : k + 1], 3, axis=1)
        last = final(still(graph, Chebyshev(DGD(0.1), K, modulus), rounds=1, x0=x0)).x.numpy()
        shrunk.append(np.linalg.norm(last) / np.linalg.norm(x0))
    assert max(shrunk) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    assert wanted <= modulus**K * (1 + 1e-12)


def test_the_figures_of_the_papers_page():
    modulus = second_modulus(graphs.ring(10).peers.matrix())
    left = (modulus, modulus**5, 1 / Series.basis(5)(1 / modulus))
    assert [round(float(each), 3) for each in left] == [0.873, 0.506, 0.138]
    text = (Path(__file__).parents[2] / "docs" / "papers" / "depositum.md").read_text()
    assert "five plain ones .506, five accelerated ones .138" in " ".join(text.split())


def test_the_first_weights_are_those_of_the_docstring():
    W, x0 = GRAPH.peers.matrix(), starts(7)
    m = 0.8
    one = W @ x0
    two = 1 / (1 - m**2 / 2)
    after = two * W @ one - (two - 1) * x0
    three = 1 / (1 - m**2 * two / 4)
    wanted = three * W @ after - (three - 1) * one
    found = final(still(GRAPH, Chebyshev(DGD(0.1), 3, m), rounds=1)).x.numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-13)


def test_with_modulus_zero_it_mixes_k_times():
    exp = experiment(GRAPH, ProxGT(0.1, K=4), x0=starts(7))
    other = experiment(GRAPH, Chebyshev(ProxGT(0.1), 4, 0.0), x0=starts(7))
    for one, two in zip(trajectory(exp), trajectory(other), strict=True):
        assert torch.equal(one, two)


@paths
def test_proxgt_with_chebyshev_mixing_in_plain_loops(path):
    """y+ = P_K(W)(y + v - v_old), x+ = P_K(W) prox(x - alpha y+)."""
    exp = experiment(GRAPH, Chebyshev(ProxGT(0.1), 3, 0.7), x0=starts(7))
    P = polynomial(GRAPH.peers.matrix(), 3, 0.7)
    x, y, old = starts(7), np.zeros((7, 3)), np.zeros((7, 3))
    for found in trajectory(exp, path=path):
        np.testing.assert_allclose(found.numpy(), x, atol=1e-11)
        v = np.asarray(gradients(exp.problem, x))
        y, old = P @ (y + v - old), v
        x = P @ (x - 0.1 * y)


@pytest.mark.parametrize(
    "rule", [DGD(0.05), DSGT(0.05), ProxGT(0.05, K=2), EXTRA(0.05), Depositum(0.05)]
)
def test_every_mixing_is_k_messages(rule):
    K = 3
    graph = graphs.ring(6)
    plain, many = (
        final(experiment(graph, each, rounds=5)).ledger for each in (rule, Chebyshev(rule, K, 0.8))
    )
    assert many.messages == K * plain.messages
    assert many.bytes == K * plain.bytes
    assert many.gradients == plain.gradients
    assert len(trace(Chebyshev(rule, K, 0.8)).mixings) == K * len(trace(rule).mixings)


@pytest.mark.parametrize("rule", [DGD(0.05), DSGT(0.05), ProxGT(0.05, K=2), EXTRA(0.05)])
def test_it_keeps_the_contract_with_any_rule(rule):
    check_rule(Chebyshev(rule, 3, 0.7))


def test_shards_give_the_simulators_bits():
    exp = experiment(GRAPH, Chebyshev(DSGT(0.05), 4, 0.7), x0=starts(7), rounds=6)
    found = run_sharded(exp, [[k] for k in range(7)])
    assert torch.equal(found.path, torch.stack(trajectory(exp, path="links")))


def test_links_that_all_rest_mix_nothing():
    exp = still(GRAPH, Chebyshev(Depositum(0.05), 3, 0.7), schedule=Every(2), rounds=3)
    start, first, second, third = trajectory(exp)
    np.testing.assert_allclose(first, start, atol=1e-14)
    np.testing.assert_allclose(second, start, atol=1e-14)
    wanted = polynomial(GRAPH.peers.matrix(), 3, 0.7) @ start.numpy()
    np.testing.assert_allclose(third, wanted, atol=1e-12)


def test_an_exact_rule_stays_exact_and_takes_fewer_rounds_on_a_poor_graph():
    graph = graphs.ring(16)
    rounds = {}
    for rule in (DSGT(0.05), Chebyshev(DSGT(0.05), 4, second_modulus(graph.peers.matrix()))):
        exp = experiment(graph, rule, rounds=1500)
        best = exp.problem.solution()
        off = [np.abs(x.numpy() - best).max() for x in trajectory(exp)]
        assert off[-1] < 1e-9
        rounds[type(rule).__name__] = next(t for t, error in enumerate(off) if error < 1e-6)
    assert rounds["Chebyshev"] < rounds["DSGT"]


def test_it_takes_what_the_other_rule_needs():
    assert Chebyshev(ProxGT(0.1), 3, 0.5).needs.prox
    assert not Chebyshev(DGD(0.1), 3, 0.5).needs.prox
    assert Chebyshev(EXTRA(0.1), 3, 0.5).needs.links == "all"
    assert Chebyshev(DGD(0.1), 3, 0.5).needs.links == "together"
    assert Chebyshev(DGD(0.1), 3, 0.5).plan == DGD(0.1).plan
    h = Quadratic(np.zeros((7, 3, 3)), np.zeros((7, 3)), h=L1(0.1))
    with pytest.warns(pl.errors.Caution, match="minimises f"):
        experiment(GRAPH, Chebyshev(Depositum(0.1, beta=0.5), 2, 0.5), problem=h)
    with pytest.raises(ConfigError, match="takes no proximal step"):
        experiment(GRAPH, Chebyshev(DGD(0.1), 2, 0.5), problem=h)


@pytest.mark.parametrize(
    "rule", [CHOCO(0.1), BEER(0.1), PaME(4.0), EpidemicLearning(0.1), SpodGT(0.1)]
)
def test_rules_that_mix_otherwise_are_refused(rule):
    with pytest.raises(ConfigError, match=f"and {type(rule).__name__} does not"):
        Chebyshev(rule, 3, 0.5)


def test_what_cannot_bear_it_is_refused():
    rule = Chebyshev(DSpodFL(0.1), 3, 0.5)
    check_refuses_unequal_links(rule)
    with pytest.raises(ConfigError, match="all links of a round, or none"):
        final(experiment(GRAPH, rule, schedule=Bernoulli(links=0.5)))
    once = np.ones((11, 7, 7), bool)
    once[4, GRAPH.peers.dst[0], GRAPH.peers.src[0]] = False
    with pytest.raises(ConfigError, match="in round 4"):
        final(experiment(GRAPH, rule, schedule=Explicit(links=once)))
    for message in (Coordinates(0.5), Coordinates(0.5, per_pair=True), Dense("float16"), TopK(0.5)):
        with pytest.raises(ConfigError, match="Chebyshev cannot use"):
            experiment(GRAPH, rule, message=message)


def test_what_is_no_wrapper_of_a_rule_is_refused():
    with pytest.raises(ConfigError, match=r"Chebyshev\.rule must be a rule"):
        Chebyshev(DGD, 3, 0.5)
    with pytest.raises(ConfigError, match="K must be at least 2, found 1"):
        Chebyshev(DGD(0.1), 1, 0.5)
    for modulus in (-0.1, 1.0, float("nan")):
        with pytest.raises(ConfigError, match="modulus must be from 0 to below 1"):
            Chebyshev(DGD(0.1), 3, modulus)


@pytest.mark.parametrize("offer", [push, average, equal_average])
def test_other_offers_of_ones_own_rule_are_refused(offer):
    class Mine(DGD):
        def step(self, s, port):
            return type(s)(port.mix(offer(s.x)))

    with pytest.raises(ConfigError, match="rows that are pulled, not of pushed, averaged"):
        final(experiment(GRAPH, Chebyshev(Mine(0.1), 2, 0.5)))


def test_several_offers_travel_in_one_message_and_pull_may_be_said():
    class Mine(DGD):
        def step(self, s, port):
            one, two = port.mix(pull(s.x), 2 * s.x)
            return type(s)(two - one)

    found = final(still(GRAPH, Chebyshev(Mine(0.1), 3, 0.7), rounds=1)).x
    wanted = polynomial(GRAPH.peers.matrix(), 3, 0.7) @ starts(7)
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_compressed_differences_of_ones_own_rule_are_refused():
    class Mine(DGD):
        def step(self, s, port):
            return type(s)(port.mix(port.compress(s.x)))

    with pytest.raises(ConfigError, match="not of compressed differences"):
        final(experiment(GRAPH, Chebyshev(Mine(0.1), 2, 0.5)))


@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize(
    ("rule", "schedule"),
    [(DGD(1e-9), Always()), (ProxGT(1e-9, K=2), Always()), (CooperativeSGD(1e-9, tau=3), Always())],
)
def test_theory_predicts_what_a_round_leaves(rule, schedule, K):
    graph = graphs.ring(12)
    modulus = second_modulus(graph.peers.matrix())
    values, vectors = np.linalg.eigh(graph.peers.matrix())
    left = np.abs(Series.basis(K)(values[:-1] / modulus))
    worst = np.repeat(vectors[:, [np.argmax(left)]], 3, axis=1)
    exp = still(graph, Chebyshev(rule, K, modulus), schedule=schedule, rounds=6, x0=worst)
    found = advise(exp, quick=True).contraction
    models = [x.numpy() for x in trajectory(exp)]
    apart = [np.square(x - x.mean(axis=0)).sum() for x in models]
    rounds = 3 if isinstance(rule, CooperativeSGD) else 1
    assert (apart[rounds] / apart[0]) ** (1 / rounds) == pytest.approx(found.lasting, rel=1e-6)
    assert found.drawn <= found.lasting * (1 + 1e-6)


def test_a_file_can_say_it():
    table = {
        "rounds": 3,
        "seeds": [1],
        "graph": {"name": "ring", "clients": 6},
        "problem": {"name": "Classification", "model": "softmax"},
        "algorithms": [
            {"name": "Chebyshev", "rule": {"name": "DSGT", "lr": 0.1}, "K": 2, "modulus": 0.7}
        ],
    }
    (exp,) = comparison_from(table).experiments
    assert exp.algorithm == Chebyshev(DSGT(0.1), 2, 0.7)
    assert describe(exp.algorithm) == table["algorithms"][0] | {
        "rule": {"name": "DSGT", "lr": 0.1, "form": 6}
    }
