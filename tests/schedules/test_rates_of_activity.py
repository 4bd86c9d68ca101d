"""What schedules say of their own rates is what their links and clients do."""

import numpy as np
import pytest

from peerloom import graphs
from peerloom.core import Draws
from peerloom.schedules import (
    SCHEDULES,
    Always,
    Bernoulli,
    Cycle,
    Epidemic,
    Every,
    Explicit,
    HubRounds,
    OneEdge,
    OneNode,
    OnePeer,
    Participation,
    Refresh,
    Sampled,
    Split,
    Waiting,
    distributions,
)
from peerloom.schedules.rates import HasRates, Span, observed_links, observed_nodes, rates_of

ROUNDS = 12_000  # a multiple of all periods below
PEERS = graphs.from_edges(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3)])
HUBS = graphs.hubs(graphs.ring(3), [2, 1, 3])
KNOWN = [
    (PEERS, Always()),
    (PEERS, Every(3)),
    (PEERS, Cycle(D=3)),
    (PEERS, Cycle(D=4, period="D", sgd_while_aggregating=True)),
    (PEERS, Bernoulli(nodes=distributions.Beta(2, 2), links=distributions.Beta(2, 2))),
    (PEERS, Bernoulli(nodes=0.3, links=0.6, compat=("or",))),
    (PEERS, OneEdge()),
    (PEERS, OneNode(0.6)),
    (PEERS, Refresh(4)),
    (PEERS, Sampled(kappa=2, fraction=0.5)),
    (PEERS, Sampled(kappa=(1, 2, 3, 4, 5, 6), fraction=0.4)),
    (PEERS, Split(nodes=Bernoulli(nodes=0.2), links=Every(4))),
    (HUBS, HubRounds(tau=2, q=3, nodes=0.7)),
    (HUBS, Participation(0.5)),
    (HUBS, OneNode(0.6)),
]


@pytest.mark.parametrize(("network", "schedule"), KNOWN, ids=lambda part: type(part).__name__)
def test_stated_rates_are_those_of_a_long_run(network, schedule):
    stated = rates_of(schedule, network, Draws(1), Span(observed=0))
    activity = schedule.bind(network, Draws(1))
    chance = 4.5 * 0.5 / np.sqrt(ROUNDS)  # standard deviations of a fair coin's mean
    np.testing.assert_allclose(stated.nodes, observed_nodes(activity, network, ROUNDS), atol=chance)
    for name, seen in observed_links(activity, network, ROUNDS).items():
        np.testing.assert_allclose(stated.links[name], seen, atol=chance)


@pytest.mark.parametrize(("network", "schedule"), KNOWN, ids=lambda part: type(part).__name__)
def test_links_called_independent_are_uncorrelated(network, schedule):
    stated = rates_of(schedule, network, Draws(2), Span(observed=0))
    activity = schedule.bind(network, Draws(2))
    for name, links in network.layers.items():
        talks = range(1, 1 + 3000 * stated.period[name])
        live = np.array([activity.links(t, name) for t in talks])
        if stated.coins is None:
            continue
        live = live[live.any(axis=1)] if stated.period[name] > 1 else live
        np.testing.assert_allclose(live.mean(axis=0), stated.coins[name], atol=0.05)
        together = (live[:, :, None] & live[:, None]).mean(axis=0)
        alone = np.outer(stated.coins[name], stated.coins[name])
        other_coin = links.coin[:, None] != links.coin
        assert np.abs(together - alone)[other_coin].max(initial=0) < 0.05


def test_probabilities_that_are_drawn_anew_are_those_of_the_round_asked_for():
    schedule = Bernoulli(links=distributions.Uniform(0.2, 0.9), redraw=10)
    first, later = (rates_of(schedule, PEERS, Draws(0), Span(start)) for start in (1, 11))
    activity = schedule.bind(PEERS, Draws(0))
    np.testing.assert_array_equal(first.coins["peers"], activity.link_chance(10, "peers"))
    np.testing.assert_array_equal(later.coins["peers"], activity.link_chance(20, "peers"))
    assert (first.coins["peers"] != later.coins["peers"]).all()
    assert first.redraw == 10


@pytest.mark.parametrize(
    "schedule", [Epidemic(2), OnePeer(), Explicit(links=np.ones((9, 6, 6), bool))]
)
def test_schedules_that_do_not_say_are_observed(schedule):
    network = {"Epidemic": graphs.complete(6), "OnePeer": graphs.exponential(6)}.get(
        type(schedule).__name__, PEERS
    )
    found = rates_of(schedule, network, Draws(0), Span(observed=8))
    assert found.coins is None
    assert not found.fair
    activity = schedule.bind(network, Draws(0))
    np.testing.assert_array_equal(
        found.links["peers"], observed_links(activity, network, 8)["peers"]
    )


def test_every_schedule_is_in_one_of_the_lists():
    tried = {type(schedule) for _, schedule in KNOWN}
    assert {
        kind for kind in SCHEDULES.values() if isinstance(kind, type) and issubclass(kind, HasRates)
    } == tried
    assert not issubclass(Waiting, HasRates)
