"""The account of a run: counts, sizes, and DSpodFL's delays by the formulas of section 4.0."""

import numpy as np
import pytest
import torch

from peerloom import graphs
from peerloom.core import Draws, Ledger, pull, push
from peerloom.rules import DGD, DFedAvg, DSpodFL, RandomizedGossip, SpodGT, SporadicSGD
from peerloom.runtime import build_port
from peerloom.schedules import Always, Bernoulli, Explicit, distributions
from tests.builders import LINKS, experiment, final, quadratic
from tests.oracles import delays, fired_matrix, neighbours

GRAPH = graphs.geometric(7, radius=0.5, seed=2)
ROUNDS = 25
RULES = [DSpodFL(0.05), DGD(0.05), RandomizedGossip(0.05), SporadicSGD(0.05), DFedAvg(0.05, D=3)]
RESOURCES = {
    "numbers": Bernoulli(nodes=0.4, links=0.3),
    "laws": Bernoulli(nodes=distributions.Beta(0.5, 0.5), links=distributions.Beta(0.5, 0.5)),
    "laws, redrawn": Bernoulli(
        nodes=distributions.Uniform(), links=distributions.Uniform(), redraw=4
    ),
    "never": Bernoulli(nodes=[0.0, 0.5, 1, 1, 1, 1, 1], links=0.5),
}


def plain_delays(exp, normalised):
    """Processing and transmission delay of a run, added up round by round in plain loops."""
    draws = Draws(exp.seed)
    runs = exp.active_schedule.bind(exp.graph, draws)
    able = (exp.resources or exp.schedule).bind(exp.graph, draws)
    N, links = neighbours(exp.graph), exp.graph.peers
    processing = sending = 0.0
    for t in range(1, exp.rounds + 1):
        b = np.zeros((exp.graph.rows, exp.graph.rows))
        b[links.dst, links.src] = able.link_probability(t, "peers")
        fired = fired_matrix(exp.graph, runs.links(t, "peers"))
        spent = delays(
            able.node_probability(t).tolist(),
            b.tolist(),
            N,
            runs.nodes(t).tolist(),
            fired,
            normalised,
        )
        processing, sending = processing + spent[0], sending + spent[1]
    return processing, sending


@pytest.mark.parametrize("name", RESOURCES)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("normalised", [False, True], ids=["raw", "normalised"])
def test_delays_follow_the_formulas(name, rule, normalised):
    exp = experiment(GRAPH, rule, schedule=RESOURCES[name], rounds=ROUNDS, seed=3)
    ledger = final(exp).ledger
    processing, sending = plain_delays(exp, normalised)
    assert ledger.processing_delay(normalised=normalised) == pytest.approx(processing, rel=1e-12)
    assert ledger.transmission_delay(normalised=normalised) == pytest.approx(sending, rel=1e-12)
    assert ledger.delay(normalised=normalised) == pytest.approx(processing + sending, rel=1e-12)


@pytest.mark.parametrize("name", RESOURCES)
def test_dgd_costs_two_per_round_when_normalised(name):
    ledger = final(experiment(GRAPH, DGD(0.05), schedule=RESOURCES[name], rounds=ROUNDS)).ledger
    assert ledger.delay(normalised=True) == pytest.approx(2 * ROUNDS, rel=1e-13)
    assert ledger.processing_delay(normalised=True) == pytest.approx(ROUNDS, rel=1e-13)


def test_dgd_costs_the_means_of_the_reciprocals_when_raw():
    d = np.array([1, 0.5, 0.25])
    b = np.array([[0, 0.5, 0], [0.5, 0, 0.25], [0, 0.25, 0]])
    exp = experiment(graphs.path(3), DGD(0.05), schedule=Bernoulli(nodes=d, links=b), rounds=10)
    ledger = final(exp).ledger
    assert ledger.processing_delay() == pytest.approx(10 * (1 + 2 + 4) / 3)
    assert ledger.transmission_delay() == pytest.approx(10 * (2 + (2 + 4) / 2 + 4) / 3)


def test_resources_of_their_own_price_a_schedule_without_coins():
    nodes = np.random.default_rng(0).random((ROUNDS + 1, 7)) < 0.5
    exp = experiment(
        GRAPH, schedule=Explicit(nodes=nodes), resources=RESOURCES["laws"], rounds=ROUNDS
    )
    found = final(exp).ledger
    assert (found.processing_delay(), found.transmission_delay()) == pytest.approx(
        plain_delays(exp, False)
    )
    assert (
        found.delay()
        > final(experiment(GRAPH, schedule=Explicit(nodes=nodes), rounds=ROUNDS)).ledger.delay()
    )


