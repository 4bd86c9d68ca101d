"""Links are sorted and checked when made, and errors name the wrong row or link."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerloom.core import ConfigError, Links, Network
from tests.oracles import check_close


def made(rows, pairs, a=None, b=None, **options):
    """Links from (source, target) pairs; weights of 0.1 where none are given."""
    src, dst = zip(*pairs, strict=True)
    a = [0.1] * len(pairs) if a is None else a
    return Links.make(rows, src, dst, a, a if b is None else b, **options)


def test_links_are_sorted_by_receiver_then_sender_and_weights_follow():
    links = made(3, [(2, 0), (0, 2), (1, 0)], a=[0.1, 0.2, 0.3], b=[0.4, 0.5, 0.6])
    assert list(zip(links.src, links.dst, links.a, links.b, strict=True)) == [
        (1, 0, 0.3, 0.6),
        (2, 0, 0.1, 0.4),
        (0, 2, 0.2, 0.5),
    ]
    assert len(links) == 3
    assert links.in_degree.tolist() == [2, 0, 1]
    assert links.out_degree.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("pairs", "a", "named"),
    [
        ([(0, 1), (2, 2)], None, "Row 2 has a link to itself"),
        ([(0, 1), (2, 1), (0, 1)], None, "0 -> 1 is given twice"),
        ([(0, 1), (1, 7)], None, "row 7"),
        ([(0, 1), (-3, 1)], None, "row -3"),
        ([(0, 1), (1, 2)], [0.1, -0.2], "1 -> 2 is -0.2"),
        ([(0, 1), (1, 2)], [0.1, np.nan], "1 -> 2 is nan"),
        ([(0, 1), (1, 2)], [np.inf, 0.1], "0 -> 1 is inf"),
        ([(0, 1), (2, 1), (1, 2)], [0.6, 0.5, 0.1], "row 1 receives sum to 1.1"),
    ],
)
def test_wrong_links_are_refused_by_name(pairs, a, named):
    with pytest.raises(ConfigError, match=named):
        made(3, pairs, a)


def test_what_a_row_sends_may_not_sum_to_more_than_one():
    pairs = [(1, 0), (1, 2), (0, 1)]
    with pytest.raises(ConfigError, match=r"row 1 sends sum to 1\.2"):
        made(3, pairs, a=[0.1, 0.1, 0.1], b=[0.6, 0.6, 0.1])


def test_weights_that_sum_to_one_exactly_are_allowed():
    thirds = made(4, [(1, 0), (2, 0), (3, 0)], a=[1 / 3] * 3)
    check_close(thirds.matrix("a")[0], [0, 1 / 3, 1 / 3, 1 / 3])


def test_both_directions_share_a_coin_only_when_asked():
    both = [(0, 1), (1, 0), (1, 2), (2, 1)]
    shared, own = made(3, both, one_coin=True), made(3, both)
    coin = {(s, d): c for s, d, c in zip(shared.src, shared.dst, shared.coin, strict=True)}
    assert coin[0, 1] == coin[1, 0] != coin[1, 2] == coin[2, 1]
    assert len(set(own.coin)) == 4


BOTH = [(0, 1), (1, 0)]


def test_symmetric_means_reverse_links_equal_weights_and_one_coin():
    assert made(2, BOTH, one_coin=True).symmetric
    assert not made(2, [(0, 1)], one_coin=True).symmetric
    assert not made(2, BOTH).symmetric
    assert not made(2, BOTH, a=[0.1, 0.2], one_coin=True).symmetric
    assert not made(2, BOTH, a=[0.1, 0.1], b=[0.2, 0.2], one_coin=True).symmetric
    assert not made(3, [(0, 1), (1, 2), (2, 0)], one_coin=True).symmetric


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_the_matrix_holds_the_weights_and_what_they_leave_over(rows, seed):
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(rows) for j in range(rows) if i != j and rng.random() < 0.6] or [
        (0, 1)
    ]
    a, b = rng.uniform(0, 1 / rows, (2, len(pairs)))
    links = made(rows, pairs, a, b)
    for kind, weight in (("a", a), ("b", b)):
        M = links.matrix(kind)
        for (source, target), w in zip(pairs, weight, strict=True):
            assert M[target, source] == w
        for i in range(rows):
            sums = M[i] if kind == "a" else M[:, i]
            assert abs(sums.sum() - 1) < 1e-12
            assert sum(1 for x in np.delete(sums, i) if x) == sum(
                1 for p in pairs if p[1 if kind == "a" else 0] == i
            )


def test_links_give_their_weights_by_name():
    links = made(3, [(0, 1), (1, 2)], a=[0.1, 0.2], b=[0.3, 0.4])
    assert links.weight("a").tolist() == [0.1, 0.2]
    assert links.weight("b").tolist() == [0.3, 0.4]
    assert links.weight("one").tolist() == [1, 1]


def test_an_unknown_layer_is_refused_with_those_there_are():
    network = Network(2, {"peers": made(2, BOTH)}, "pair")
    assert network.layer("peers") is network.peers
    with pytest.raises(ConfigError, match=r"'pair' has no layer 'up'; it has peers"):
        network.layer("up")
