"""Partitions: disjoint, complete where promised, none empty, a function of the seed (5.3)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from peerloom.core import ConfigError, Draws
from peerloom.experiment import Experiment
from peerloom.graphs import ring
from peerloom.problems import (
    IID,
    BySize,
    Classification,
    Dataset,
    Dirichlet,
    Groups,
    Labels,
    Natural,
)
from peerloom.rules import DSpodFL
from peerloom.runtime import build_port

seeds = st.integers(0, 10**6)


def labels(classes, each, seed=0):
    """`each` samples of every class, in no order."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(classes), each))


def check_dealt(parts, clients, samples, complete=True):
    """Disjoint parts of the right samples, none empty."""
    together = np.concatenate(parts)
    assert len(parts) == clients
    assert min(map(len, parts)) > 0
    assert len(set(together.tolist())) == len(together)
    assert set(together.tolist()) <= set(range(samples))
    assert not complete or len(together) == samples


ALL = {
    "iid": IID(),
    "by size": BySize((1, 2, 3, 10)),
    "labels": Labels(2),
    "dirichlet": Dirichlet(0.5),
    "groups": Groups((1, 3)),
}


@pytest.mark.parametrize("name", ALL)
def test_a_deal_is_a_function_of_the_seed(name):
    y = labels(4, 50)
    one, same, other = (ALL[name].deal(y, 4, Draws(seed)) for seed in (1, 1, 2))
    check_dealt(one, 4, 200)
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@given(st.integers(1, 12), st.integers(0, 60), seeds)
def test_iid_parts_are_equal(clients, more, seed):
    parts = IID().deal(np.zeros(clients + more, np.int64), clients, Draws(seed))
    check_dealt(parts, clients, clients + more)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_iid_parts_look_alike():
    y = labels(4, 500)
    for part in IID().deal(y, 5, Draws(0)):
        assert stats.chisquare(np.bincount(y[part], minlength=4)).pvalue > 1e-4


def test_sizes_are_exact_where_they_divide():
    """MLL-SGD's groups hold 5, 10, 20, 25 and 40 per cent of the data."""
    parts = BySize((5, 10, 20, 25, 40)).deal(np.zeros(1000), 5, Draws(0))
    assert [len(part) for part in parts] == [50, 100, 200, 250, 400]


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=9), st.integers(100, 400), seeds)
def test_sizes_are_the_shares_rounded(shares, samples, seed):
    parts = BySize(tuple(shares)).deal(np.zeros(samples), len(shares), Draws(seed))
    check_dealt(parts, len(shares), samples)
    exact = np.array(shares) / sum(shares) * samples
    # Those who would be empty are given a sample of others.
    raised = sum(1 for size in exact if size <= 1)
    assert np.abs([len(part) for part in parts] - exact).max() <= 1 + raised


@given(st.integers(2, 6), st.integers(1, 8), st.data(), seeds)
@settings(max_examples=60)
def test_every_client_has_exactly_its_number_of_labels(classes, clients, data, seed):
    per_client = data.draw(st.integers(1, classes))
    y = labels(classes, 3 * clients, seed)
    parts = Labels(per_client).deal(y, clients, Draws(seed))
    check_dealt(parts, clients, len(y), complete=clients * per_client >= classes)
    held = [set(y[part].tolist()) for part in parts]
    assert all(len(each) == per_client for each in held)
    shards = [sum(c in each for each in held) for c in range(classes)]
    assert max(shards) - min(shards) <= 1  # spread over the classes as evenly as possible
    for c in range(classes):
        cuts = [int((y[part] == c).sum()) for part in parts if (y[part] == c).any()]
        assert not cuts or max(cuts) - min(cuts) <= 1  # equal shards, each handed out once
        assert not cuts or sum(cuts) == 3 * clients


