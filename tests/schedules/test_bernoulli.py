"""Coins of rows and links: frequencies, sharing, clipping, redrawing."""

import itertools

import numpy as np
import pytest

from peerloom import graphs
from peerloom.core import ConfigError, Draws
from peerloom.schedules import Bernoulli, distributions
from tests.oracles import check_coins, check_pure

ROUNDS = 4000
RING, ARROWS = graphs.ring(5), graphs.random_digraph(5, p=0.6, seed=0)


def bound(schedule, graph=RING, seed=0):
    return schedule.bind(graph, Draws(seed))


def falls(activity, rounds=ROUNDS):
    """How the coins fell: nodes [rounds, m] and links [rounds, links]."""
    return (
        np.array([activity.nodes(t) for t in range(1, rounds + 1)]),
        np.array([activity.links(t, "peers") for t in range(1, rounds + 1)]),
    )


def by_link(graph, columns):
    return {
        (i, j): columns[..., e]
        for e, (i, j) in enumerate(zip(graph.peers.dst, graph.peers.src, strict=True))
    }


@pytest.mark.parametrize("graph", [RING, ARROWS], ids=["undirected", "directed"])
def test_coins_fall_as_often_as_they_should_and_remember_nothing(graph):
    nodes, links = falls(bound(Bernoulli(nodes=0.5, links=0.3), graph))
    check_coins(nodes, np.full(graph.rows, 0.5))
    check_coins(links, np.full(len(graph.peers), 0.3))


def test_each_row_and_each_link_has_its_own_probability():
    d = np.array([0.05, 0.3, 0.5, 0.9, 1.0])
    half = np.random.default_rng(0).uniform(0.1, 0.9, (5, 5))
    b = (half + half.T) / 2
    activity = bound(Bernoulli(nodes=d, links=b))
    nodes, links = falls(activity)
    check_coins(nodes, d)
    check_coins(links, b[RING.peers.dst, RING.peers.src])
    assert activity.node_probability(1).tolist() == d.tolist()
    assert np.array_equal(activity.link_probability(1, "peers"), b[RING.peers.dst, RING.peers.src])


def test_an_array_of_link_probabilities_has_the_receiver_first():
    b = np.random.default_rng(0).uniform(0.1, 0.9, (5, 5))
    activity = bound(Bernoulli(links=b), ARROWS)
    check_coins(
        falls(activity)[1],
        [b[i, j] for i, j in zip(ARROWS.peers.dst, ARROWS.peers.src, strict=True)],
    )


def test_undirected_links_fire_in_both_directions_or_in_none():
    fell = by_link(RING, falls(bound(Bernoulli(links=0.4)))[1])
    for i, j in fell:
        assert np.array_equal(fell[i, j], fell[j, i])


def unrelated(one, other, p):
    """Two coins with probability p: their covariance is 0, within 5 sigma."""
    return abs(np.mean((one - p) * (other - p))) < 5 * p * (1 - p) / np.sqrt(len(one))


def test_directed_links_have_a_coin_for_each_direction():
    fell = by_link(ARROWS, falls(bound(Bernoulli(links=0.4), ARROWS))[1])
    both = [(i, j) for i, j in fell if (j, i) in fell and i < j]
    assert both
    assert all(unrelated(fell[i, j], fell[j, i], 0.4) for i, j in both)


def test_different_coins_are_unrelated():
    nodes, links = falls(bound(Bernoulli(nodes=0.4, links=0.4)))
    once = [e for e in range(len(RING.peers)) if RING.peers.dst[e] < RING.peers.src[e]]
    coins = [*nodes.T, *links.T[once]]
    assert len(coins) == 10
    assert all(unrelated(one, other, 0.4) for one, other in itertools.combinations(coins, 2))


