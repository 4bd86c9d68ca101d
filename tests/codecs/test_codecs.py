"""Codecs: the four laws, exact distributions, lengths, and numbers at the right coordinates."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import peerloom as pl
from peerloom.codecs import (
    ANQ,
    CODECS,
    Coordinates,
    Dense,
    Quantised,
    RandK,
    Sign,
    SignTopK,
    TopK,
    levels,
    selection,
    signs,
    sparse,
)
from peerloom.codecs.selection import random_subsets
from peerloom.core import Draws, Envelope, envelope_of_rows
from peerloom.errors import CodecError, ConfigError
from peerloom.testing import check_codec

EVERY = [
    ANQ(omega=0.2, eta=0.3, sigma=0.9),
    ANQ(omega=0.01, eta=1e-3, sigma=0.9),
    Coordinates(0.3),
    Coordinates(0.3, per_sender=True),
    Coordinates(0.3, per_pair=True),
    Coordinates(0.3, mask=True),
    Coordinates((0.3, 0.05, 1.0, 0.3, 0.6)),  # as many as check_codec has rows
    Coordinates((0.3, 0.05, 1.0, 0.3, 0.6), per_sender=True),
    Coordinates((0.3, 0.05, 1.0, 0.3, 0.6), mask=True),
    Dense(),
    Dense("float32"),
    Dense("float16"),
    Dense("bfloat16"),
    Quantised(2),
    Quantised(5),
    Quantised(16),
    RandK(0.3),
    RandK(0.3, unbiased=True),
    Sign(),
    SignTopK(0.05),
    SignTopK(0.3),
    SignTopK(0.3, "index"),
    TopK(0.05),
    TopK(0.3),
    TopK(0.3, "index"),
]


def envelope(rows, t=3, seed=0, index=1):
    ids = np.arange(rows)
    return Envelope(Draws(seed), t, index, ids * 7 + 1, ids, ids * 11)


def same_bits(a, b):
    kind = torch.int32 if a.dtype == torch.float32 else torch.int64
    return torch.equal(a.view(kind), b.view(kind))


def test_every_codec_is_here():
    assert {type(codec).__name__ for codec in EVERY} == set(CODECS)


# -- the laws


@pytest.mark.parametrize("codec", EVERY, ids=repr)
@settings(max_examples=12)
@given(n=st.integers(1, 80), seed=st.integers(0, 10**6))
def test_every_codec_keeps_the_four_laws(codec, n, seed):
    check_codec(codec, n, seed)


@pytest.mark.slow
@pytest.mark.parametrize("codec", EVERY, ids=repr)
def test_the_laws_hold_for_long_rows_and_several_threads(codec):
    """Torch sums a single long row in parts, one per thread, unless it is kept from it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        check_codec(codec, 70_001)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("codec", EVERY, ids=repr)
