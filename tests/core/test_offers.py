"""The ways to combine what arrives, through a real port, by matrix and link by link."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerloom import graphs
from peerloom.core import Offer, average, pull, push
from peerloom.runtime.matrix_mixer import MatrixMixer
from tests.builders import LINKS, directed_graphs, net_with_links, rows_of, seeds, undirected_graphs
from tests.oracles import (
    check_close,
    check_conserves_mass,
    check_keeps_consensus,
    check_offers,
    same_bits,
)

any_graph = st.one_of(undirected_graphs(), directed_graphs())
paths = pytest.mark.parametrize("wire", [None, LINKS], ids=["matrix", "links"])
LAWS = [pull, push, average]


def chance(seed, rows, p=0.5):
    """Random rows, and which links fire."""
    rng = np.random.default_rng(seed)
    return rows_of(rng, rows), rng.random((rows, rows)) < p


@paths
@given(graph=any_graph, seed=seeds)
def test_offers_equal_their_matrices(wire, graph, seed):
    x, fires = chance(seed, graph.rows)
    net = net_with_links(graph, fires, wire)
    check_offers(graph, fires, x, net.mix(pull(x)), net.mix(push(x)), net.mix(average(x)))


@paths
@given(graph=any_graph, seed=seeds)
def test_pull_keeps_what_all_agree_on_and_push_keeps_the_sum(wire, graph, seed):
    x, fires = chance(seed, graph.rows)
    net = net_with_links(graph, fires, wire)
    check_keeps_consensus(net.mix(pull(x[:1].repeat(graph.rows, 1))), x[:1])
    check_keeps_consensus(net.mix(average(x[:1].repeat(graph.rows, 1))), x[:1])
    check_conserves_mass(net.mix(push(x)), x)


@paths
@given(graph=any_graph, seed=seeds)
def test_average_stays_among_the_values_that_came(wire, graph, seed):
    x, fires = chance(seed, graph.rows, p=0.3)
    mixed = net_with_links(graph, fires, wire).mix(average(x))
    for i in range(graph.rows):
        came = [
            j
            for j, k in zip(graph.peers.src, graph.peers.dst, strict=True)
            if k == i and fires[i, j]
        ]
        if came:
            assert (mixed[i] >= x[came].min(dim=0).values - 1e-12).all()
            assert (mixed[i] <= x[came].max(dim=0).values + 1e-12).all()
        else:
            assert torch.equal(mixed[i], x[i])


@paths
@pytest.mark.parametrize("law", LAWS)
@given(graph=any_graph, seed=seeds)
@settings(max_examples=8)
def test_when_nothing_fires_no_bit_changes(wire, law, graph, seed):
    x, fires = chance(seed, graph.rows, p=0.0)
    x[0, 0], x[0, 1] = 0.0, 5e-324
    assert same_bits(net_with_links(graph, fires, wire).mix(law(x)), x)


@paths
@pytest.mark.parametrize("law", LAWS)
def test_when_nothing_fires_even_the_sign_of_a_zero_stays(wire, law):
    """Soft thresholds give -0.0; a row that hears nothing keeps it, on both paths."""
    x = torch.tensor([[-0.0, 0.0, 1.0], [2.0, -0.0, -3.0]], dtype=torch.float64)
    assert same_bits(net_with_links(graphs.ring(2), np.zeros((2, 2), bool), wire).mix(law(x)), x)


def test_a_bare_tensor_is_pulled():
    graph = graphs.directed_ring(3)
    x, fires = chance(0, 3, p=1.0)
    net = net_with_links(graph, fires, None)
    assert torch.equal(net.mix(x), net.mix(pull(x)))


SIZES = {
    "dense, undirected": graphs.geometric(30, radius=0.4),
    "dense, directed": graphs.random_digraph(20, p=0.3),
    "largest dense": graphs.small_world(47),
    "smallest sparse": graphs.small_world(48),
    "many rows, yet dense": graphs.complete(60),
    "sparse, undirected": graphs.regular(150, degree=4),
    "sparse, directed": graphs.random_digraph(140, p=0.05),
    "sparse, with a lonely row": graphs.from_edges(
        130, [(i, i + 1) for i in range(128)], directed=True
    ),
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("p", [1.0, 0.4, 0.02])
def test_matrix_path_equals_link_path(name, p):
    graph = SIZES[name]
    x, fires = chance(7, graph.rows, p)
    y = 3 * x + 1
    fast, slow = (net_with_links(graph, fires, wire) for wire in (None, LINKS))
    for law in LAWS:
        check_close(fast.mix(law(x)).numpy(), slow.mix(law(x)).numpy())
    offers = [pull(x), push(y), average(x), pull(y)]
    for one, other, offer in zip(fast.mix(*offers), slow.mix(*offers), offers, strict=True):
        check_close(one.numpy(), other.numpy())
        check_close(one.numpy(), fast.mix(offer).numpy())


@pytest.mark.parametrize(
    ("graph", "layout"),
    [
        (graphs.ring(47), torch.strided),
        (graphs.ring(48), torch.sparse_csr),
        (graphs.regular(60, degree=8), torch.sparse_csr),  # 9 of 60 in each row: less than a sixth
        (graphs.regular(60, degree=10), torch.strided),
    ],
)
def test_few_rows_and_full_matrices_are_dense_others_sparse(graph, layout):
    mixer = MatrixMixer(graph.peers, torch.float64, torch.device("cpu"))
    assert (
        mixer._matrix(pull(torch.zeros(graph.rows, 1)), np.ones(len(graph.peers), bool)).layout
        == layout
    )


def test_a_wide_sparse_product_is_the_same_in_pieces():
    graph, x = (
        graphs.ring(50),
        torch.randn(50, 10_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
    )
    mixer = MatrixMixer(graph.peers, torch.float64, torch.device("cpu"))
    mixed = mixer(pull(x), np.ones(len(graph.peers), bool))
    torch.testing.assert_close(
        mixed, torch.from_numpy(graph.peers.matrix()) @ x, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", ["dense, directed", "sparse, directed"])
def test_a_link_pattern_that_changes_is_noticed(name):
    """The matrix is kept from round to round; it must follow the links."""
    graph = SIZES[name]
    x, fires = chance(1, graph.rows)
    fast = net_with_links(graph, fires, None)
    fast.mix(pull(x), push(x))
    other = net_with_links(graph, ~fires, LINKS)
    fast.activity = other.activity
    for one, two in zip(fast.mix(pull(x), push(x)), other.mix(pull(x), push(x)), strict=True):
        check_close(one.numpy(), two.numpy())


def _half(mass, sent):
    return 0.5, 1 - 0.5 * mass


def test_offers_of_one_law_with_different_weights_are_kept_apart():
    graph = SIZES["dense, directed"]
    x, fires = chance(2, graph.rows)
    offers = [Offer(x, weight, _half) for weight in ("a", "b", "one")]
    fast, slow = (net_with_links(graph, fires, wire).mix(*offers) for wire in (None, LINKS))
    for one, other in zip(fast, slow, strict=True):
        check_close(one.numpy(), other.numpy())


@pytest.mark.parametrize("name", ["dense, undirected", "sparse, undirected"])
def test_what_lay_in_memory_before_does_not_matter(name, monkeypatch):
    graph = SIZES[name]
    x, fires = chance(3, graph.rows)
    net = net_with_links(graph, fires, None)
    wanted = net.mix(x)
    monkeypatch.setattr(torch, "empty_like", lambda like, **_: torch.full_like(like, torch.nan))
    assert torch.equal(net.mix(x), wanted)


class LossyWire:
    """Loses the messages of `lost` [receiver, sender]; both ends learn of it."""

    def __init__(self, lost):
        self.lost = lost

    def exchange(self, tag, links, out, rows, into, parts):
        arrived, acked = (~self.lost[links.dst[ids], links.src[ids]] for ids in (into, out))
        came = LINKS.exchange(tag, links, out[acked], rows, into[arrived], parts)
        return came._replace(arrived=arrived, acked=acked)


@given(graph=any_graph, seed=seeds, loss=st.floats(0, 1))
def test_a_lost_message_is_a_link_that_did_not_fire(graph, seed, loss):
    x, fires = chance(seed, graph.rows, p=0.7)
    lost = np.random.default_rng(seed + 1).random(fires.shape) < loss
    offers = [pull(x), push(2 * x), average(x - 1)]
    through_loss = net_with_links(graph, fires, LossyWire(lost)).mix(*offers)
    without = net_with_links(graph, fires & ~lost, LINKS).mix(*offers)
    for one, other in zip(through_loss, without, strict=True):
        assert same_bits(one, other)