def test_coins_are_a_function_of_seed_and_round():
    schedule = Bernoulli(nodes=0.5, links=distributions.Beta(0.5, 0.5), redraw=10)
    check_pure(bound(schedule), range(1, 60))
    one, same, other = (falls(bound(schedule, seed=seed), 50)[1] for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_a_written_activity_is_followed_and_costs_as_if_able():
    rng = np.random.default_rng(0)
    nodes, links = rng.random((7, 5)) < 0.5, rng.random((7, 5, 5)) < 0.5
    activity = bound(Bernoulli(nodes=nodes, links=links))
    for t in range(7):
        assert np.array_equal(activity.nodes(t), nodes[t])
        assert np.array_equal(activity.links(t, "peers"), links[t][RING.peers.dst, RING.peers.src])
    assert (activity.node_probability(3) == 1).all()
    assert (activity.link_probability(3, "peers") == 1).all()
    mixed = bound(Bernoulli(nodes=nodes, links=0.3))
    assert np.array_equal(mixed.nodes(2), nodes[2])
    assert (mixed.link_probability(2, "peers") == 0.3).all()


class Given:
    """A distribution with given values in the order of the uniforms, the lowest first."""

    def sample(self, u):
        return np.where(u[:, 0] < 0.5, 0.001, 0.7)


def test_laws_are_clipped_and_the_clip_is_counted():
    activity = bound(Bernoulli(nodes=Given(), links=Given()))
    d, b = activity.node_probability(1), activity.link_probability(1, "peers")
    assert set(d) | set(b) == {0.01, 0.7}
    assert activity.clipped() == ((d == 0.01).sum(), (b == 0.01).sum())
    assert min(activity.clipped()) > 0
    check_coins(falls(activity)[0], d)
    assert set(bound(Bernoulli(nodes=Given(), clip=0.2)).node_probability(1)) == {0.2, 0.7}


def test_small_probabilities_of_your_own_are_clipped_but_zero_means_never():
    d = [0.0, 0.001, 0.5, 1.0, 0.01]
    activity = bound(Bernoulli(nodes=d, links=0.0))
    nodes, links = falls(activity)
    check_coins(nodes, [0.0, 0.01, 0.5, 1.0, 0.01])
    assert not links.any()
    assert activity.clipped() == (1, 0)
    assert (activity.node_probability(1) >= 0.01).all()  # a cost of 1 / 0 would end every account


def test_an_undirected_link_has_one_probability_under_a_law():
    b = by_link(RING, bound(Bernoulli(links=distributions.Uniform())).link_probability(1, "peers"))
    assert all(b[i, j] == b[j, i] for i, j in b)
    assert len({float(p) for p in b.values()}) == 5
    b = by_link(
        ARROWS, bound(Bernoulli(links=distributions.Uniform()), ARROWS).link_probability(1, "peers")
    )
    assert len({float(p) for p in b.values()}) == len(ARROWS.peers)


def test_probabilities_stay_without_redraw():
    activity = bound(Bernoulli(nodes=distributions.Uniform(), links=distributions.Uniform()))
    for t in (1, 2, 1000, 10**6):
        assert np.array_equal(activity.node_probability(t), activity.node_probability(0))
        assert np.array_equal(
            activity.link_probability(t, "peers"), activity.link_probability(0, "peers")
        )


@pytest.mark.parametrize("every", [1, 7])
def test_redraw_keeps_probabilities_for_exactly_that_many_rounds(every):
    """Iterations k = 0, 1, ... are rounds k + 1: blocks are rounds 1 to N, N + 1 to 2 N, ..."""
    activity = bound(
        Bernoulli(nodes=distributions.Uniform(), links=distributions.Uniform(), redraw=every)
    )
    blocks = []
    for block in range(4):
        rounds = range(block * every + 1, (block + 1) * every + 1)
        d = np.array([activity.node_probability(t) for t in rounds])
        b = np.array([activity.link_probability(t, "peers") for t in rounds])
        assert (d == d[0]).all()
        assert (b == b[0]).all()
        blocks.append((d[0], b[0]))
    for (d, b), (later_d, later_b) in itertools.combinations(blocks, 2):
        assert (d != later_d).all()
        assert (b != later_b).all()


def test_what_was_given_as_numbers_is_never_redrawn():
    activity = bound(Bernoulli(nodes=0.4, links=distributions.Uniform(), redraw=2))
    assert all((activity.node_probability(t) == 0.4).all() for t in range(9))


def test_the_law_seed_fixes_abilities_apart_from_the_run():
    schedule = Bernoulli(nodes=distributions.Uniform(), links=distributions.Uniform(), seed=3)
    one, other = bound(schedule, seed=0), bound(schedule, seed=1)
    assert np.array_equal(one.node_probability(1), other.node_probability(1))
    assert np.array_equal(one.link_probability(1, "peers"), other.link_probability(1, "peers"))
    assert not np.array_equal(falls(one, 50)[0], falls(other, 50)[0])
    free = Bernoulli(nodes=distributions.Uniform())
    assert not np.array_equal(
        bound(free, seed=0).node_probability(1), bound(free, seed=1).node_probability(1)
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"nodes": 1.5}, "Bernoulli.nodes"),
        ({"nodes": [0.5, -0.1]}, "Bernoulli.nodes"),
        ({"links": np.nan}, "Bernoulli.links"),
        ({"links": "often"}, "Bernoulli.links"),
        ({"clip": 0.0}, "Bernoulli.clip"),
        ({"redraw": 0}, "Bernoulli.redraw"),
    ],
)
def test_what_are_no_probabilities_is_refused(options, named):
    with pytest.raises(ConfigError, match=named):
        Bernoulli(**options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"nodes": [0.5, 0.5]}, "2 probabilities were given for 5 rows"),
        ({"nodes": [0.5]}, "1 probabilities were given for 5 rows"),
        ({"nodes": np.full((5, 5), 0.5)}, r"shape \(5, 5\)"),
        ({"links": np.full((4, 4), 0.5)}, r"shape \(4, 4\)"),
        ({"links": [0.5] * 10}, r"shape \(10,\)"),
        ({"nodes": np.ones((3, 4), bool)}, r"\[rounds \+ 1, 5\]"),
    ],
)
def test_shapes_that_do_not_fit_the_graph_are_refused(options, named):
    with pytest.raises(ConfigError, match=named):
        bound(Bernoulli(**options)).node_probability(1)