@given(st.integers(2, 4), st.integers(1, 6), st.integers(1, 5), seeds)
def test_more_shards_than_classes_are_handed_out_once(classes, clients, extra, seed):
    y = labels(classes, clients * (classes + extra), seed)
    check_dealt(Labels(classes + extra).deal(y, clients, Draws(seed)), clients, len(y))


def test_one_label_each_for_ten_clients_and_ten_classes_is_a_permutation():
    y = labels(10, 20)
    parts = Labels(1).deal(y, 10, Draws(3))
    assert sorted(int(y[part[0]]) for part in parts) == list(range(10))
    assert all(len(part) == 20 for part in parts)


def test_all_labels_for_everybody_is_an_even_deal():
    y = labels(10, 20)
    for part in Labels(10).deal(y, 10, Draws(3)):
        assert np.bincount(y[part], minlength=10).tolist() == [2] * 10


def test_any_class_may_come_first():
    y = labels(4, 8)
    first = [int(y[Labels(1).deal(y, 8, Draws(seed))[0][0]]) for seed in range(400)]
    assert stats.chisquare(np.bincount(first, minlength=4)).pvalue > 1e-4


def test_labels_need_not_be_numbered_without_gaps():
    y = np.array([3, 3, 7, 7, 7, 9, 9, 9])
    parts = Labels(1).deal(y, 3, Draws(0))
    assert sorted(int(y[part[0]]) for part in parts) == [3, 7, 9]


def test_groups_of_workers_hold_their_shares():
    """MLL-SGD: 5 groups of 20 workers hold 5, 10, 20, 25 and 40 per cent, equal within a group."""
    sizes = [len(part) for part in Groups().deal(np.zeros(20_000), 100, Draws(0))]
    assert sizes == [50] * 20 + [100] * 20 + [200] * 20 + [250] * 20 + [400] * 20
    by_hub = [len(part) for part in Groups(hubs=10).deal(np.zeros(20_000), 100, Draws(0))]
    assert by_hub == [50, 50, 100, 100, 200, 200, 250, 250, 400, 400] * 10
    assert sum(by_hub[:10]) == 2000  # every hub holds as much as every other


def test_natural_owners_are_the_clients():
    owners = np.array([2, 0, 1, 1, 0, 2, 2])
    parts = Natural().deal(owners, 3, Draws(0))
    assert [part.tolist() for part in parts] == [[1, 4], [2, 3], [0, 5, 6]]


def test_natural_needs_owners_and_uses_them_not_the_labels():
    x = np.arange(12.0).reshape(6, 2)
    data = Dataset.of(x, [0, 1, 0, 1, 0, 1], owners=["b", "a", "a", "c", "b", "b"])
    exp = Experiment(
        graph=ring(3), problem=Classification("softmax", data, Natural()), algorithm=DSpodFL(lr=0.1)
    )
    assert [part.tolist() for part in build_port(exp).problem.parts] == [[1, 2], [0, 4, 5], [3]]
    plain = Classification("softmax", Dataset.of(x, [0, 1, 0, 1, 0, 1]), Natural())
    with pytest.raises(ConfigError, match="owners, which 'own' have not"):
        build_port(Experiment(graph=ring(3), problem=plain, algorithm=DSpodFL(lr=0.1)))


def first_shards(y, seed, clients, per_client):
    """The first shard of each class, cut as the proper deal cuts them."""
    order = np.argsort(Draws(seed).once("partition/labels", np.arange(len(y)))[:, 0], kind="stable")
    count = clients * per_client // len(np.unique(y))
    return {c: np.array_split(order[y[order] == c], count)[0] for c in np.unique(y)}


def test_as_the_authors_code_ran_shards_are_shared():
    """Section 5.4.6: a client that draws class c gets shard 0 of c, and may draw it twice."""
    y = labels(10, 40)
    shards = first_shards(y, 5, 10, 10)
    parts = Labels(10, compat=True).deal(y, 10, Draws(5))
    twice = 0
    for part in parts:
        assert len(part) == 40
        held, times = np.unique(part, return_counts=True)
        for c in np.unique(y[held]):
            assert set(held[y[held] == c]) == set(shards[c])
        twice += times.max() > 1
    assert twice > 5  # ten draws from ten classes nearly always meet one twice
    together = np.unique(np.concatenate(parts))
    assert len(together) == 40  # all ten clients share one tenth of the data


