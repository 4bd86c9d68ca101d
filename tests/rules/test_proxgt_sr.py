"""ProxGT-SR-O, ProxGT-SR-E and PMGT-SVRG in plain loops, batch by batch."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import peerloom as pl
from peerloom import graphs
from peerloom.core import ConfigError, Draws, Placement
from peerloom.problems import L1, BySize, Classification
from peerloom.rules import PMGTSVRG, Chebyshev, ProxGT, ProxGTSRE, ProxGTSRO
from peerloom.runtime import iterate, trace
from peerloom.runtime.offload import OffloadedProblem
from peerloom.runtime.shards import run_sharded
from peerloom.schedules import Always, Bernoulli, Explicit, Refresh, Split
from peerloom.testing import check_rule
from peerloom.theory.activity_rates import activity_rates
from peerloom.theory.costs import costs
from tests.builders import (
    check_refuses_unequal_links,
    experiment,
    final,
    paths,
    quadratic,
    starts,
    trajectory,
    undirected_graphs,
)
from tests.oracles import check_close, mixing_matrices, soft

GRAPH = graphs.geometric(6, radius=0.5, seed=1)
SIX = np.arange(6)
LAM = 0.2
SIZES = BySize((1, 2, 3, 1, 2, 3))


def noisy(m):
    return replace(quadratic(m, noise=0.5), h=L1(LAM))


def gradients_of(exp):
    """One client's gradient in round t: on batch k, or on all of its samples."""
    m = exp.graph.rows
    place = Placement(np.arange(m), m, torch.device("cpu"), torch.float64)
    problem = exp.problem.bind(place, Draws(exp.seed))

    def g(i, x, t, k):
        rows = torch.from_numpy(np.tile(x, (m, 1)))
        found = problem.whole_gradients(rows, np.arange(m)) if k == "all" else None
        if found is None:
            found = problem.grad(rows, np.arange(m), t, k)
        return found[i].numpy()

    return g


def loops(exp, computes):
    """Section 2.2's ProxGT with another v, client by client; `computes(t)` lists v_i."""
    rule, m, g = exp.algorithm, exp.graph.rows, gradients_of(exp)
    W = np.linalg.matrix_power(mixing_matrices(exp.graph)[0], rule.K)
    x = exp.start(range(m)).numpy()
    y, v, before, anchor, mu = np.zeros_like(x), np.zeros_like(x), x, x.copy(), np.zeros_like(x)
    yield x
    for t in range(1, exp.rounds + 1):
        new = np.zeros_like(x)
        for i in range(m):
            fresh = computes(t)[i]
            if isinstance(rule, PMGTSVRG):
                if fresh:
                    anchor[i], mu[i] = x[i], g(i, x[i], t, "all")
                new[i] = g(i, x[i], t, 0) - g(i, anchor[i], t, 0) + mu[i]
            elif not fresh:
                new[i] = v[i] + g(i, x[i], t, 0) - g(i, before[i], t, 0)
            elif isinstance(rule, ProxGTSRE):
                new[i] = g(i, x[i], t, "all")
            else:
                new[i] = np.mean([g(i, x[i], t, k) for k in range(rule.large)], axis=0)
        y, v = W @ (y + new - v), new
        step = rule.lr
        z = [[soft(float(c), step * LAM) for c in row] for row in x - step * y]
        x, before = W @ np.array(z), x
        yield x


def every(q, m):
    return lambda t: [(t - 1) % q == 0] * m


RULES = {
    "O": lambda **given: ProxGTSRO(0.1, large=3, **given),
    "E": lambda **given: ProxGTSRE(0.1, **given),
    "SVRG": lambda **given: PMGTSVRG(0.1, **given),
}
rules = pytest.mark.parametrize("make", RULES.values(), ids=RULES)


@paths
@rules
@pytest.mark.parametrize("K", [1, 2])
@given(graph=undirected_graphs(least=3, most=6), seed=st.integers(0, 99), q=st.integers(1, 5))
@settings(max_examples=4)
def test_it_is_its_equation(path, make, K, graph, seed, q):
    m = graph.rows
    exp = experiment(
        graph, make(q=q, K=K), problem=noisy(m), x0=starts(m, seed=seed), rounds=8, seed=seed
    )
    for found, wanted in zip(trajectory(exp, path=path), loops(exp, every(q, m)), strict=True):
        check_close(found.numpy(), wanted, 1e-11)


