"""Clients that compute more often as the step shrinks (DSpodFL, Theorems I.5 and K.5)."""

import math
import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.config import comparison_from, experiment_to_toml, override
from peerloom.core import ConfigError, Draws, InverseSqrt, Pieces
from peerloom.rules import DGD, DSpodFL, SpodGT, SporadicSGD
from peerloom.runtime import iterate
from peerloom.schedules import Bernoulli, Cycle, Every, Split, distributions, planned
from peerloom.theory import advise
from peerloom.theory.activity_rates import activity_rates
from tests.builders import experiment, paths, quadratic, seeds, undirected_graphs
from tests.oracles import check_dspodfl

RING = graphs.ring(5)
START = [0.05, 0.3, 0.5, 0.9, 1.0]
RATE = InverseSqrt(start=0.2, gamma=3.0)


def bound(schedule, seed=0):
    return schedule.bind(RING, Draws(seed))


def risen(d, t, gamma=3.0):
    """1 - ((1 - d_i) / alpha^0) alpha^k with alpha^k = alpha^0 / sqrt(1 + k / gamma), k = t - 1."""
    alpha0 = 0.2
    alpha = alpha0 / math.sqrt(1 + max(t - 1, 0) / gamma)
    return [1 - ((1 - one) / alpha0) * alpha for one in d]


def test_the_probability_of_every_round_is_the_papers():
    activity = bound(Bernoulli(nodes=START, nodes_follow=RATE))
    for t in range(40):
        np.testing.assert_allclose(activity.node_probability(t), risen(START, t), rtol=1e-14)
        np.testing.assert_allclose(activity.node_chance(t), risen(START, t), rtol=1e-14)
        assert (activity.link_probability(t, "peers") == 1).all()
    assert activity.node_probability(10**9).min() > 0.999


def test_a_client_computes_where_its_uniform_is_below_the_probability_of_the_round():
    """So that a rising probability only ever adds to what a constant one lets happen."""
    rising, still = (bound(Bernoulli(nodes=START, nodes_follow=follow)) for follow in (RATE, None))
    draws, added = Draws(0), 0
    for t in range(1, 400):
        u = draws("node", t, np.arange(5))[:, 0]
        assert rising.nodes(t).tolist() == [a < b for a, b in zip(u, risen(START, t), strict=True)]
        assert not (still.nodes(t) & ~rising.nodes(t)).any()
        added += int((rising.nodes(t) & ~still.nodes(t)).sum())
    assert added > 100


@paths
@given(graph=undirected_graphs(), seed=seeds, gamma=st.floats(0.5, 50.0))
def test_dspodfl_with_rising_probabilities_is_its_equation(path, graph, seed, gamma):
    rate = InverseSqrt(0.1, gamma)
    coins = Bernoulli(nodes=0.3, links=0.6, nodes_follow=rate)
    exp = experiment(graph, DSpodFL(lr=rate), schedule=coins, seed=seed, rounds=8)
    check_dspodfl(exp, path, rate.at)


@pytest.mark.parametrize("rule", [DSpodFL, DGD, SpodGT])
def test_a_gradient_costs_what_it_costs_in_its_own_round(rule):
    """Sum over rounds of v_i / d_i^(k); SpodGT's first gradients are those of iteration 0."""
    coins = Bernoulli(nodes=START, links=0.5, nodes_follow=RATE)
    exp = experiment(RING, rule(lr=0.01), schedule=coins, rounds=30)
    activity = exp.active_schedule.bind(exp.graph, Draws(exp.seed))
    spent, whole = np.zeros(5), 0.0
    for snapshot in iterate(exp):
        t = snapshot.t
        if t or rule is SpodGT:
            v, d = activity.nodes(t), risen(START, t)
            spent += [v[i] / d[i] for i in range(5)]
            whole += sum(v[i] / d[i] for i in range(5)) / sum(1 / one for one in d)
        ledger = snapshot.ledger
        np.testing.assert_allclose(ledger.rows.time, spent, rtol=1e-12)
        assert ledger.processing_delay() == pytest.approx(spent.mean(), rel=1e-12)
        assert ledger.processing_delay(normalised=True) == pytest.approx(whole, rel=1e-12)
    if rule is DGD:
        assert whole == pytest.approx(30)  # all compute: one per round, whatever d is then


def test_laws_are_drawn_and_clipped_first_and_rise_from_there():
    law = distributions.Beta(0.5, 0.5)
    first = bound(Bernoulli(nodes=law)).node_probability(1)
    rising = bound(Bernoulli(nodes=law, nodes_follow=RATE))
    np.testing.assert_allclose(rising.node_probability(7), risen(first, 7), rtol=1e-14)
    again = bound(Bernoulli(nodes=law, nodes_follow=RATE, redraw=5))
    other = bound(Bernoulli(nodes=law, redraw=5)).node_probability(6)
    np.testing.assert_allclose(again.node_probability(6), risen(other, 6), rtol=1e-14)


