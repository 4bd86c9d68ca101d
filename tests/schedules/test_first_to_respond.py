"""Sampled with resources: the neighbours that respond first (PaME, section III-E)."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import peerloom as pl
from peerloom.codecs import Coordinates
from peerloom.config import comparison_from, experiment_to_toml
from peerloom.core import Draws
from peerloom.errors import ConfigError
from peerloom.runtime.shards import run_sharded
from peerloom.schedules import Always, Bernoulli, Measured, Sampled, distributions
from peerloom.theory import advise
from tests.rules.test_pame import experiment, oracle

GRAPH = pl.graphs.regular(8, degree=4, seed=3)
NODES = (1.0, 0.1, 0.5, 1.0, 0.3, 0.9, 0.05, 0.7)
SPEED = np.add.outer(np.arange(1, 9), np.arange(1, 9)) / 16  # both directions alike
SOME = Bernoulli(nodes=NODES, links=SPEED)


def heard(schedule, t, graph=GRAPH, seed=1, layer="peers"):
    links = graph.layers[layer]
    live = schedule.bind(graph, Draws(seed)).links(t, layer)
    return sorted(zip(links.dst[live].tolist(), links.src[live].tolist(), strict=True))


def tries(u, p):
    """The first k with (1 - p)^k below 1 - u: that many coins fall until one succeeds."""
    k = 1
    while (1 - p) ** k >= 1 - u:
        k += 1
    return k


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    kappa=st.integers(1, 3),
    share=st.floats(0.01, 1.0),
    nodes=st.lists(st.floats(0.02, 1.0), min_size=8, max_size=8),
    links=st.floats(0.02, 1.0),
)
def test_those_with_the_fewest_tries_are_heard(seed, kappa, share, nodes, links):
    schedule = Sampled(kappa, share, resources=Bernoulli(nodes, np.minimum(1, SPEED + links)))
    draws, count = Draws(seed), max(1, int(np.ceil(share * 4 - 1e-9)))
    for t in range(1, 5):
        wanted = []
        for i in range(8) if (t - 1) % kappa == 0 else ():
            found = []
            for j in GRAPH.peers.src[GRAPH.peers.dst == i].tolist():
                id = np.array([8 * i + j])
                computing = draws("sampled/computing", t, np.array([j]))[0, 0]
                sending = draws("sampled/sending/peers", t, id)[0, 0]
                needed = tries(computing, nodes[j]) + tries(sending, min(1, SPEED[i, j] + links))
                found.append((needed, draws("sampled/peers", t, id)[0, 0], j))
            wanted += [(i, j) for _, _, j in sorted(found)[:count]]
        assert heard(schedule, t, seed=seed) == sorted(wanted)


def test_they_are_heard_as_often_as_where_coins_are_tossed_one_by_one():
    """Of two neighbours of a node, by a race in which each tosses until it is done."""
    graph, rng = pl.graphs.star(3), np.random.default_rng(0)
    nodes, links = np.array([1.0, 0.9, 0.3]), np.ones((3, 3))
    links[0, 1] = links[1, 0] = 0.6
    schedule = Sampled(1, 0.5, resources=Bernoulli(nodes, links))
    rounds, first = 4000, 0
    for _ in range(rounds):
        needed = []
        for j in (1, 2):
            slots = 0
            for p in (nodes[j], links[0, j]):
                slots += 1
                while rng.random() >= p:
                    slots += 1
            needed.append((slots, rng.random()))
        first += needed[0] < needed[1]
    activity = schedule.bind(graph, Draws(2))
    one = (graph.peers.dst == 0) & (graph.peers.src == 1)
    seen = sum(int(activity.links(t, "peers")[one].sum()) for t in range(1, rounds + 1))
    assert abs(seen - first) < 4.5 * np.sqrt(2 * rounds * 0.25)
    assert abs(first - rounds / 2) > 200, "the two differ in speed, or nothing was tested"


@pytest.mark.parametrize("equal", [Always(), Bernoulli()])
def test_where_all_respond_at_once_the_draw_decides(equal):
    for t in range(1, 20):
        assert heard(Sampled(2, 0.5, resources=equal), t) == heard(Sampled(2, 0.5), t)


def test_a_sender_computes_once_for_all_that_wait_for_it():
    """With certain links, who is slow in a round is slow for every receiver."""
    graph = pl.graphs.complete(6)
    schedule = Sampled(1, 0.2, resources=Bernoulli(nodes=0.3))
    for t in range(1, 60):
        order = Draws(1)("sampled/computing", t, np.arange(6))[:, 0]
        least = {i: min(tries(order[j], 0.3) for j in range(6) if j != i) for i in range(6)}
        for i, j in heard(schedule, t, graph):
            assert tries(order[j], 0.3) == least[i]


def test_who_never_sends_or_computes_is_never_heard_and_others_take_its_place():
    links = np.ones((8, 8))
    i, j = int(GRAPH.peers.dst[0]), int(GRAPH.peers.src[0])
    links[i, j] = links[j, i] = 0.0
    idle = next(k for k in range(8) if k not in (i, j))
    nodes = np.where(np.arange(8) == idle, 0.0, 0.5)
    some, all_of_them = (Sampled(1, s, resources=Bernoulli(nodes, links)) for s in (0.5, 1.0))
    for t in range(1, 100):
        pairs = heard(some, t)
        assert np.bincount([receiver for receiver, _ in pairs]).tolist() == [2] * 8
        assert (i, j) not in pairs
        assert idle not in [sender for _, sender in pairs]
    missing = {
        (r, s) for r, s in zip(GRAPH.peers.dst.tolist(), GRAPH.peers.src.tolist(), strict=True)
    }
    missing -= set(heard(all_of_them, 1))
    assert missing == {p for p in missing if p[1] == idle} | {(i, j), (j, i)}


def test_resources_may_change_with_the_round():
    changing = Bernoulli(
        nodes=distributions.Uniform(), links=0.5, redraw=5, nodes_follow=pl.rates.InverseSqrt(1, 3)
    )
    schedule, resources = Sampled(1, 0.5, resources=changing), changing.bind(GRAPH, Draws(1))
    activity = schedule.bind(GRAPH, Draws(1))
    for t in (1, 5, 6, 40):
        np.testing.assert_array_equal(activity.node_probability(t), resources.node_probability(t))
        u = Draws(1)("sampled/computing", t, np.arange(8))[:, 0]
        sending = Draws(1)("sampled/sending/peers", t, 8 * GRAPH.peers.dst + GRAPH.peers.src)[:, 0]
        needed = {
            (i, j): tries(u[j], resources.node_probability(t)[j]) + tries(sending[e], 0.5)
            for e, (i, j) in enumerate(
                zip(GRAPH.peers.dst.tolist(), GRAPH.peers.src.tolist(), strict=True)
            )
        }
        pairs = set(heard(schedule, t))
        for i in range(8):
            slowest = max(needed[pair] for pair in pairs if pair[0] == i)
            others = [needed[pair] for pair in needed if pair[0] == i and pair not in pairs]
            assert slowest <= min(others)


def test_hubs_have_nothing_to_compute():
    graph = pl.graphs.hubs(pl.graphs.complete(3), [2, 2, 2])
    schedule = Sampled(1, 0.5, resources=Bernoulli(nodes=(1.0, 0.01) * 3))
    up = [pair for t in range(1, 200) for pair in heard(schedule, t, graph, layer="up")]
    fast = [worker for _, worker in up if worker % 2 == 0]
    assert len(fast) > 0.9 * len(up)
    across = {pair for t in range(1, 50) for pair in heard(schedule, t, graph, layer="across")}
    assert len(across) == 6


def test_gradients_and_messages_cost_what_the_resources_say():
    exp = experiment(schedule=Sampled(1, 0.5, resources=SOME), rounds=6)
    ledger = pl.simulate(exp).ledger
    np.testing.assert_allclose(ledger.rows.time, 6 / np.array(NODES))
    links, account = GRAPH.peers, ledger.layers["peers"]
    np.testing.assert_allclose(
        account.time, account.messages / SPEED[links.dst, links.src], rtol=1e-12
    )
    drawn = pl.simulate(replace(exp, schedule=Sampled(1, 0.5), resources=SOME)).ledger
    assert ledger.messages == drawn.messages
    assert ledger.transmission_delay() < 0.95 * drawn.transmission_delay(), "the fast are heard"


def test_pame_with_those_that_respond_first_is_its_equation_and_repeats_in_shards():
    exp = experiment(schedule=Sampled(2, 0.5, resources=SOME))
    np.testing.assert_allclose(pl.simulate(exp).x.numpy(), oracle(exp), rtol=0, atol=1e-12)
    in_shards = run_sharded(exp, [[0, 3], [1, 2, 5], [4, 6, 7]])
    assert torch.equal(in_shards.path[-1], pl.simulate(exp, path="links").x)


TABLE = {
    "rounds": 3,
    "graph": {"name": "complete", "clients": 5},
    "schedule": {
        "name": "Sampled",
        "fraction": 0.4,
        "resources": {"name": "Bernoulli", "nodes": {"name": "Beta", "a": 0.5, "b": 0.5}},
    },
    "message": {"name": "Coordinates", "fraction": 0.2},
    "problem": {"name": "Classification"},
    "algorithm": {"name": "PaME", "sigma": 1.0},
}


def test_a_file_may_give_resources():
    exp = comparison_from(TABLE).experiments[0]
    again = comparison_from(tomllib.loads(experiment_to_toml(exp))).experiments[0]
    assert torch.equal(pl.simulate(exp).x, pl.simulate(again).x)
    with pytest.raises(ConfigError, match="resources"):
        comparison_from(TABLE | {"schedule": {"name": "Sampled", "resources": 0.5}})


def test_what_peers_measure_may_be_the_resources():
    exp = comparison_from(
        TABLE | {"schedule": {"name": "Sampled", "fraction": 0.4, "resources": "measured"}}
    ).experiments[0]
    assert exp.measures
    with pytest.raises(ConfigError, match="nothing to measure"):
        pl.simulate(exp)
    found = exp.measured(Bernoulli(nodes=0.5))
    assert not found.measures
    assert isinstance(exp.schedule.resources, Measured)
    assert found.schedule.resources.nodes == 0.5
    pl.simulate(found)


def test_theory_says_that_these_are_not_drawn_evenly():
    rule = pl.rules.PaME(sigma=1e6, growth=1.01)
    exp = experiment(
        algorithm=rule, schedule=Sampled(1, 0.5, resources=SOME), message=pl.messages.Dense(),
        rounds=300,
    )  # fmt: skip
    found = advise(exp)
    assert found.contraction.how == "drawn"
    assert "drawn evenly" in " ".join(found.coverage.fails)
    assert advise(replace(exp, message=Coordinates(0.5))).contraction.how == "drawn"
