"""Mini-batches: without replacement, and of a size that every client may have for itself."""

import tomllib
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import nn
from torch.nn import functional as F  # noqa: N812

from peerloom import graphs
from peerloom.config import comparison_from, experiment_to_toml, override, spec_hash
from peerloom.core import ConfigError, Draws, Placement
from peerloom.problems import IID, MLP, BySize, Classification, Dataset, Linear, blobs
from peerloom.problems.batches import different
from peerloom.problems.strategies import LargeBatches
from peerloom.rules import DFedAvgM, DSpodFL, SpodGT
from peerloom.runtime import build_port, iterate
from peerloom.schedules import Bernoulli
from peerloom.theory.constants import estimate
from tests.builders import experiment, final

CLIENTS, HELD = 4, (3, 5, 7, 9)
ALL = np.arange(CLIENTS)
BLOBS = blobs(samples=200, features=5, classes=3)


def one_hot(batch, replace=False):
    """Sample k is unit vector k, target -1: at x = 0 a batch's gradient counts what was drawn."""
    data = Dataset.of(np.eye(24), -np.ones(24))
    return Classification("least_squares", data, BySize(HELD), batch=batch, replace=replace)


def bound(problem, rows=ALL, seed=0):
    place = Placement(np.array(rows), CLIENTS, torch.device("cpu"), torch.float64)
    return problem.bind(place, Draws(seed))


def counts(problem, t, rows=ALL, seed=0, number=0):
    """How often each client's batch of round t holds each sample."""
    local, sizes = bound(problem, rows, seed), np.broadcast_to(problem.batch, CLIENTS)[rows]
    x = torch.zeros(len(rows), problem.n, dtype=torch.float64)
    g = local.grad(x, np.arange(len(rows)), t, number)[:, :24].numpy() * sizes[:, None]
    assert np.abs(g - g.round()).max() < 1e-9
    return g.round().astype(int)


# -- different numbers


def floyd(u, held):
    """Floyd's algorithm, one number after the other, with a set."""
    chosen, order = set(), []
    for k, j in enumerate(range(held - len(u), held)):
        tried = int(u[k] * (j + 1))
        order.append(j if tried in chosen else tried)
        chosen.add(order[-1])
    return order