def test_who_cannot_compute_at_first_can_later():
    activity = bound(Bernoulli(nodes=[0.0, 0.005, 1.0, 1.0, 1.0], nodes_follow=RATE))
    assert not activity.nodes(1)[0]
    assert activity.node_chance(1)[:2].tolist() == [0.0, pytest.approx(0.01)]
    assert activity.node_probability(1)[0] == 0.01  # what a gradient would cost
    assert activity.node_chance(10)[0] == pytest.approx(1 - 1 / math.sqrt(1 + 9 / 3))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Bernoulli(nodes_follow=RATE), "nodes_follow has no effect where clients always"),
        (lambda: Bernoulli(nodes=[1.0, 1.0], nodes_follow=RATE), "no effect"),
        (lambda: Bernoulli(nodes=np.ones((3, 5), bool), nodes_follow=RATE), "no effect"),
        (
            lambda: bound(Bernoulli(nodes=0.5, nodes_follow=Pieces((0.1, 0.2), (1, 4)))).nodes(4),
            "must shrink, but it is 0.2 in round 4 and 0.1 in the first",
        ),
    ],
)
def test_what_cannot_rise_is_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def test_presets_follow_it_in_their_own_way():
    given = Bernoulli(nodes=0.5, links=0.5, nodes_follow=RATE)
    waiting = planned(given, DGD.plan)
    assert (waiting.nodes, waiting.nodes_follow) == (1.0, None)
    assert planned(given, SporadicSGD.plan).nodes_follow == RATE
    # A cycle's length is that of the probabilities it starts with: 1 / 0.3, rounded up.
    cycle = Cycle(resources=Bernoulli(nodes=0.3, nodes_follow=RATE))
    busy = [bool(cycle.bind(RING, Draws(0)).nodes(t)[0]) for t in range(1, 11)]
    assert busy == [True] * 4 + [False] + [True] * 4 + [False]


def test_a_file_may_name_the_rate():
    text = """
    rounds = 4
    [graph]
    name = "ring"
    clients = 5
    [schedule]
    name = "Bernoulli"
    nodes = { name = "Beta", a = 0.5, b = 0.5 }
    nodes_follow = { name = "InverseSqrt", start = 0.2, gamma = 3.0 }
    [problem]
    name = "Classification"
    [algorithm]
    name = "DSpodFL"
    lr = { name = "InverseSqrt", start = 0.2, gamma = 3.0 }
    """
    exp = comparison_from(tomllib.loads(text)).experiments[0]
    assert exp.schedule.nodes_follow == RATE
    again = comparison_from(tomllib.loads(experiment_to_toml(exp))).experiments[0]
    assert again.schedule.nodes_follow == RATE
    with pytest.raises(ConfigError, match=r"nodes_follow: 5 is not allowed.* one of the rates"):
        comparison_from(override(tomllib.loads(text), ["schedule.nodes_follow=5"]))


# What theory makes of it.

ALIKE = quadratic(5)


def test_rates_are_those_of_the_first_round_and_say_that_they_rise():
    coins = Bernoulli(nodes=START, links=0.5, nodes_follow=RATE)
    for schedule in (coins, Split(nodes=coins, links=Every(2))):
        found = activity_rates(experiment(RING, schedule=schedule))
        assert found.nodes.tolist() == pytest.approx(START)
        assert (found.fair, found.nodes_follow) == (False, RATE)
    later = activity_rates(experiment(RING, schedule=coins), start=12)
    assert later.nodes.tolist() == pytest.approx(risen(START, 12))


def test_the_theorems_of_shrinking_steps_cover_probabilities_that_rise_alike():
    def fails(lr, follow, gap=1e-9):
        nodes = [1 - gap, 1.0, 1.0, 1.0, 1.0]
        coins = Bernoulli(nodes=nodes, nodes_follow=follow)
        exp = experiment(graphs.complete(5), DSpodFL(lr=lr), problem=ALIKE, schedule=coins)
        return " ".join(advise(exp).coverage.fails)

    rate = InverseSqrt(1e-4, 100.0)
    assert "here it stays below 1" in fails(rate, None)
    assert fails(rate, InverseSqrt(0.5, 100.0)) == ""  # alike wherever they start
    assert "with another rate" in fails(rate, InverseSqrt(1e-4, 50.0))
    assert "with another rate" in fails(rate, Pieces((0.1, 0.01), (1, 9)))
    assert "shrink like 1 / sqrt" in fails(Pieces((1e-4, 1e-5), (1, 9)), rate)
    seldom = Bernoulli(nodes=START, nodes_follow=rate)
    found = advise(experiment(RING, DSpodFL(lr=1e-3), problem=ALIKE, schedule=seldom))
    assert found.coverage.exact is None
    assert any("those of the first round" in one.text for one in found.findings)
    assert not any("counts less" in one.text for one in found.findings)
    tracking = advise(experiment(RING, SpodGT(lr=1e-3), problem=ALIKE, schedule=seldom))
    assert "probabilities rise, and the theorem wants constant ones" in " ".join(
        tracking.coverage.fails
    )
