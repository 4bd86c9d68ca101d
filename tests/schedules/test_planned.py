"""What each preset of DSpodFL makes of the schedule it is given (section 1.1)."""

import numpy as np
import pytest

from peerloom import graphs
from peerloom.core import Draws
from peerloom.rules import DGD, DFedAvg, DSpodFL, RandomizedGossip, SporadicSGD
from peerloom.schedules import Always, Bernoulli, Explicit, distributions, planned
from tests.builders import experiment

GRAPH = graphs.ring(4)
D = [1.0, 0.5, 0.25, 0.25]  # mean of 1 / d is 2.75
COINS = Bernoulli(nodes=D, links=0.3)


def acts(rule, schedule, rounds=40):
    """(nodes, links) in rounds 1 to `rounds` of what really runs."""
    activity = experiment(GRAPH, rule, schedule=schedule).active_schedule.bind(GRAPH, Draws(0))
    t = range(1, rounds + 1)
    return np.array([activity.nodes(k) for k in t]), np.array(
        [activity.links(k, "peers") for k in t]
    )


given_nodes, given_links = acts(DSpodFL(0.1), COINS)


def test_dspodfl_takes_the_coins_as_they_fall():
    activity = COINS.bind(GRAPH, Draws(0))
    assert all(np.array_equal(row, activity.nodes(t)) for t, row in enumerate(given_nodes, start=1))
    assert 0 < given_nodes.mean() < 1
    assert 0 < given_links.mean() < 1


@pytest.mark.parametrize(
    ("rule", "nodes", "links"),
    [
        (DGD(0.1), np.ones_like(given_nodes), np.ones_like(given_links)),
        (RandomizedGossip(0.1), np.ones_like(given_nodes), given_links),
        (SporadicSGD(0.1), given_nodes, np.ones_like(given_links)),
    ],
    ids=["DGD", "RandomizedGossip", "SporadicSGD"],
)
def test_presets_under_coins(rule, nodes, links):
    found = acts(rule, COINS)
    assert np.array_equal(found[0], nodes)
    assert np.array_equal(found[1], links)


@pytest.mark.parametrize(
    ("options", "nodes", "links"),
    [
        ({}, "11101110", "00010001"),
        ({"rounding": "floor"}, "11011011", "00100100"),
        ({"sgd_while_aggregating": True}, "11111111", "00010001"),
        ({"sgd_while_aggregating": True, "period": "D"}, "11111111", "00100100"),
        ({"D": 1}, "10101010", "01010101"),
    ],
)
def test_dfedavg_puts_its_cycle_in_place_of_the_coins(options, nodes, links):
    v, fires = acts(DFedAvg(0.1, **options), COINS, rounds=8)
    assert np.array_equal(v, [[int(one)] * 4 for one in nodes])
    assert np.array_equal(fires, [[int(one)] * 8 for one in links])


@pytest.mark.parametrize("rule", [DGD(0.1), RandomizedGossip(0.1), SporadicSGD(0.1), DSpodFL(0.1)])
def test_when_everybody_is_always_able_everybody_always_acts(rule):
    nodes, links = acts(rule, Always())
    assert nodes.all()
    assert links.all()


def test_dfedavg_with_able_clients_alternates():
    nodes, links = acts(DFedAvg(0.1), Always(), rounds=4)
    assert nodes[:, 0].tolist() == [True, False, True, False]
    assert links[:, 0].tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    "rule", [DGD(0.1), RandomizedGossip(0.1), SporadicSGD(0.1), DFedAvg(0.1), DSpodFL(0.1)]
)
def test_a_schedule_without_coins_is_followed_as_it_is(rule):
    rng = np.random.default_rng(0)
    nodes, links = rng.random((41, 4)) < 0.5, rng.random((41, 4, 4)) < 0.5
    found = acts(rule, Explicit(nodes, links))
    assert np.array_equal(found[0], nodes[1:])
    assert np.array_equal(found[1], links[1:, GRAPH.peers.dst, GRAPH.peers.src])


def test_presets_see_the_same_draws_of_laws_as_dspodfl():
    schedule = Bernoulli(
        nodes=distributions.Beta(0.5, 0.5), links=distributions.Beta(0.5, 0.5), redraw=5
    )
    nodes, links = acts(DSpodFL(0.1), schedule)
    assert np.array_equal(acts(RandomizedGossip(0.1), schedule)[1], links)
    assert np.array_equal(acts(SporadicSGD(0.1), schedule)[0], nodes)


def test_an_activity_that_was_written_down_is_followed():
    written = np.zeros((3, 4), bool)
    found = planned(Bernoulli(nodes=written, links=0.5), DGD(lr=0.1).plan)
    assert found.nodes is written
    assert found.links == 1.0