@settings(max_examples=60)
@given(text=st.binary(max_size=120), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_any_bytes_are_decoded_or_refused(codec, text, dtype):
    body = np.frombuffer(text, np.uint8)
    try:
        values, _ = codec.decode([body], 21, dtype, envelope(1))
    except CodecError:
        return
    assert values.shape == (1, 21)


def test_a_class_is_no_codec():
    with pytest.raises(TypeError, match=r"Sign\(\.\.\.\)"):
        check_codec(Sign)


def _through_the_mask(values, chosen):
    return values * chosen  # leaves -0.0, and NaN of infinities


def _one_size_too_few(sizes, largest):
    return sizes.shape[1] + 2 * np.count_nonzero(sizes >= 1, axis=1)


@pytest.mark.parametrize(
    ("codec", "module", "name", "wrong", "found"),
    [
        (TopK(0.3), sparse, "masked", _through_the_mask, "differs from through"),
        (ANQ(0.01, 1e-3), levels, "elias_bits", _one_size_too_few, "nbytes says"),
        (Sign(), signs, "_mean_size", lambda rows: rows.abs().mean() + 0 * rows[:, :1], "alone"),
        (Sign(), signs, "check_finite", lambda values: None, "lets nan pass"),
        (
            TopK(0.3),
            sparse,
            "unpack_positions",
            lambda how, body, n, k: np.arange(k),
            "differs from",
        ),
    ],
)
def test_planted_faults_are_found(codec, module, name, wrong, found, monkeypatch):
    check_codec(codec)
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(AssertionError, match=found):
        check_codec(codec)


# -- positions


@pytest.mark.slow
@pytest.mark.parametrize("codec", [TopK, SignTopK])
@pytest.mark.parametrize("positions", ["shortest", "index"])
def test_positions_beyond_2_to_the_24(codec, positions):
    """Where float32 no longer tells neighbouring whole numbers apart."""
    n = 2**24 + 100_003
    row, at = torch.zeros(1, n), [0, 2**24 + 1, 2**24 + 3, n - 1]
    row[0, at] = 2.0
    made = codec(4 / n, positions)
    values, mask = made.decode(made.encode(row, envelope(1)), n, torch.float32, envelope(1))
    assert torch.nonzero(mask[0])[:, 0].tolist() == at
    assert torch.equal(values, row)
    assert same_bits(values, made.through(row, envelope(1))[0])


@given(n=st.integers(1, 40), k=st.integers(1, 40), seed=st.integers(0, 200), coarse=st.booleans())
def test_topk_takes_the_largest_and_of_equals_the_first(n, k, seed, coarse):
    k = min(k, n)
    x = np.random.default_rng(seed).normal(size=(3, n))
    x = np.round(x) if coarse else x
    back = TopK(k / n).through(torch.from_numpy(x), envelope(3))[0].numpy()
    for row, found in zip(x, back, strict=True):
        order = sorted(range(n), key=lambda i: (-abs(row[i]), i))[:k]
        wanted = np.zeros(n)
        wanted[order] = row[order]
        assert np.array_equal(found, wanted)


def test_the_shortest_code_of_positions_is_taken():
    row = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 7850)).astype(np.float32))
    found = {how: int(TopK(0.1, how).nbytes(row, envelope(1))[0]) for how in ("shortest", "index")}
    assert found == {"shortest": 3656, "index": 4416}
    assert TopK(0.5).longest(7850, torch.float32) == 3925 * 4 + 982, "a bitmap"
    assert TopK(1 / 7850).longest(7850, torch.float32) == 4 + 2, "13 bits for a single one"
    with pytest.raises(ConfigError, match="'shortest' or 'index'"):
        TopK(0.1, "bitmap")


def test_random_subsets_are_uniform_sets():
    """All 10 sets of 2 out of 5 are equally likely."""
    counts = {}
    for t in range(400):
        chosen = random_subsets(envelope(25, t), np.arange(25), 5, 2)
        assert (chosen.sum(axis=1) == 2).all()
        for row in chosen:
            key = tuple(np.flatnonzero(row))
            counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 10
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_random_subsets_stay_uniform_where_the_first_bits_tie(monkeypatch):
    """Sets stay uniform although 2-bit keys make nearly every border a tie."""
    real = selection.words

    def few(seed, stream, t, ids, count):
        drawn = real(seed, stream, t, ids, count)
        return drawn if stream.endswith("ties") else drawn & np.uint64(0x0003000300030003)

    monkeypatch.setattr(selection, "words", few)
    counts = np.zeros(12)
    for t in range(300):
        chosen = random_subsets(envelope(20, t), np.arange(20), 12, 4)
        assert (chosen.sum(axis=1) == 4).all()
        counts += chosen.sum(axis=0)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_pairs_draw_one_set_for_both_directions():
    codec, draws = Coordinates(0.5, per_pair=True), Draws(2)
    there = Envelope(draws, 1, 1, np.array([12]), np.array([2]), np.array([12]))
    back = Envelope(draws, 1, 1, np.array([21]), np.array([1]), np.array([12]))
    ones = torch.ones(1, 9)
    assert torch.equal(codec.through(ones, there)[0], codec.through(ones, back)[0])
    per_link = Coordinates(0.5)
    assert not torch.equal(per_link.through(ones, there)[0], per_link.through(ones, back)[0])
    with pytest.raises(ConfigError, match="both"):
        Coordinates(0.5, per_sender=True, per_pair=True)