@given(
    held=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_different_numbers_are_floyds_row_by_row(held, share, seed):
    size = max(1, round(share * min(held)))
    u = np.random.default_rng(seed).random((len(held), size))
    found = different(u, np.array(held)[:, None])
    for row, uniforms, many in zip(found, u, held, strict=True):
        assert row.tolist() == floyd(uniforms, many)
        assert len(set(row.tolist())) == size
        assert row.min() >= 0
        assert row.max() < many
        assert different(uniforms[None], np.array([[many]]))[0].tolist() == row.tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_every_set_is_as_likely(size):
    u = np.random.default_rng(size).random((20_000, size))
    drawn = np.sort(different(u, np.full((len(u), 1), 5)), axis=1).tolist()
    seen = [drawn.count(list(one)) for one in combinations(range(5), size)]
    assert sum(seen) == len(u)
    assert len(seen) == 1 or stats.chisquare(seen).pvalue > 1e-4


# -- batches


@pytest.mark.parametrize("batch", [3, (3, 2, 5, 9), (1, 5, 1, 8)])
def test_a_batch_without_replacement_never_holds_a_sample_twice(batch):
    problem, sizes = one_hot(batch), np.broadcast_to(batch, CLIENTS)
    drawn = np.array([counts(problem, t) for t in range(1, 300)])
    assert drawn.max() == 1
    assert (drawn.sum(axis=2) == sizes).all()
    for i, part in enumerate(bound(problem).parts):
        mine = drawn[:, i].sum(axis=0)
        assert mine[np.setdiff1d(np.arange(24), part)].sum() == 0
        error = np.sqrt(299 * sizes[i] / HELD[i] * (1 - sizes[i] / HELD[i]))
        assert np.abs(mine[part] - 299 * sizes[i] / HELD[i]).max() <= 4.5 * error + 1e-9


def test_with_replacement_sizes_of_ones_own_may_exceed_what_is_held():
    problem = one_hot((20, 1, 2, 30), replace=True)
    drawn = np.array([counts(problem, t) for t in range(1, 300)])
    assert (drawn.sum(axis=2) == [20, 1, 2, 30]).all()
    assert drawn.max() > 3
    for i, part in enumerate(bound(problem).parts):
        assert stats.chisquare(drawn[:, i].sum(axis=0)[part]).pvalue > 1e-4


@pytest.mark.parametrize("replace", [False, True])
def test_a_batch_is_a_function_of_seed_round_client_and_number(replace):
    problem = one_hot((3, 2, 5, 9), replace)
    first = counts(problem, 7)
    assert np.array_equal(counts(problem, 7), first)
    assert not np.array_equal(counts(problem, 8)[:3], first[:3])
    assert not np.array_equal(counts(problem, 7, seed=1)[:3], first[:3])
    assert not np.array_equal(counts(problem, 7, number=1)[:3], first[:3])
    for row in ALL:  # alone, and where the others have another size
        assert np.array_equal(counts(problem, 7, [row])[0], first[row])
    assert np.array_equal(counts(one_hot((3, 1, 5, 2), replace), 7)[[0, 2]], first[[0, 2]])


# -- gradients


def plain(problem, local, x, t, number=0):
    """The mean gradient over each client's batch by torch's autograd, client by client."""
    module, found = problem.module(0).double(), []
    for i in ALL:
        ((which, picks),) = bound(problem, [i])._batches(
            np.arange(1), t, f"/{number}" * (number > 0)
        )
        assert which == slice(None)
        inputs = torch.from_numpy(problem.data.x[picks[0]]).double()
        nn.utils.vector_to_parameters(x[i].clone(), module.parameters())
        value = F.cross_entropy(module(inputs), torch.from_numpy(problem.data.y[picks[0]]))
        parts = torch.autograd.grad(value, list(module.parameters()))
        found.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(found)


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("batch", [7, (7, 1, 20, 7), (1, 2, 3, 4)])
@pytest.mark.parametrize(
    ("model", "strategy"),
    [
        ("softmax", "closed"),
        ("softmax", "large"),
        (MLP((4,)), "closed"),
        (MLP((4,)), "vmap"),
        (lambda: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), "vmap"),
        (lambda: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), "loop"),
    ],
    ids=["closed", "large", "mlp", "mlp by vmap", "vmap", "loop"],
)
def test_every_way_gives_the_plain_gradient_and_a_row_alone_the_same_bits(
    model, strategy, batch, replace, monkeypatch
):
    if strategy == "large":  # 7 samples and more go that way, fewer do not
        monkeypatch.setattr(LargeBatches, "FROM", 7 * 5 * 8)
    way = "closed" if strategy == "large" else strategy
    problem = Classification(
        model, BLOBS, BySize((1, 2, 3, 4)), batch=batch, replace=replace, strategy=way
    )
    local = bound(problem)
    x = torch.randn(
        CLIENTS, problem.n, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    kept = x.clone()
    for number in (0, 2):
        found = local.grad(x, ALL, 3, number)
        wanted = plain(problem, local, x, 3, number)
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
        for i in ALL:
            alone = bound(problem, [i]).grad(x[i : i + 1].clone(), np.arange(1), 3, number)
            assert torch.equal(alone[0], found[i])
        some = np.array([0, 2, 3])
        assert torch.equal(local.grad(x, some, 3, number), found[some])
    assert torch.equal(x, kept)


def test_dropout_is_drawn_by_client_whatever_the_sizes():
    def model():
        return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    problem = Classification(model, BLOBS, batch=(2, 9, 2, 5))
    x = torch.randn(CLIENTS, problem.n, dtype=torch.float64)
    found = bound(problem).grad(x, ALL, 3)
    for i in ALL:
        assert torch.equal(bound(problem, [i]).grad(x[i : i + 1], np.arange(1), 3)[0], found[i])


def test_the_whole_of_what_a_client_holds_is_its_whole_gradient():
    """B_i = |D_i| without replacement: no noise is left, only another order of the sum."""
    problem = Classification("softmax", BLOBS, BySize((1, 2, 3, 4)), batch=(20, 40, 60, 80))
    x = torch.randn(CLIENTS, problem.n, dtype=torch.float64)
    sizes = tuple(len(part) for part in bound(problem).parts)
    exact = bound(replace(problem, batch="all")).grad(x, ALL, 1)
    for t in (1, 2):
        found = bound(replace(problem, batch=sizes, replace=False)).grad(x, ALL, t)
        torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-14)