def test_with_one_label_each_the_authors_code_was_right():
    y = labels(10, 20)
    for proper, run in zip(
        Labels(1).deal(y, 10, Draws(2)), Labels(1, compat=True).deal(y, 10, Draws(2)), strict=True
    ):
        assert np.array_equal(proper, run)


@given(st.floats(0.02, 50), st.integers(1, 8), st.integers(1, 4), seeds)
def test_dirichlet_leaves_nobody_short(theta, clients, least, seed):
    y = labels(3, 20, seed)
    parts = Dirichlet(theta, least=least).deal(y, clients, Draws(seed))
    check_dealt(parts, clients, 60)
    assert min(map(len, parts)) >= least


@pytest.mark.parametrize("theta", [0.5, 1.0, 5.0])
def test_dirichlet_shares_have_their_law(theta):
    """The share of one of five clients is Beta(theta, 4 theta)."""
    y = np.zeros(20_000, np.int64)
    share = [
        len(Dirichlet(theta).deal(y, 5, Draws(seed))[seed % 5]) / 20_000 for seed in range(200)
    ]
    assert stats.kstest(share, stats.beta(theta, 4 * theta).cdf).pvalue > 1e-4


def test_dirichlet_classes_are_dealt_independently():
    y = np.repeat([0, 1], 1000)
    shares = []
    for seed in range(200):
        part = Dirichlet(1.0).deal(y, 5, Draws(seed))[0]
        shares.append(np.bincount(y[part], minlength=2))
    assert abs(np.corrcoef(np.array(shares).T)[0, 1]) < 4.5 / np.sqrt(200)


@pytest.mark.parametrize("theta", [0.01, 0.001, 0.0001])
def test_with_a_small_theta_one_client_gets_nearly_all_of_a_class(theta):
    y = np.zeros(1000, np.int64)
    largest = [max(map(len, Dirichlet(theta).deal(y, 3, Draws(seed)))) for seed in range(60)]
    assert np.mean(np.array(largest) > 900) > 0.9  # a smaller one has a chance of a few times theta


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Labels(0), "per_client"),
        (lambda: Dirichlet(0.0), "theta"),
        (lambda: Dirichlet(1.0, least=0), "least"),
        (lambda: BySize(()), "sizes"),
        (lambda: BySize((1.0, 0.0)), "sizes"),
        (lambda: BySize((1.0, 2.0)).deal(np.zeros(9), 3, Draws(0)), "2 sizes for 3 clients"),
        (lambda: Groups(()), "positive shares"),
        (lambda: Groups(hubs=0), "one hub"),
        (lambda: Groups().deal(np.zeros(99), 12, Draws(0)), "12 clients cannot be cut into 5"),
        (lambda: Natural().deal(np.zeros(9), 3, Draws(0)), "1 owners, but there are 3 clients"),
        (lambda: IID().deal(np.zeros(2), 3, Draws(0)), "2 samples.*needs 3"),
        (
            lambda: Dirichlet(1.0, least=2).deal(np.zeros(5, np.int64), 3, Draws(0)),
            "5 samples.*needs 6",
        ),
        (lambda: Labels(2).deal(labels(3, 1), 6, Draws(0)), "class 0 has 1 samples for 4 shards"),
        (lambda: Labels(1).deal(np.zeros(9), 3, Draws(0)), "real targets"),
        (lambda: Dirichlet(1.0).deal(np.zeros(9), 3, Draws(0)), "real targets"),
    ],
)
def test_impossible_deals_are_refused(make, named):
    with pytest.raises(ConfigError, match=named):
        make()
