"""Messages: what arrives is what was sent of it, by either way; exact laws, and bits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import peerloom as pl
from peerloom.core import Draws, Trip
from peerloom.errors import ConfigError
from peerloom.messages import ANQ, MESSAGES, Coordinates, Dense, Quantised, RandK, Sign, SignTopK, TopK, selection
from peerloom.messages.selection import random_subsets

EVERY = [
    ANQ(omega=0.2, eta=0.3, sigma=0.9),
    Coordinates(0.3),
    Coordinates(0.3, per_sender=True),
    Coordinates(0.3, per_pair=True),
    Coordinates(0.3, mask=True),
    Dense(),
    Dense("float32"),
    Dense("float16"),
    Quantised(4),
    RandK(0.3),
    RandK(0.3, unbiased=True),
    Sign(),
    SignTopK(0.3),
    TopK(0.3),
]


def trip(rows, t=3, seed=0, turn=1):
    ids = np.arange(rows)
    return Trip(Draws(seed), t, turn, ids * 7 + 1, ids, ids * 11)


def test_every_message_is_here():
    assert {type(message).__name__ for message in EVERY} == set(MESSAGES)


@pytest.mark.parametrize("message", EVERY, ids=repr)
@given(
    n=st.integers(1, 33), seed=st.integers(0, 99), dtype=st.sampled_from([torch.float32, torch.float64]),
    coarse=st.booleans(),
)  # fmt: skip
def test_through_is_unpacking_what_was_packed(message, n, seed, dtype, coarse):
    """Bit for bit, with ties and zeros too; and nothing is invented where nothing was carried."""
    values = np.random.default_rng(seed).normal(size=(4, n)) * 3
    rows = torch.from_numpy(np.round(values) if coarse else values).to(dtype)
    rows[0] = 0
    kept = rows.clone()
    packed = message.pack(rows, trip(4))
    assert packed.dtype == dtype
    back, mask = message.unpack(packed, n, trip(4))
    assert torch.equal(rows, kept)
    assert torch.equal(back, back * mask)
    assert torch.equal(message.through(rows, trip(4)), back)
    assert mask.shape in ((4, n), (4, 1))
    if message.fit in ("whole", "paired", "part"):
        assert torch.equal(back, rows * mask)
    if message.fit == "rounded":
        assert torch.allclose(back, rows, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("message", EVERY, ids=repr)
def test_a_row_is_packed_alike_alone_and_among_others(message):
    rows = torch.from_numpy(np.random.default_rng(1).normal(size=(5, 23)))
    together = message.pack(rows, trip(5))
    for i in range(5):
        ids = np.array([i])
        alone = message.pack(rows[i : i + 1], Trip(Draws(0), 3, 1, ids * 7 + 1, ids, ids * 11))
        assert torch.equal(alone[0], together[i])


@given(n=st.integers(1, 40), k=st.integers(1, 40), seed=st.integers(0, 200), coarse=st.booleans())
def test_topk_takes_the_largest_and_of_equals_the_first(n, k, seed, coarse):
    k = min(k, n)
    x = np.random.default_rng(seed).normal(size=(3, n))
    x = np.round(x) if coarse else x
    back = TopK(k / n).through(torch.from_numpy(x), trip(3)).numpy()
    for row, found in zip(x, back, strict=True):
        order = sorted(range(n), key=lambda i: (-abs(row[i]), i))[:k]
        wanted = np.zeros(n)
        wanted[order] = row[order]
        assert np.array_equal(found, wanted)


def test_random_subsets_are_uniform_sets():
    """All 10 sets of 2 out of 5 are equally likely."""
    counts = {}
    for t in range(400):
        chosen = random_subsets(trip(25, t), np.arange(25), 5, 2)
        assert (chosen.sum(axis=1) == 2).all()
        for row in chosen:
            key = tuple(np.flatnonzero(row))
            counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 10
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_random_subsets_stay_uniform_where_the_first_bits_tie(monkeypatch):
    """With only 2 bits each at first, nearly every border is tied; the sets must be uniform all the same."""
    real = selection.words

    def few(seed, stream, t, ids, count):
        drawn = real(seed, stream, t, ids, count)
        return drawn if stream.endswith("ties") else drawn & np.uint64(0x0003000300030003)

    monkeypatch.setattr(selection, "words", few)
    counts = np.zeros(12)
    for t in range(300):
        chosen = random_subsets(trip(20, t), np.arange(20), 12, 4)
        assert (chosen.sum(axis=1) == 4).all()
        counts += chosen.sum(axis=0)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_pairs_draw_one_set_for_both_directions():
    message, draws = Coordinates(0.5, per_pair=True), Draws(2)
    there = Trip(draws, 1, 1, np.array([12]), np.array([2]), np.array([12]))
    back = Trip(draws, 1, 1, np.array([21]), np.array([1]), np.array([12]))
    ones = torch.ones(1, 9)
    assert torch.equal(message.through(ones, there), message.through(ones, back))
    assert not torch.equal(Coordinates(0.5).through(ones, there), Coordinates(0.5).through(ones, back))
    with pytest.raises(ConfigError, match="both"):
        Coordinates(0.5, per_sender=True, per_pair=True)


@pytest.mark.parametrize(
    "rule", [pl.algorithms.DSGT(0.05), pl.algorithms.Depositum(0.05, 1.0, 0.3), pl.algorithms.KGT(0.02)]
)
def test_tracking_with_paired_coordinates_keeps_its_mean_and_finds_the_optimum(rule):
    graph = pl.graphs.small_world(6, degree=4, rewire=0.2, seed=1)
    problem = pl.testing.random_quadratic(6, 5, seed=2)
    message = Coordinates(0.6, per_pair=True)
    exp = pl.Experiment(graph, problem, rule, message=message, rounds=4000, dtype="float64")
    assert np.abs(pl.simulate(exp).x.numpy() - problem.solution()).max() < 1e-8


def test_short_words_saturate_and_are_charged():
    assert Dense("float16").through(torch.tensor([[1e6, -1e6, 0.1]]), trip(1)).tolist() == [
        [65504.0, -65504.0, 0.0999755859375]
    ]
    assert Dense("float16").through(torch.tensor([[float("nan")]]), trip(1)).isnan().all()
    assert (Dense("float16").bits(10, torch.float64), Dense("float16").paper_bits(10)) == (160, 160)
    assert (Dense("float32").bits(10, torch.float64), Dense().bits(10, torch.float64)) == (320, 640)
    with pytest.raises(ConfigError, match="float16"):
        Dense("float8")


def test_pames_bits():
    """The worked numbers of the specification: n = 10^4, s = 100."""
    plain, masked = Coordinates(0.01), Coordinates(0.01, mask=True)
    assert plain.paper_bits(10_000) == masked.paper_bits(10_000) == 16_300
    assert plain.bits(10_000, torch.float64) == 6_400
    assert masked.bits(10_000, torch.float64) == 16_400


@given(
    omega=st.floats(0.01, 0.9), eta=st.floats(1e-3, 10.0), x=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8),
    t=st.integers(0, 30),
)  # fmt: skip
def test_anq_takes_the_nearest_level_and_keeps_its_bound(omega, eta, x, t):
    message, here = ANQ(omega, eta, 0.9), trip(1, t)
    row = torch.tensor([x], dtype=torch.float64)
    levels = message.pack(row, here)[0].numpy()
    found = message.through(row, here)[0].numpy()
    eta_t, ratio = eta * 0.9**t, (1 + omega) / (1 - omega)

    def q(level):
        return np.sign(level) * eta_t / omega * (ratio ** abs(level) - 1)

    for value, level, back in zip(x, levels, found, strict=True):
        assert back == pytest.approx(q(level), rel=1e-9, abs=1e-12)
        nearest = min(abs(q(other) - value) for other in (level - 1, level, level + 1))
        assert abs(back - value) <= nearest + 1e-9 * (1 + abs(value))
        assert abs(back - value) <= omega * abs(value) + eta_t + 1e-9 * (1 + abs(value))


def test_anq_counts_its_elias_code():
    packed = torch.tensor([[0.0, 1.0, -1.0, 2.0, -3.0, 7.0], [0.0] * 6])
    each = [2, 4, 4, 4, 6, 8]  # 2 + 2 floor(log2(1 + |l|))
    assert ANQ().sizes(packed).tolist() == [sum(each), 12]
    for wrong in ({"omega": 1.0}, {"eta": 0.0}, {"sigma": 1.5}):
        with pytest.raises(ConfigError, match="ANQ needs"):
            ANQ(**wrong)


def test_gsgd_rounds_to_the_mean():
    x = torch.full((1, 400), 0.3)
    message = Quantised(3)
    mean = np.mean([message.pack(x, trip(1, t))[0, :-1].mean().item() for t in range(200)])
    exact = 4 * 0.3 / (0.3 * 20)
    assert mean == pytest.approx(exact, abs=4.5 * np.sqrt(exact * (1 - exact) / (400 * 200)))