@pytest.mark.parametrize("path", ["matrix", "links"])
def test_gradients_and_messages_are_counted_where_they_happen(path):
    exp = experiment(GRAPH, schedule=RESOURCES["numbers"], rounds=ROUNDS)
    ledger = final(exp, path=path).ledger
    activity = exp.active_schedule.bind(GRAPH, Draws(exp.seed))
    nodes = sum(activity.nodes(t).astype(int) for t in range(1, ROUNDS + 1))
    links = sum(activity.links(t, "peers").astype(int) for t in range(1, ROUNDS + 1))
    assert ledger.rows.gradients.tolist() == nodes.tolist()
    assert ledger.layers["peers"].messages.tolist() == links.tolist()
    assert ledger.gradients == nodes.sum()
    assert ledger.messages == links.sum()


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float64", 8)])
def test_a_dense_message_has_one_word_per_coordinate(dtype, size):
    exp = experiment(GRAPH, problem=quadratic(7, n=5), schedule=RESOURCES["numbers"], dtype=dtype)
    ledger = final(exp).ledger
    assert ledger.bytes == ledger.messages * 5 * size
    assert np.array_equal(ledger.layers["peers"].nbytes, ledger.layers["peers"].messages * 5 * size)


@pytest.mark.parametrize("wire", [None, LINKS], ids=["matrix", "links"])
def test_one_mix_is_one_message_whatever_it_carries(wire):
    net = build_port(
        experiment(GRAPH, schedule=Always()), mixer="matrix" if wire is None else "links", wire=wire
    )
    x = torch.zeros(7, 3, dtype=torch.float64)
    net.mix(pull(x), push(x[:, :2]))
    assert net.ledger.messages == len(GRAPH.peers)
    assert net.ledger.bytes == len(GRAPH.peers) * (3 + 2) * 8
    net.mix(x)
    assert net.ledger.messages == 2 * len(GRAPH.peers)


def test_round_zero_of_dspodfl_costs_nothing():
    ledger = final(experiment(GRAPH, schedule=RESOURCES["numbers"], rounds=0)).ledger
    assert (ledger.gradients, ledger.messages, ledger.bytes, ledger.delay()) == (0, 0, 0, 0)


def test_a_row_without_neighbours_waits_for_nobody():
    graph = graphs.from_edges(3, [(0, 1)])
    ledger = final(experiment(graph, rounds=6)).ledger
    assert ledger.processing_delay() == pytest.approx(6)
    assert ledger.transmission_delay() == pytest.approx(6 * 2 / 3)


def test_a_copy_no_longer_follows_the_run():
    net = build_port(experiment(GRAPH))
    x = torch.zeros(7, 3, dtype=torch.float64)
    net.grad(x)
    net.mix(x)
    twin = net.ledger.copy()
    before = {name: values.copy() for name, values in twin.arrays().items()}
    net.grad(x)
    net.mix(x)
    assert all(np.array_equal(values, before[name]) for name, values in twin.arrays().items())
    assert net.ledger.gradients == 2 * twin.gradients == 14
    assert net.ledger.messages == 2 * twin.messages


def test_arrays_hold_the_whole_account():
    ledger = final(experiment(GRAPH, schedule=RESOURCES["laws"], rounds=ROUNDS)).ledger
    again = Ledger(GRAPH)
    assert again.delay() == 0
    stored = {name: values.copy() for name, values in ledger.arrays().items()}
    for name, values in again.arrays().items():
        values[...] = stored.pop(name)
    assert not stored
    for figure in ("gradients", "messages", "bytes"):
        assert getattr(again, figure) == getattr(ledger, figure) > 0
    for normalised in (False, True):
        assert again.delay(normalised=normalised) == ledger.delay(normalised=normalised) > 0


def test_spod_gts_delay_counts_receiving_and_sending():
    """Section 4.0: tau_proc + tau_in + tau_out, out-links with vhat_ji / p_ji, in plain loops."""
    graph = graphs.random_digraph(5, p=0.5, seed=3)
    exp = experiment(
        graph,
        SpodGT(lr=0.01),
        schedule=Bernoulli(nodes=distributions.Beta(0.5, 0.5), links=distributions.Beta(0.5, 0.5)),
        rounds=8,
    )
    last = final(exp)
    activity, links, m = exp.schedule.bind(graph, Draws(exp.seed)), graph.peers, graph.rows
    # Of `init`, which computes too.
    total = np.sum(activity.nodes(0) / activity.node_probability(0)) / m
    for t in range(1, exp.rounds + 1):
        total += np.sum(activity.nodes(t) / activity.node_probability(t)) / m
        cost = activity.links(t, "peers") / activity.link_probability(t, "peers")
        for i in range(m):
            total += np.mean(cost[links.dst == i]) / m + np.mean(cost[links.src == i]) / m
    assert last.ledger.delay_both_ways() == pytest.approx(total, rel=1e-12)


def test_the_account_of_an_older_run_is_read():
    """It counts bits, link by link; what it says of bytes is what it said then."""
    ledger = final(experiment(GRAPH, schedule=RESOURCES["laws"], rounds=ROUNDS)).ledger
    older = {
        name.replace("/nbytes", "/bits"): values.copy() for name, values in ledger.arrays().items()
    }
    older["peers/bits"] *= 8
    older["peers/bits"][0] -= 3
    again = Ledger.of(GRAPH, older)
    assert again.bytes == ledger.bytes
    for name, values in ledger.arrays().items():
        assert np.array_equal(again.arrays()[name], values), name
    with pytest.raises(KeyError):
        Ledger.of(GRAPH, {name: values for name, values in older.items() if name != "rows/time"})