def test_unequal_probabilities_of_one_coin_are_refused_by_link():
    b = np.full((5, 5), 0.5)
    b[1, 2] = 0.6
    with pytest.raises(ConfigError, match=r"links\[2, 1\] is 0.5, but \[1, 2\] is 0.6"):
        bound(Bernoulli(links=b))
    bound(Bernoulli(links=b), ARROWS)


def test_compat_or_tosses_at_both_ends():
    """DSpodFL's published code: a link fires with 1 - (1 - b)^2, in both directions at once."""
    _, links = falls(bound(Bernoulli(links=0.3, compat=("or",))))
    check_coins(links, np.full(len(RING.peers), 1 - 0.7**2))
    pairs = by_link(RING, links)
    assert all((pairs[i, j] == pairs[j, i]).all() for i, j in pairs)
    _, once = falls(bound(Bernoulli(links=0.3)))
    assert (links | ~once).all()  # whatever fires by one coin fires by either


def test_compat_latch_leaves_a_link_on_once_it_has_fired():
    activity = bound(Bernoulli(links=0.3, compat=("latch",)))
    _, tossed = falls(bound(Bernoulli(links=0.3)), 30)
    for t in (1, 30, 7, 29):  # asked in any order, as after an interruption
        assert (activity.links(t, "peers") == tossed[:t].any(axis=0)).all()
    nodes, _ = falls(activity, 30)
    assert nodes.all()
    assert (
        bound(Bernoulli(nodes=0.3, compat=("latch", "or"))).nodes(5)
        == bound(Bernoulli(nodes=0.3)).nodes(5)
    ).all()
    assert (activity.link_probability(9, "peers") == 0.3).all()
    assert activity.link_chance(3, "peers") == pytest.approx(np.full(len(RING.peers), 1 - 0.7**3))
    assert bound(Bernoulli(links=0.3, compat=("or",))).link_chance(3, "peers") == pytest.approx(
        1 - 0.7**2
    )
    often = np.mean(
        [
            bound(Bernoulli(links=0.3, compat=("latch",)), seed=k).links(3, "peers")
            for k in range(300)
        ]
    )
    assert often == pytest.approx(1 - 0.7**3, abs=0.06)
    with pytest.raises(ConfigError, match="'or' or 'latch', found"):
        Bernoulli(compat=("and",))
