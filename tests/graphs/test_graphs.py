"""Graphs have their name's shape and weights, and depend on their arguments alone."""

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from peerloom import graphs
from peerloom.core import ConfigError
from peerloom.graphs import build, weights
from tests.builders import directed_graphs, undirected_graphs
from tests.oracles import check_close, check_metropolis, check_row_stochastic

UNDIRECTED = {
    "ring": graphs.ring(7),
    "path": graphs.path(5),
    "grid": graphs.grid(3, 4),
    "star": graphs.star(6),
    "complete": graphs.complete(5),
    "geometric": graphs.geometric(10, radius=0.4, seed=1),
    "erdos_renyi": graphs.erdos_renyi(12, p=0.3, seed=1),
    "regular": graphs.regular(10, degree=3, seed=1),
    "small_world": graphs.small_world(12, degree=4, rewire=0.3, seed=1),
    "pair": graphs.ring(2),
}
DIRECTED = {
    "exponential": graphs.exponential(10),
    "directed_ring": graphs.directed_ring(6),
    "random_digraph": graphs.random_digraph(9, p=0.3, seed=1),
}


def arrows(network):
    """The links as a networkx digraph, source to target."""
    shape = nx.DiGraph()
    shape.add_nodes_from(range(network.rows))
    shape.add_edges_from(zip(network.peers.src.tolist(), network.peers.dst.tolist(), strict=True))
    return shape


def pairs(network):
    return set(arrows(network).edges)


@pytest.mark.parametrize("name", UNDIRECTED)
def test_undirected_graphs_are_connected_symmetric_and_metropolis(name):
    graph = UNDIRECTED[name]
    assert not graph.directed
    assert graph.peers.symmetric
    assert nx.is_connected(arrows(graph).to_undirected(reciprocal=True))
    check_metropolis(graph)


@pytest.mark.parametrize("name", DIRECTED)
def test_directed_graphs_are_strongly_connected_with_a_coin_per_link(name):
    graph = DIRECTED[name]
    assert graph.directed
    assert nx.is_strongly_connected(arrows(graph))
    assert len(set(graph.peers.coin)) == len(graph.peers)


def test_named_graphs_have_exactly_their_links():
    both = lambda edges: {(i, j) for i, j in edges} | {(j, i) for i, j in edges}  # noqa: E731
    assert pairs(graphs.ring(4)) == both([(0, 1), (1, 2), (2, 3), (3, 0)])
    assert pairs(graphs.path(4)) == both([(0, 1), (1, 2), (2, 3)])
    assert pairs(graphs.star(4)) == both([(0, 1), (0, 2), (0, 3)])
    assert pairs(graphs.complete(3)) == both([(0, 1), (0, 2), (1, 2)])
    assert pairs(graphs.grid(2, 3)) == both(
        [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    )
    assert pairs(graphs.directed_ring(3)) == {(0, 1), (1, 2), (2, 0)}
    assert pairs(graphs.exponential(5)) == {
        (i, (i + hop) % 5) for i in range(5) for hop in (1, 2, 4)
    }
    assert pairs(graphs.exponential(8)) == {
        (i, (i + hop) % 8) for i in range(8) for hop in (1, 2, 4)
    }


@pytest.mark.parametrize("degree", [2, 3, 6])
def test_regular_graphs_have_one_degree(degree):
    assert set(graphs.regular(8, degree, seed=3).peers.in_degree) == {degree}


@pytest.mark.parametrize("seed", range(4))
def test_geometric_links_exactly_the_pairs_within_the_radius(seed):
    graph = graphs.geometric(12, radius=0.35, seed=seed)
    where = graph.positions
    assert where.min() >= 0
    assert where.max() < 1
    near = {
        (i, j)
        for i in range(12)
        for j in range(12)
        if i != j and math.dist(where[i], where[j]) <= 0.35
    }
    assert pairs(graph) == near


def test_geometric_is_redrawn_until_connected(monkeypatch):
    looks = []
    really = nx.is_connected
    monkeypatch.setattr(
        build.nx, "is_connected", lambda shape: looks.append(really(shape)) or looks[-1]
    )
    # Few draws of ten points are connected at this radius.
    graph = graphs.geometric(10, radius=0.3, seed=0)
    assert looks == [False] * (len(looks) - 1) + [True]
    assert len(looks) > 1
    assert really(arrows(graph).to_undirected())


def test_ten_points_that_hardly_ever_connect_do_with_every_seed():
    # The first 10,000 draws of both are not connected.
    for seed in (50, 52):
        assert nx.is_connected(arrows(graphs.geometric(10, radius=0.2, seed=seed)).to_undirected())


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (
            lambda: graphs.geometric(10, radius=0.01),
            "none of 20 graphs of 10 clients with radius 0.01 was connected",
        ),
        (
            lambda: graphs.erdos_renyi(10, p=0.0),
            "none of 20 graphs with clients=10, p=0.0 was connected",
        ),
        (lambda: graphs.random_digraph(10, p=0.0), "none of 20 graphs"),
        (lambda: graphs.regular(6, degree=1), "none of 20 graphs"),
    ],
)
def test_hopeless_random_graphs_are_given_up_with_a_number(make, named, monkeypatch):
    monkeypatch.setattr(build, "_TRIES", 20)
    monkeypatch.setattr(build, "_POINTS", 20)
    with pytest.raises(ConfigError, match=named):
        make()