@rules
def test_without_q_the_schedule_says_client_by_client_who_takes_a_large_batch(make):
    takes = np.random.default_rng(0).random((13, 6)) < 0.4
    takes[1] = True
    exp = experiment(
        GRAPH, make(), problem=noisy(6), x0=starts(6), rounds=12, schedule=Explicit(nodes=takes)
    )
    for found, wanted in zip(trajectory(exp), loops(exp, lambda t: takes[t]), strict=True):
        check_close(found.numpy(), wanted, 1e-11)


@rules
def test_on_samples_it_is_its_equation_too(make):
    """Batches are drawn, the gradient on all samples is that of clients of unequal size."""
    problem = Classification("softmax", partition=SIZES, batch=4, h=L1(LAM))
    exp = experiment(GRAPH, make(q=3), problem=problem, rounds=7)
    for found, wanted in zip(trajectory(exp), loops(exp, every(3, 6)), strict=True):
        check_close(found.numpy(), wanted, 1e-9)


def test_with_a_refresh_in_every_round_and_no_noise_all_are_proxgt():
    wanted = trajectory(experiment(GRAPH, ProxGT(0.1), x0=starts(6)))
    for make in RULES.values():
        found = trajectory(experiment(GRAPH, make(q=1), x0=starts(6)))
        for one, two in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-12)
        # Without noise a difference of gradients is exact, whatever q is.
        found = trajectory(experiment(GRAPH, make(q=4), x0=starts(6)))
        for one, two in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


@rules
def test_the_mean_tracker_is_the_mean_estimate(make):
    exp = experiment(GRAPH, make(q=3, K=2), problem=noisy(6), x0=starts(6))
    for snapshot in iterate(exp):
        s = snapshot.state
        check_close(s.y.mean(dim=0).numpy(), s.v.mean(dim=0).numpy())


def test_with_small_batches_svrg_reaches_the_optimum_that_sgd_circles():
    """A constant step: the noise of batches goes, where ProxGT's stays."""
    problem = Classification("softmax", batch=8, l2=0.05)
    off, whole = {}, replace(problem, batch="all")
    best = final(experiment(graphs.ring(4), ProxGT(0.5), problem=whole, rounds=800)).x
    for rule in (ProxGT(0.3), PMGTSVRG(0.3, q=20), ProxGTSRE(0.3, q=20)):
        x = final(experiment(graphs.ring(4), rule, problem=problem, rounds=400)).x
        off[type(rule).__name__] = float((x - best).norm() / best.norm())
    assert off["PMGTSVRG"] < off["ProxGT"] / 20
    assert off["ProxGTSRE"] < off["ProxGT"] / 20


@pytest.mark.parametrize(
    ("make", "large", "small"), [(RULES["O"], 3, 2), (RULES["E"], 3, 2), (RULES["SVRG"], 5, 2)]
)
def test_gradients_are_charged_by_batches(make, large, small):
    """10 samples in batches of 4 are 3 batches; the rounds are 1, 4, 7 of 8."""
    problem = Classification("softmax", pl.problems.blobs(60, seed=1), batch=4)
    exp = experiment(GRAPH, make(q=3), problem=problem, rounds=8)
    ledger = final(exp).ledger
    assert ledger.rows.gradients.tolist() == [3 * large + 5 * small] * 6
    assert ledger.processing_delay() == 3 * large + 5 * small
    found = costs(replace(exp, rounds=9), activity_rates(exp))
    assert found.gradients == pytest.approx(6 * (large + 2 * small) / 3)
    assert found.processing_delay == pytest.approx((large + 2 * small) / 3)


def test_what_a_round_takes_is_known_before():
    found = trace(ProxGTSRO(0.1, large=7))
    assert (found.gradients, found.whole, found.idle) == (7, 0, 2)
    found = trace(ProxGTSRE(0.1))
    assert (found.gradients, found.whole, found.idle) == (0, 1, 2)
    found = trace(PMGTSVRG(0.1, K=2))
    assert (found.gradients, found.whole, found.idle) == (2, 1, 2)
    assert len(found.mixings) == 4


