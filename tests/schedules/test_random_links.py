"""Links picked by chance or by the clock, and the two rules that average over senders."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import peerloom as pl
from peerloom.core import Draws
from peerloom.errors import ConfigError
from peerloom.runtime import iterate
from peerloom.schedules import Epidemic, OneEdge, OnePeer, RandomPairs
from tests.builders import seeds, undirected_graphs


def live(schedule, graph, t, seed=0):
    fires = schedule.bind(graph, Draws(seed)).links(t, "peers")
    return sorted(
        zip(graph.peers.src[fires].tolist(), graph.peers.dst[fires].tolist(), strict=True)
    )


def test_one_edge_is_one_pair_and_every_pair_as_likely():
    graph, counts = pl.graphs.grid(2, 3), {}
    for t in range(2100):
        (i, j), back = live(OneEdge(), graph, t)
        assert back == (j, i)
        counts[i, j] = counts.get((i, j), 0) + 1
    assert len(counts) == 7
    assert max(abs(count - 300) for count in counts.values()) < 4.5 * np.sqrt(2100 * 6 / 49)


def test_one_peer_takes_the_hops_in_turn():
    graph = pl.graphs.exponential(6)
    for t, hop in ((1, 1), (2, 2), (3, 4), (4, 1)):
        assert live(OnePeer(), graph, t) == sorted((i, (i + hop) % 6) for i in range(6))
    with pytest.raises(ConfigError, match="Use 'exponential'"):
        live(OnePeer(), pl.graphs.directed_ring(6), 2)


@given(graph=undirected_graphs(), t=st.integers(1, 1000), seed=seeds)
def test_pairs_are_disjoint_and_leave_no_link_between_two_that_are_alone(graph, t, seed):
    fires = RandomPairs().bind(graph, Draws(seed)).links(t, "peers")
    links = graph.peers
    partner = {int(i): int(j) for i, j in zip(links.dst[fires], links.src[fires], strict=True)}
    assert len(partner) == fires.sum()  # nobody has two
    assert all(partner[j] == i for i, j in partner.items())
    alone = set(range(graph.clients)) - set(partner)
    ends = zip(links.dst.tolist(), links.src.tolist(), strict=True)
    assert not any(i in alone and j in alone for i, j in ends)


def test_pairs_are_those_of_links_taken_one_by_one_in_a_random_order():
    """The sentence as a loop, which sees the same draws."""
    graph, draws = pl.graphs.small_world(9, degree=4, rewire=0.3, seed=2), Draws(5)
    coins, first = np.unique(graph.peers.coin, return_index=True)
    for t in range(1, 60):
        taken, pairs = set(), []
        for k in np.argsort(draws("pairs/peers", t, coins)[:, 0], kind="stable"):
            i, j = int(graph.peers.dst[first[k]]), int(graph.peers.src[first[k]])
            if not {i, j} & taken:
                taken |= {i, j}
                pairs += [(i, j), (j, i)]
        assert live(RandomPairs(), graph, t, seed=5) == sorted(pairs)


def test_where_all_know_each_other_every_pairing_is_as_likely():
    """Six clients have fifteen pairings; seven leave each of them alone as often."""
    counts, alone = {}, np.zeros(7)
    for t in range(3000):
        pairing = tuple(live(RandomPairs(), pl.graphs.complete(6), t))
        assert len(pairing) == 6
        counts[pairing] = counts.get(pairing, 0) + 1
        (left,) = set(range(7)) - {i for i, _ in live(RandomPairs(), pl.graphs.complete(7), t)}
        alone[left] += 1
    assert len(counts) == 15
    assert max(abs(count - 200) for count in counts.values()) < 4.5 * np.sqrt(3000 * 14 / 225)
    assert np.abs(alone - 3000 / 7).max() < 4.5 * np.sqrt(3000 * 6 / 49)


def test_pairs_need_links_both_ways_and_no_hubs():
    for graph in (pl.graphs.directed_ring(4), pl.graphs.hubs(pl.graphs.ring(3), [1, 1, 1])):
        with pytest.raises(ConfigError, match="RandomPairs needs"):
            live(RandomPairs(), graph, 1)


def test_epidemic_senders_choose_for_themselves():
    graph, heard, pairs = pl.graphs.complete(7), [], set()
    for t in range(300):
        links = live(Epidemic(2), graph, t)
        assert np.bincount([i for i, _ in links]).tolist() == [2] * 7
        heard += np.bincount([j for _, j in links], minlength=7).tolist()
        pairs |= set(links)
    assert len(pairs) == 42
    assert set(heard) >= {0, 1, 2, 3, 4}


def test_the_oracle_lets_everyone_hear_as_many():
    graph, pairs = pl.graphs.complete(7), set()
    for t in range(300):
        links = live(Epidemic(3, oracle=True), graph, t)
        assert np.bincount([i for i, _ in links]).tolist() == [3] * 7
        assert np.bincount([j for _, j in links]).tolist() == [3] * 7
        pairs |= set(links)
    assert len(pairs) == 42


def test_epidemic_needs_all_links():
    for schedule, graph, said in (
        (Epidemic(1), pl.graphs.ring(5), "Use 'complete'"),
        (Epidemic(5), pl.graphs.complete(5), "below the number of clients"),
    ):
        with pytest.raises(ConfigError, match=said):
            live(schedule, graph, 1)
    with pytest.raises(ConfigError, match="at least 1"):
        Epidemic(0)


@pytest.mark.parametrize("path", ["matrix", "links"])
def test_epidemic_learning_is_its_equation(path):
    graph, problem = pl.graphs.complete(6), pl.testing.random_quadratic(6, 3)
    exp = pl.Experiment(
        graph, problem, pl.rules.EpidemicLearning(0.1), Epidemic(2), rounds=15, dtype="float64"
    )
    A, b, x = np.asarray(problem.A), np.asarray(problem.b), np.zeros((6, 3))
    for t in range(1, 16):
        z = np.stack([x[i] - 0.1 * (A[i] @ x[i] - b[i]) for i in range(6)])
        sent = live(Epidemic(2), graph, t)
        x = np.stack(
            [np.mean([z[i], *(z[j] for j, k in sent if k == i)], axis=0) for i in range(6)]
        )
    *_, last = iterate(exp, path=path)
    np.testing.assert_allclose(last.x.numpy(), x, atol=1e-12)


@pytest.mark.parametrize("path", ["matrix", "links"])
def test_pairwise_gossip_is_its_equation_and_keeps_the_mean(path):
    graph, problem = pl.graphs.grid(2, 3), pl.testing.random_quadratic(6, 3)
    x = np.random.default_rng(0).normal(size=(6, 3))
    exp = pl.Experiment(
        graph, problem, pl.rules.PairwiseGossip(0.05), OneEdge(), rounds=15, x0=x, dtype="float64"
    )
    A, b = np.asarray(problem.A), np.asarray(problem.b)
    for t in range(1, 16):
        g = np.stack([A[i] @ x[i] - b[i] for i in range(6)])
        wanted = x.mean(axis=0) - 0.05 * g.mean(axis=0)
        (i, j), _ = live(OneEdge(), graph, t)
        x = x.copy()
        x[i] = x[j] = (x[i] + x[j]) / 2
        x = x - 0.05 * g
        np.testing.assert_allclose(x.mean(axis=0), wanted, atol=1e-12)
    *_, last = iterate(exp, path=path)
    np.testing.assert_allclose(last.x.numpy(), x, atol=1e-12)


def test_gossip_alone_agrees_on_the_mean():
    nothing = pl.problems.Quadratic(np.zeros((6, 2, 2)), np.zeros((6, 2)))
    x0 = np.arange(12.0).reshape(6, 2)
    rule, schedule = pl.rules.PairwiseGossip(0.1), OneEdge()
    exp = pl.Experiment(
        pl.graphs.ring(6), nothing, rule, schedule, rounds=600, x0=x0, dtype="float64"
    )
    torch.testing.assert_close(
        pl.simulate(exp).x, torch.from_numpy(np.tile(x0.mean(axis=0), (6, 1))), rtol=0, atol=1e-9
    )