def test_full_batches_of_unequal_sizes_are_as_they_were():
    problem = Classification(MLP((4,)), BLOBS, BySize((1, 2, 2, 4)), batch="all", strategy="loop")
    x = torch.randn(CLIENTS, problem.n, dtype=torch.float64)
    local = bound(problem)
    found = local.grad(x, ALL, 1)
    for i in ALL:
        alone = bound(problem, [i]).grad(x[i : i + 1].clone(), np.arange(1), 1)
        assert torch.equal(alone[0], found[i])


# -- in a run


def test_the_ledger_counts_one_gradient_per_client_whatever_its_batch():
    problem = Classification("softmax", BLOBS, batch=(1, 16, 32, 50), replace=False)
    exp = experiment(
        graphs.ring(4), DSpodFL(0.1), problem=problem, schedule=Bernoulli(nodes=0.5), rounds=20
    )
    activity = exp.schedule.bind(exp.graph, Draws(exp.seed))
    wanted = sum(activity.nodes(t).astype(int) for t in range(1, 21))
    assert final(exp).ledger.rows.gradients.tolist() == wanted.tolist()
    local = experiment(graphs.ring(4), DFedAvgM(0.1, K=3), problem=problem, rounds=2)
    assert final(local).ledger.rows.gradients.tolist() == [6] * 4


@pytest.mark.parametrize("replace", [False, True])
def test_a_run_is_its_plain_loop(replace):
    """DSpodFL with Metropolis weights on a ring, gradients of each client's own batch."""
    problem = Classification("softmax", BLOBS, batch=(1, 7, 7, 30), replace=replace)
    exp = experiment(graphs.ring(4), DSpodFL(0.1), problem=problem, rounds=6)
    x = problem.start(exp.seed).repeat(4, 1)
    W = torch.from_numpy(exp.graph.peers.matrix())
    for snapshot in iterate(exp):
        if snapshot.t:
            x = W @ x - 0.1 * plain(problem, None, x, snapshot.t)
        torch.testing.assert_close(snapshot.x, x, rtol=1e-10, atol=1e-12)