@rules
def test_it_waits_for_everybody_and_charges_the_able(make):
    """Coins say how able clients are; q puts its own rounds in their place."""
    problem = noisy(6)
    sporadic, steady = (
        experiment(GRAPH, make(q=3), problem=problem, rounds=6, schedule=schedule)
        for schedule in (Bernoulli(nodes=0.25, links=0.5), Always())
    )
    assert all(map(torch.equal, trajectory(sporadic), trajectory(steady)))
    one, two = final(sporadic).ledger, final(steady).ledger
    assert one.processing_delay() == 4 * two.processing_delay()
    assert one.transmission_delay() == pytest.approx(2 * two.transmission_delay())


@rules
@pytest.mark.parametrize("given", [{"q": 3}, {}])
def test_it_keeps_the_contract(make, given):
    check_rule(make(**given))


@rules
def test_shards_give_the_simulators_bits(make):
    problem = Classification("softmax", partition=SIZES, batch=4)
    exp = experiment(GRAPH, make(q=3), problem=problem, rounds=5, x0=np.zeros(problem.n))
    found = run_sharded(exp, [[0, 3], [1], [2, 4, 5]])
    assert torch.equal(found.path, torch.stack(trajectory(exp, path="links")))
    assert found.ledger.gradients == final(exp).ledger.gradients


def test_gradients_may_be_computed_on_a_device_of_their_own():
    problem = Classification("softmax", batch=4)
    place = Placement(np.arange(4), 4, torch.device("cpu"), torch.float64)
    there = OffloadedProblem(problem, place, Draws(1), torch.device("cpu"))
    here = problem.bind(place, Draws(1))
    x = torch.zeros(4, problem.n, dtype=torch.float64)
    assert torch.equal(
        there.whole_gradients(x, np.array([1])), here.whole_gradients(x, np.array([1]))
    )
    assert there.batches.tolist() == here.batches.tolist()


def test_a_problem_without_whole_gradients_is_refused():
    class Bare:
        n = 3

        def start(self, seed):
            return torch.zeros(3, dtype=torch.float64)

        def bind(self, place, draws):
            return self

        def grad(self, x, on, t, batch=0):
            return x[torch.from_numpy(on)]

    for rule in (ProxGTSRE(0.1), PMGTSVRG(0.1)):
        with pytest.raises(ConfigError, match="the problem, Bare, has none"):
            final(pl.Experiment(GRAPH, Bare(), rule, rounds=1))


@rules
def test_acceleration_is_that_of_any_rule(make):
    exp = experiment(GRAPH, Chebyshev(make(q=3), 3, 0.7), problem=noisy(6), rounds=6)
    plain = experiment(GRAPH, make(q=3), problem=noisy(6), rounds=6)
    assert final(exp).ledger.messages == 3 * final(plain).ledger.messages
    assert final(exp).ledger.gradients == final(plain).ledger.gradients


@rules
def test_q_takes_the_place_of_who_computes_and_leaves_the_links(make):
    """Under a schedule without coins: its links are followed, its clients are q's."""
    live = np.random.default_rng(1).random((9, 6, 6)) < 0.6
    live |= live.transpose(0, 2, 1)
    schedules = (
        Explicit(links=live),
        Explicit(nodes=np.zeros((9, 6), bool), links=live),
        Split(Refresh(3), Explicit(links=live)),
    )
    runs = [
        trajectory(experiment(GRAPH, rule, problem=noisy(6), rounds=8, schedule=schedule))
        for rule, schedule in zip((make(q=3), make(q=3), make()), schedules, strict=True)
    ]
    for one, two, three in zip(*runs, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)


def test_refresh_is_every_qth_round():
    activity = Refresh(3).bind(GRAPH, Draws(0))
    assert [bool(activity.nodes(t).all()) for t in range(9)] == [
        True, True, False, False, True, False, False, True, False
    ]  # fmt: skip
    assert all(activity.links(t, "peers").all() for t in range(9))
    with pytest.raises(ConfigError, match=r"Refresh\.q must be at least 1"):
        Refresh(0)


@rules
def test_what_cannot_be_is_refused(make):
    rule = make(q=3)
    name = type(rule).__name__
    check_refuses_unequal_links(rule)
    with pytest.raises(ConfigError, match=rf"{name}\.q must be at least 1"):
        make(q=0)
    with pytest.raises(ConfigError, match=rf"{name} needs lr > 0 and K >= 1"):
        make(K=0)
    for lr in (0.0, math.nan):
        with pytest.raises(ConfigError, match=rf"{name} needs lr > 0"):
            type(rule)(lr)
    with pytest.raises(ConfigError, match="large must be at least 1 batch"):
        ProxGTSRO(0.1, large=0)
