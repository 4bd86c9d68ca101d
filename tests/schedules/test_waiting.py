"""The time slots of MLL-SGD's figure 6, told in plain loops; and the presets with a server."""

import numpy as np
import pytest

import peerloom as pl
from peerloom.core import Draws
from peerloom.errors import ConfigError
from peerloom.runtime import iterate
from peerloom.schedules import Bernoulli, HubRounds, Waiting

WORKERS = [2, 3, 1]
HOME = np.repeat(np.arange(3), WORKERS)
P = np.array([0.9, 0.5, 0.3, 0.8, 0.6, 1.0])
GRAPH = pl.graphs.hubs(pl.graphs.complete(3), WORKERS)


def slots(tau, q, seed, count):
    """A hub averages after tau gradients per worker, the top after q averages per hub."""
    coins = Bernoulli(nodes=P).bind(GRAPH, Draws(seed))
    done, averages = [0] * 6, [0] * 3
    for t in range(1, count + 1):
        computes = [bool(coins.nodes(t)[i]) and done[i] < tau for i in range(6)]
        done = [done[i] + computes[i] for i in range(6)]
        ready = [all(done[i] == tau for i in range(6) if HOME[i] == d) for d in range(3)]
        top = all(ready[d] and averages[d] == q - 1 for d in range(3))
        fires = [ready[d] and (averages[d] < q - 1 or top) for d in range(3)]
        for d in range(3):
            if fires[d]:
                averages[d] += 1
                for i in range(6):
                    if HOME[i] == d:
                        done[i] = 0
        if top:
            averages = [0] * 3
        yield computes, fires, top


@pytest.mark.parametrize(("tau", "q"), [(1, 1), (3, 1), (2, 3)])
def test_the_slots_are_as_told(tau, q):
    activity = Waiting(tau, q, nodes=P).bind(GRAPH, Draws(5))
    list(activity.links(200, "up"))  # asked out of order, it must tell the same story
    for t, (computes, fires, top) in enumerate(slots(tau, q, 5, 200), start=1):
        assert activity.nodes(t).tolist() == computes
        assert activity.links(t, "up").tolist() == [fires[d - 6] for d in GRAPH.layers["up"].dst]
        assert activity.links(t, "down").tolist() == [
            fires[d - 6] for d in GRAPH.layers["down"].src
        ]
        assert (activity.links(t, "across") == top).all()


def test_with_equal_speed_nobody_waits():
    waiting, rounds = (kind(3, 2).bind(GRAPH, Draws(1)) for kind in (Waiting, HubRounds))
    for t in range(1, 40):
        assert np.array_equal(waiting.nodes(t), rounds.nodes(t))
        for layer in GRAPH.layers:
            assert np.array_equal(waiting.links(t, layer), rounds.links(t, layer))


def test_hubs_with_slow_workers_are_averaged_less_often_and_all_do_tau_steps():
    exp = pl.Experiment(
        GRAPH,
        pl.testing.random_quadratic(6, 3),
        pl.rules.HLSGD(0.05),
        Waiting(4, 2, nodes=P),
        rounds=400,
    )
    ledger = pl.simulate(exp).ledger
    tops = ledger.layers["across"].messages
    assert (tops == tops[0]).all() and tops[0] < 400 / 8  # noqa: PT018
    done = ledger.rows.gradients
    assert (done >= 8 * tops[0]).all() and (done <= 8 * tops[0] + 8).all()  # noqa: PT018


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="tau"):
        Waiting(0)
    with pytest.raises(ConfigError, match="hubs"):
        Waiting(2).bind(pl.graphs.ring(4), Draws(0))


SERVER = pl.graphs.hubs(pl.graphs.from_edges(1, []), [5], weights=[1.0, 2.0, 3.0, 4.0, 5.0])
EQUAL = pl.graphs.hubs(pl.graphs.from_edges(1, []), [5])


def orbit(graph, rule, schedule):
    exp = pl.Experiment(
        graph, pl.testing.random_quadratic(5, 3), rule, schedule, rounds=12, dtype="float64"
    )
    return np.stack([snapshot.x.numpy() for snapshot in iterate(exp)])


def test_distributed_sgd_is_descent_on_the_mean_whatever_the_coins():
    problem = pl.testing.random_quadratic(5, 3)
    A, b = np.asarray(problem.A), np.asarray(problem.b)
    found = orbit(EQUAL, pl.rules.DistributedSGD(0.1), Bernoulli(nodes=0.3, links=0.5))
    x = np.zeros(3)
    for t in range(13):
        np.testing.assert_allclose(found[t], np.tile(x, (5, 1)), atol=1e-12)
        x = x - 0.1 * np.mean([A[i] @ x - b[i] for i in range(5)], axis=0)


def test_fedavg_weighs_clients_by_their_data():
    problem = pl.testing.random_quadratic(5, 3)
    A, b, w = np.asarray(problem.A), np.asarray(problem.b), np.arange(1, 6) / 15
    found = orbit(SERVER, pl.rules.FedAvg(0.1), HubRounds(3))
    x = np.zeros((5, 3))
    for t in range(1, 13):
        x = np.stack([x[i] - 0.1 * (A[i] @ x[i] - b[i]) for i in range(5)])
        if t % 3 == 0:
            x = np.tile(w @ x, (5, 1))
        np.testing.assert_allclose(found[t], x, atol=1e-12)


@pytest.mark.parametrize("rule", [pl.rules.DistributedSGD(0.1), pl.rules.FedAvg(0.1)])
def test_servers_need_one_hub(rule):
    with pytest.raises(ConfigError, match="server"):
        pl.Experiment(GRAPH, pl.testing.random_quadratic(6, 3), rule)