def test_a_mask_needs_no_seed():
    """With `mask` the positions travel: a receiver that draws otherwise decodes the same."""
    codec, rows = (
        Coordinates(0.4, mask=True),
        torch.from_numpy(np.random.default_rng(0).normal(size=(3, 30))),
    )
    values, mask = codec.decode(
        codec.encode(rows, envelope(3)), 30, torch.float64, envelope(3, seed=9)
    )
    assert same_bits(values, codec.through(rows, envelope(3))[0])
    assert mask.sum(dim=1).tolist() == [12] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [pl.rules.DSGT(0.05), pl.rules.Depositum(0.05, 1.0, 0.3), pl.rules.KGT(0.02)]
)
def test_tracking_with_paired_coordinates_keeps_its_mean_and_finds_the_optimum(rule):
    graph = pl.graphs.small_world(6, degree=4, rewire=0.2, seed=1)
    problem = pl.testing.random_quadratic(6, 5, seed=2)
    message = Coordinates(0.6, per_pair=True)
    exp = pl.Experiment(graph, problem, rule, message=message, rounds=4000, dtype="float64")
    assert np.abs(pl.simulate(exp).x.numpy() - problem.solution()).max() < 1e-8


# -- words, signs, levels


def test_short_words_saturate_and_are_charged():
    found, _ = Dense("float16").through(torch.tensor([[1e6, -1e6, 0.1]]), envelope(1))
    assert found.tolist() == [[65504.0, -65504.0, 0.0999755859375]]
    assert Dense("float16").through(torch.tensor([[float("nan")]]), envelope(1))[0].isnan().all()
    assert (Dense("float16").longest(10, torch.float64), Dense("float16").paper_bits(10)) == (
        20,
        160,
    )
    assert (Dense("float32").longest(10, torch.float64), Dense().longest(10, torch.float64)) == (
        40,
        80,
    )
    with pytest.raises(ConfigError, match="bfloat16"):
        Dense("float8")


def test_bfloat16_has_the_range_of_float32():
    found, _ = Dense("bfloat16").through(torch.tensor([[3.4e38, -1e30, 1.001, 0.1]]), envelope(1))
    assert found.isfinite().all()
    assert found.tolist()[0] == pytest.approx([3.4e38, -1e30, 1.0, 0.1], rel=2**-8)


@given(n=st.integers(1, 300), seed=st.integers(0, 99), zeros=st.floats(0, 1))
def test_a_sign_of_zero_needs_more_than_a_bit_and_gets_it(n, seed, zeros):
    random = np.random.default_rng(seed)
    row = np.where(random.random(n) < zeros, 0, random.normal(size=n)).astype(np.float32)
    body = Sign().encode(torch.from_numpy(row)[None], envelope(1))[0]
    there = np.count_nonzero(row)
    assert len(body) == 4 + math.ceil(n / 8) + (0 if there == n else math.ceil(there / 8))
    values = Sign().decode([body], n, torch.float32, envelope(1))[0][0].numpy()
    size = np.abs(torch.from_numpy(row)[None].abs().mean(dim=1).numpy())
    assert np.array_equal(values, np.sign(row) * size)