RANDOM = {
    "geometric": lambda seed: graphs.geometric(10, radius=0.5, seed=seed),
    "erdos_renyi": lambda seed: graphs.erdos_renyi(10, p=0.4, seed=seed),
    "regular": lambda seed: graphs.regular(10, degree=3, seed=seed),
    "small_world": lambda seed: graphs.small_world(10, rewire=0.5, seed=seed),
    "random_digraph": lambda seed: graphs.random_digraph(10, p=0.3, seed=seed),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_graphs_are_a_function_of_the_seed(name):
    make = RANDOM[name]
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    found = [pairs(make(seed)) for seed in (0, 0, 1, 2)]
    assert found[0] == found[1]
    assert len({frozenset(each) for each in found}) == 3
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("name", [*UNDIRECTED, *DIRECTED])
def test_a_graph_can_be_made_again_from_its_recipe(name):
    graph = {**UNDIRECTED, **DIRECTED}[name]
    recipe = dict(graph.recipe)
    again = graphs.GRAPHS[recipe.pop("name")](**recipe)
    assert pairs(again) == pairs(graph)


@given(undirected_graphs())
def test_metropolis_weights_are_symmetric_and_doubly_stochastic(graph):
    check_metropolis(graph)


@given(directed_graphs())
def test_uniform_weights_are_row_and_column_stochastic(graph):
    links, shape = graph.peers, arrows(graph)
    for source, target, a, b in zip(
        links.src.tolist(), links.dst.tolist(), links.a, links.b, strict=True
    ):
        assert a == 1 / (1 + shape.in_degree(target))
        assert b == 1 / (1 + shape.out_degree(source))
    check_row_stochastic(links.matrix("a"))
    check_row_stochastic(links.matrix("b").T)


def test_edges_go_from_source_to_target():
    graph = graphs.from_edges(3, [(0, 1), (0, 2)], directed=True)
    assert pairs(graph) == {(0, 1), (0, 2)}
    assert graph.peers.in_degree.tolist() == [0, 1, 1]
    assert graph.peers.out_degree.tolist() == [2, 0, 0]


def test_undirected_edges_go_both_ways_and_count_once():
    graph = graphs.from_edges(3, [(0, 1), (1, 0), (1, 2)])
    assert pairs(graph) == {(0, 1), (1, 0), (1, 2), (2, 1)}


@pytest.mark.parametrize("edge", [(0, 3), (-1, 0)])
def test_an_edge_to_nowhere_is_refused(edge):
    with pytest.raises(
        ConfigError, match=rf"\({edge[0]}, {edge[1]}\) names a client outside 0 to 2"
    ):
        graphs.from_edges(3, [(0, 1), edge])


@given(directed_graphs())
def test_networkx_graphs_keep_their_direction(graph):
    assert pairs(graphs.from_networkx(arrows(graph))) == pairs(graph)


def test_networkx_nodes_are_numbered_in_their_order():
    shape = nx.Graph([("c", "a"), ("a", "b")])
    assert pairs(graphs.from_networkx(shape)) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert not graphs.from_networkx(shape).directed


@given(undirected_graphs())
@settings(max_examples=15)
def test_a_symmetric_matrix_gives_back_its_weights(graph):
    W = graph.peers.matrix("a")
    again = graphs.from_matrix(W)
    assert not again.directed
    assert again.peers.symmetric
    check_close(again.peers.matrix("a"), W)
    assert pairs(again) == pairs(graph)


@given(directed_graphs())
@settings(max_examples=15)
def test_two_matrices_give_back_their_weights(graph):
    again = graphs.from_matrix(graph.peers.matrix("a"), graph.peers.matrix("b"))
    assert again.directed
    check_close(again.peers.matrix("a"), graph.peers.matrix("a"))
    check_close(again.peers.matrix("b"), graph.peers.matrix("b"))


@pytest.mark.parametrize(
    ("W", "B", "named"),
    [
        ([[0.5, 0.5], [0.6, 0.5]], None, "W, row 1 sums to 1.1"),
        ([[0.5, 0.5], [1.5, -0.5]], None, "W, row 1.*least is -0.5"),
        ([[0.5, 0.5], [1.0, 0.0]], None, "W, column 0 sums to 1.5"),
        ([[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.2], [0.5, 0.5]], "B, column 1 sums to 0.7"),
        ([[0.5, 0.5], [0.5, 0.5]], np.eye(3), "W has shape \\(2, 2\\), B \\(3, 3\\)"),
        ([[0.5, 0.5]], None, "W has shape \\(1, 2\\)"),
        ([[np.nan, 1.0], [0.5, 0.5]], None, "W, row 0"),
    ],
)
def test_a_wrong_matrix_is_refused_by_row(W, B, named):
    with pytest.raises(ConfigError, match=named):
        graphs.from_matrix(W, B)


def test_weight_checks_pass_what_is_right_and_name_what_is_wrong():
    W = [[0.7, 0.3, 0.0], [0.3, 0.4, 0.3], [0.0, 0.3, 0.7]]
    for check in (
        weights.check_row_stochastic,
        weights.check_column_stochastic,
        weights.check_symmetric,
    ):
        assert check(W).tolist() == W
    with pytest.raises(ConfigError, match=r"R, row 2 sums to 0\.9"):
        weights.check_row_stochastic([[1, 0, 0], [0, 1, 0], [0, 0, 0.9]], "R")
    with pytest.raises(ConfigError, match=r"R, column 0 sums to 2"):
        weights.check_column_stochastic([[1, 0, 0], [1, 0, 0], [0, 1, 1]], "R")
    with pytest.raises(ConfigError, match=r"R\[0, 1\] is 1, but R\[1, 0\] is 0"):
        weights.check_symmetric([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "R")


@pytest.mark.parametrize(
    "make",
    [
        lambda: graphs.ring(1),
        lambda: graphs.geometric(5, radius=0.0),
        lambda: graphs.erdos_renyi(5, p=1.5),
        lambda: graphs.random_digraph(5, p=-0.1),
        lambda: graphs.regular(5, degree=3),
        lambda: graphs.regular(4, degree=4),
        lambda: graphs.small_world(6, degree=6),
        lambda: graphs.small_world(6, rewire=2.0),
    ],
)
def test_impossible_arguments_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def test_two_way_splits_coins_and_weights():
    base = graphs.geometric(8, radius=0.5, seed=2)
    graph = graphs.two_way(base)
    assert graph.directed
    assert np.array_equal(graph.peers.src, base.peers.src)
    assert len(set(graph.peers.coin)) == len(graph.peers)
    assert not graph.peers.symmetric
    np.testing.assert_allclose(graph.peers.a, 1 / (1 + base.peers.in_degree[base.peers.dst]))
    np.testing.assert_allclose(graph.peers.b, 1 / (1 + base.peers.out_degree[base.peers.src]))
