"""Schedules without coins: patterns written out by hand, by round."""

import numpy as np
import pytest

from peerloom import graphs
from peerloom.core import ConfigError, Draws
from peerloom.schedules import Always, Bernoulli, Cycle, Every, Explicit

RING = graphs.ring(4)


def pattern(schedule, rounds, graph=RING):
    """(nodes, links) from round 1 on as strings of 1 and 0; all rows, and all links, agree."""
    activity = schedule.bind(graph, Draws(0))
    nodes, links = "", ""
    for t in range(1, rounds + 1):
        v, fires = activity.nodes(t), activity.links(t, "peers")
        assert v.shape == (graph.rows,)
        assert fires.shape == (len(graph.peers),)
        assert len(set(v)) == len(set(fires)) == 1
        nodes, links = nodes + str(int(v[0])), links + str(int(fires[0]))
    return nodes, links


def test_always():
    assert pattern(Always(), 5) == ("11111", "11111")


@pytest.mark.parametrize(
    ("T0", "links"),
    [
        (1, "0111111111"),  # DEPOSITUM's t = 0 never talks, not even for T0 = 1
        (2, "0010101010"),  # its t = 2, 4, ... are rounds 3, 5, ...
        (3, "0001001001"),
        (20, "0000000000"),
    ],
)
def test_every_counts_as_depositum_does(T0, links):
    assert pattern(Every(T0), 10) == ("1111111111", links)


@pytest.mark.parametrize(
    ("options", "nodes", "links"),
    [
        ({}, "11101110", "00010001"),  # D local rounds, one that only aggregates
        ({"sgd_while_aggregating": True}, "11111111", "00010001"),  # appendix P.3
        ({"sgd_while_aggregating": True, "period": "D"}, "11111111", "00100100"),  # main text
    ],
)
def test_the_readings_of_the_dfedavg_cycle(options, nodes, links):
    assert pattern(Cycle(D=3, **options), 8) == (nodes, links)


@pytest.mark.parametrize(
    ("d", "rounding", "D"),
    [
        ([1.0, 0.5, 0.25, 0.25], "ceil", 3),  # mean 1/d = 2.75
        ([1.0, 0.5, 0.25, 0.25], "floor", 2),
        ([0.1, 0.1, 0.1, 0.1], "ceil", 10),  # a whole number stays, whatever the rounding error
        ([0.1, 0.1, 0.1, 0.1], "floor", 10),
        ([0.3, 0.3, 0.3, 0.3], "ceil", 4),
        ([1.0, 1.0, 1.0, 1.0], "floor", 1),
        ([0.001, 1.0, 1.0, 1.0], "floor", 25),  # clipped at 0.01: (100 + 3) / 4
    ],
)
def test_the_local_rounds_are_the_mean_of_one_over_d(d, rounding, D):
    cycle = Cycle(rounding=rounding, resources=Bernoulli(nodes=d))
    assert pattern(cycle, D + 1) == ("1" * D + "0", "0" * D + "1")


def test_whole_means_of_reciprocals_survive_rounding_errors():
    for D in range(1, 50):
        for rounding in ("ceil", "floor"):
            assert (
                pattern(Cycle(rounding=rounding, resources=Bernoulli(nodes=1 / D)), D + 1)[1]
                == "0" * D + "1"
            )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Every(0),
        lambda: Cycle(),
        lambda: Cycle(D=0),
        lambda: Cycle(D=2, rounding="up"),
        lambda: Cycle(D=2, period="2D"),
    ],
)
def test_impossible_schedules_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def test_without_coins_everybody_is_able():
    for schedule in (Always(), Every(2), Cycle(D=2), Explicit()):
        activity = schedule.bind(RING, Draws(0))
        assert activity.node_probability(1).tolist() == [1.0] * 4
        assert activity.link_probability(1, "peers").tolist() == [1.0] * 8


def test_explicit_is_followed_to_the_letter_receiver_first():
    rng = np.random.default_rng(0)
    nodes, links = rng.random((6, 4)) < 0.5, rng.random((6, 4, 4)) < 0.5
    activity = Explicit(nodes, links).bind(RING, Draws(0))
    for t in range(6):
        assert np.array_equal(activity.nodes(t), nodes[t])
        wanted = [links[t, i, j] for i, j in zip(RING.peers.dst, RING.peers.src, strict=True)]
        assert activity.links(t, "peers").tolist() == wanted


def test_what_explicit_leaves_out_is_always_on():
    activity = Explicit(nodes=np.zeros((3, 4), bool)).bind(RING, Draws(0))
    assert not activity.nodes(2).any()
    assert activity.links(2, "peers").all()
    assert Explicit(links=np.zeros((3, 4, 4), bool)).bind(RING, Draws(0)).nodes(2).all()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (
            {"nodes": np.ones((5, 3), bool)},
            r"Explicit.nodes must be bool of shape \[rounds \+ 1, 4\]",
        ),
        ({"nodes": np.ones((5, 4))}, "found float64"),
        ({"nodes": np.ones(4, bool)}, r"found bool of \[4\]"),
        (
            {"links": np.ones((5, 4), bool)},
            r"Explicit.links must be bool of shape \[rounds \+ 1, 4, 4\]",
        ),
        ({"links": np.ones((5, 4, 3), bool)}, r"found bool of \[5, 4, 3\]"),
    ],
)
def test_explicit_refuses_wrong_shapes(options, named):
    with pytest.raises(ConfigError, match=named):
        Explicit(**options).bind(RING, Draws(0))


def test_explicit_says_when_it_runs_out():
    activity = Explicit(nodes=np.ones((5, 4), bool), links=np.ones((3, 4, 4), bool)).bind(
        RING, Draws(0)
    )
    with pytest.raises(
        ConfigError, match=r"Explicit\.nodes has entries for rounds 0 to 4, but round 5"
    ):
        activity.nodes(5)
    with pytest.raises(
        ConfigError, match=r"Explicit\.links has entries for rounds 0 to 2, but round 3"
    ):
        activity.links(3, "peers")