def test_pames_bodies_have_the_lengths_of_its_worked_example():
    """The worked numbers of the specification: n = 10^4, s = 100."""
    plain, masked = Coordinates(0.01), Coordinates(0.01, mask=True)
    assert plain.paper_bits(10_000) == masked.paper_bits(10_000) == 16_300
    assert plain.longest(10_000, torch.float64) == 800
    assert masked.longest(10_000, torch.float64) == 800 + 1250


@given(
    omega=st.floats(0.01, 0.9), eta=st.floats(1e-3, 10.0),
    x=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8), t=st.integers(0, 30),
)  # fmt: skip
def test_anq_takes_the_nearest_level_and_keeps_its_bound(omega, eta, x, t):
    codec, here = ANQ(omega, eta, 0.9), envelope(1, t)
    row = torch.tensor([x], dtype=torch.float64)
    found = codec.through(row, here)[0][0].numpy()
    eta_t, ratio = eta * 0.9**t, (1 + omega) / (1 - omega)

    def q(level):
        return eta_t / omega * (ratio**level - 1)

    for value, back in zip(x, found, strict=True):
        level = round(math.log1p(omega * abs(back) / eta_t) / math.log(ratio))
        assert back == pytest.approx(math.copysign(q(level), value), rel=1e-9, abs=1e-12)
        nearest = min(abs(q(max(0, other)) - abs(value)) for other in (level - 1, level, level + 1))
        assert abs(back - value) <= nearest + 1e-9 * (1 + abs(value))
        assert abs(back - value) <= omega * abs(value) + eta_t + 1e-9 * (1 + abs(value))


def test_anq_is_as_long_as_its_elias_codes():
    """2 + 2 floor(log2(1 + |l|)) bits for level l; a level's value is a row that takes it."""
    codec = ANQ(omega=0.1, eta=0.1, sigma=1.0)
    ratio = 1.1 / 0.9
    wanted = {0: 2, 1: 4, 2: 4, 3: 6, 6: 6, 7: 8, 100: 14}
    for level, bits in wanted.items():
        row = torch.full((1, 8), ratio**level - 1, dtype=torch.float64)
        assert codec.nbytes(row, envelope(1)).tolist() == [bits], (
            "8 levels, so as many bytes as bits"
        )
    for wrong in ({"omega": 1.0}, {"eta": 0.0}, {"sigma": 1.5}):
        with pytest.raises(ConfigError, match="ANQ needs"):
            ANQ(**wrong)


def test_the_length_of_long_anq_rows_is_exact():
    """Beyond 2^24 digits, where a sum in float32 no longer counts."""
    n, codec = 5_000_000, ANQ(0.1, 1e-3, 1.0)
    row = torch.randn(1, n, generator=torch.Generator().manual_seed(0))
    here = envelope_of_rows(Draws(0), 0, 1, np.arange(1))
    exact = 2 * n + 2 * int((codec._levels(row, here).double() + 1).log2().floor().sum())
    assert exact > 2**24
    assert codec.nbytes(row, here)[0] == math.ceil(exact / 8)


def test_gsgd_rounds_to_the_mean():
    x, codec = torch.full((1, 400), 0.3), Quantised(3)
    mean = np.mean([codec._levels(x, envelope(1, t))[0].mean().item() for t in range(200)])
    exact = 4 * 0.3 / (0.3 * 20)
    assert mean == pytest.approx(exact, abs=4.5 * np.sqrt(exact * (1 - exact) / (400 * 200)))


def test_quantised_takes_the_shorter_code():
    """Levels of long rows are small, and Elias codes of small numbers are short."""
    random = np.random.default_rng(1)
    short, long = (
        torch.from_numpy(random.normal(size=(1, n)).astype(np.float32)) for n in (12, 7850)
    )
    assert Quantised(5).nbytes(short, envelope(1))[0] == 4 + 9
    assert Quantised(5).nbytes(long, envelope(1))[0] < 0.4 * Quantised(5).longest(
        7850, torch.float32
    )
    with pytest.raises(ConfigError, match="from 2 to 16"):
        Quantised(1)