# -- what is refused, and files


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Classification(batch=(4, 0)), "Classification.batch must be at least 1 sample"),
        (lambda: Classification(batch=()), "Classification.batch must be"),
        (lambda: Classification(batch=(4, "all")), "Classification.batch must be"),
        (lambda: Classification(batch=(4, 2.5)), "Classification.batch must be"),
        (lambda: Classification(batch=2.5), "Classification.batch must be"),
        (lambda: Classification(batch="all", replace=False), "replace has no effect with batch"),
        (
            lambda: bound(one_hot((3, 6, 7, 9))),
            "client 1 holds 5 samples, too few for a batch of 6 without replacement",
        ),
        (lambda: bound(one_hot(4)), "client 0 holds 3 samples, too few for a batch of 4"),
        (lambda: bound(one_hot((3, 3, 3))), "batch has 3 entries for 4 clients"),
        (
            lambda: experiment(graphs.ring(4), problem=one_hot((3, 3))),
            "Classification.batch has 2 entries for 4 clients. Give one for each",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


TEXT = """
rounds = 3
[graph]
name = "ring"
clients = 4
[problem]
name = "Classification"
batch = [16, 32, 8, 16]
replace = false
[algorithm]
name = "DSpodFL"
lr = 0.1
"""


def test_a_file_may_name_both():
    table = tomllib.loads(TEXT)
    exp = comparison_from(table).experiments[0]
    assert (exp.problem.batch, exp.problem.replace) == ((16, 32, 8, 16), False)
    again = comparison_from(tomllib.loads(experiment_to_toml(exp))).experiments[0]
    assert (again.problem.batch, again.problem.replace) == ((16, 32, 8, 16), False)
    assert torch.equal(final(exp).x, final(again).x)
    for setting, said in (
        ("problem.replace=maybe", "problem.replace: 'maybe' is not allowed. It must be true or"),
        ("problem.batch=[16, 2.5]", "problem.batch: .* a whole number, 'all' or a list of whole"),
        ("problem.batch=[16]", "Classification.batch has 1 entries for 4 clients"),
        ("problem.batch=0", "Classification.batch must be at least 1 sample"),
    ):
        with pytest.raises(ConfigError, match=said):
            comparison_from(override(table, [setting]))


def test_experiments_that_do_not_ask_for_it_keep_their_hash():
    """Peers of the version before, which do not know the setting, agree on what they run."""
    old = comparison_from(
        override(tomllib.loads(TEXT), ["problem.batch=16", "problem.replace=true"])
    ).experiments[0]
    assert "replace" not in experiment_to_toml(old)
    new = replace(old, problem=replace(old.problem, replace=False))
    assert "replace = false" in experiment_to_toml(new)
    assert spec_hash(old) != spec_hash(new)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), t=st.integers(0, 10**6))
def test_a_peer_draws_what_the_simulator_draws(seed, t):
    problem = Classification(
        Linear(), BLOBS, IID(), batch=(3, 50, 17, 50), replace=False, strategy="closed"
    )
    x = torch.randn(CLIENTS, problem.n, dtype=torch.float64)
    found = bound(problem, seed=seed).grad(x, ALL, t)
    for i in ALL:
        alone = bound(problem, [i], seed).grad(x[i : i + 1].clone(), np.arange(1), t)
        assert torch.equal(alone[0], found[i])


def test_spod_gt_with_whole_batches_reaches_the_exact_minimiser():
    """p = 1, B_i = |D_i| without replacement: gradient tracking without noise (section 1.2)."""
    data = Dataset.of(*_line())
    problem = Classification(
        "least_squares", data, BySize((2, 3, 3, 4)), batch=(2, 3, 3, 4), replace=False, l2=0.1
    )
    exp = experiment(
        graphs.directed_ring(4), SpodGT((0.1, 0.2, 0.1, 0.15)), problem=problem, rounds=1500
    )
    local, x = build_port(exp).problem, final(exp).x
    assert local.whole_gradients(x, np.arange(4)).mean(dim=0).abs().max() < 1e-9
    assert (x - x[0]).abs().max() < 1e-9


def _line():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 3))
    return x, x @ np.array([1.0, -2.0, 0.5]) + 0.3 * rng.normal(size=12)


# -- what theory makes of it


@pytest.mark.parametrize("replace", [False, True])
def test_noise_is_that_of_the_noisiest_batch(replace):
    """Of samples k at x = 0 the gradient of client i varies by that of unit vectors, over B_i."""
    batch = (3, 5, 2, 4)  # the first two hold no more
    shares = one_hot(batch, replace).properties(CLIENTS).noise_shares()
    wanted = [(1 if replace else 1 - b / d) / b for b, d in zip(batch, HELD, strict=True)]
    assert shares.tolist() == pytest.approx(wanted)
    found = estimate(one_hot(batch, replace), CLIENTS).noise
    # A unit vector drawn from D has the variance 1 - 1 / D; without replacement it is that of the
    # population with D - 1 in place of D, which the paper's share leaves out.
    exact = max(
        (1 - 1 / d) / b * (1 if replace else (d - b) / (d - 1))
        for b, d in zip(batch, HELD, strict=True)
    )
    assert found.value**2 == pytest.approx(exact, rel=0.35)
    assert estimate(one_hot(HELD), CLIENTS).noise.value == 0
    assert one_hot(3, replace=True).properties(CLIENTS).noise_shares is None
