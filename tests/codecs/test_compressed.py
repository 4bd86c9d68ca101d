"""CHOCO, DCD, BEER, SQuARM and ANQ-NIDS against plain loops, and their compressors."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.codecs import ANQ, Dense, Quantised, RandK, Sign, SignTopK, TopK
from peerloom.core import Draws, envelope_of_rows
from peerloom.errors import ConfigError
from peerloom.runtime import build_port, iterate

M, N = 6, 5
GRAPH = pl.graphs.small_world(M, degree=2, rewire=0.5, seed=1)
W = GRAPH.peers.matrix()
PROBLEM = pl.testing.random_quadratic(M, N, seed=4)
COMPRESSORS = [
    Dense(),
    TopK(0.4),
    RandK(0.4),
    RandK(0.6, unbiased=True),
    Quantised(6),
    Sign(),
    SignTopK(0.4),
]


def squeeze(message, x, t, mix_index):
    """C(x), as anyone who has the message decodes it."""
    here = envelope_of_rows(Draws(0), t, mix_index, np.arange(M))
    values, _ = message.decode(
        message.encode(torch.from_numpy(x), here), x.shape[1], torch.float64, here
    )
    return values.numpy()


def gradient(x):
    return np.stack([np.asarray(PROBLEM.A)[i] @ x[i] - np.asarray(PROBLEM.b)[i] for i in range(M)])


def experiment(rule, message, rounds=12, **changes):
    return pl.Experiment(
        GRAPH, PROBLEM, rule, message=message, rounds=rounds, dtype="float64", **changes
    )


def orbit(rule, message, path, **changes):
    return np.stack(
        [
            snapshot.x.numpy()
            for snapshot in iterate(experiment(rule, message, **changes), path=path)
        ]
    )


def choco(message, eta, gamma, rounds=12):
    x, xhat = np.zeros((M, N)), np.zeros((M, N))
    yield x
    for t in range(1, rounds + 1):
        half = x - eta * gradient(x)
        xhat = xhat + squeeze(message, half - xhat, t, 1)
        x = half + gamma * (W - np.eye(M)) @ xhat
        yield x


def dcd(message, gamma, rounds=12):
    x = np.zeros((M, N))
    yield x
    for t in range(1, rounds + 1):
        x = x + squeeze(message, W @ x - gamma * gradient(x) - x, t, 1)
        yield x


def beer(message, eta, gamma, rounds=12):
    x, h, gh = np.zeros((M, N)), np.zeros((M, N)), np.zeros((M, N))
    v = gradient(x)
    yield x
    for t in range(1, rounds + 1):
        new = x + gamma * (W - np.eye(M)) @ h - eta * v
        v = v + gamma * (W - np.eye(M)) @ gh + gradient(new) - gradient(x)
        h, gh, x = h + squeeze(message, new - h, t, 1), gh + squeeze(message, v - gh, t, 2), new
        yield x


def squarm(message, eta, gamma, beta, H, c, growth, rounds=12, charged=None):
    """Row by row; `charged` gathers (round, row) of every message that is sent."""
    x, v, xhat = np.zeros((M, N)), np.zeros((M, N)), np.zeros((M, N))
    yield x
    for t in range(1, rounds + 1):
        g = gradient(x)
        v = beta * v + g
        half = x - eta * (beta * v + g)
        if t % H:
            x = half
        else:
            gaps, least = [half[i] - xhat[i] for i in range(M)], c * t**growth * eta**2
            news = [gap if (gap**2).sum() > least else np.zeros(N) for gap in gaps]
            sent = squeeze(message, np.stack(news), t, 1)
            for i in range(M):
                if (
                    (half[i] - xhat[i]) ** 2
                ).sum() > c * t**growth * eta**2 and charged is not None:
                    charged.append((t, i))
            xhat = xhat + sent
            x = np.stack(
                [
                    half[i] + gamma * sum(W[i, j] * (xhat[j] - xhat[i]) for j in range(M))
                    for i in range(M)
                ]
            )
        yield x


def anq_nids(message, alpha, rounds=12):
    old, dhat = np.zeros((M, N)), np.zeros((M, N))
    g_old = gradient(old)
    x = old - alpha * g_old
    yield x
    for t in range(1, rounds + 1):
        g = gradient(x)
        d = 2 * x - old - alpha * (g - g_old)
        dhat = dhat + squeeze(message, d - dhat, t, 1)
        old, g_old = x, g
        x = np.stack(
            [d[i] - 0.5 * (dhat[i] - sum(W[i, j] * dhat[j] for j in range(M))) for i in range(M)]
        )
        yield x


@pytest.mark.parametrize("path", ["auto", "links"])
@pytest.mark.parametrize("message", [*COMPRESSORS, ANQ(0.2, 0.5, 0.9)], ids=repr)
def test_the_rules_are_their_equations(message, path):
    for rule, wanted in (
        (pl.rules.CHOCO(0.05, gamma=0.3), choco(message, 0.05, 0.3)),
        (pl.rules.DCD(0.05), dcd(message, 0.05)),
        (pl.rules.BEER(0.05, gamma=0.3), beer(message, 0.05, 0.3)),
        (
            pl.rules.SQuARM(0.02, 0.3, 0.8, 3, 60.0, 0.5),
            squarm(message, 0.02, 0.3, 0.8, 3, 60.0, 0.5),
        ),
        (pl.rules.ANQNIDS(0.2), anq_nids(message, 0.2)),
    ):
        np.testing.assert_allclose(
            orbit(rule, message, path), np.stack(list(wanted)), rtol=0, atol=1e-10
        )


def test_without_compression_choco_is_adapt_then_combine_and_dcd_is_dpsgd():
    plain = orbit(pl.rules.CHOCO(0.05, gamma=1.0), Dense(), "auto")
    np.testing.assert_allclose(plain, orbit(pl.rules.DSGD(0.05), Dense(), "auto"), atol=1e-12)
    plain = orbit(pl.rules.DCD(0.05), Dense(), "auto")
    np.testing.assert_allclose(plain, orbit(pl.rules.DGD(0.05), Dense(), "auto"), atol=1e-12)


def test_without_compression_beer_is_ab_from_the_second_step():
    found = [
        snapshot.state for snapshot in iterate(experiment(pl.rules.BEER(0.05, gamma=1.0), Dense()))
    ]
    x, v = found[1].x.numpy(), found[1].v.numpy()
    for state in found[2:]:
        x, v, old = W @ x - 0.05 * v, W @ v, x
        v = v + gradient(x) - gradient(old)
        np.testing.assert_allclose(state.x.numpy(), x, atol=1e-12)


def test_beers_invariants():
    states = [snapshot.state for snapshot in iterate(experiment(pl.rules.BEER(0.05), TopK(0.4)))]
    for before, after in pairwise(states):
        np.testing.assert_allclose(
            after.v.mean(dim=0), gradient(after.x.numpy()).mean(axis=0), atol=1e-12
        )
        np.testing.assert_allclose(
            after.x.mean(dim=0), before.x.mean(dim=0) - 0.05 * before.v.mean(dim=0), atol=1e-12
        )


def test_beer_reaches_the_optimum_although_little_travels():
    result = pl.simulate(experiment(pl.rules.BEER(0.05, gamma=0.2), TopK(0.4), rounds=3000))
    assert np.abs(result.x.numpy() - PROBLEM.solution()).max() < 1e-8


@pytest.mark.slow
def test_chocos_bias_is_that_of_plain_sgd_and_shrinks_with_the_step():
    def bias(lr, message):
        exp = experiment(pl.rules.CHOCO(lr, gamma=0.3), message, rounds=round(30 / lr))
        return np.abs(pl.simulate(exp).x.numpy() - PROBLEM.solution()).max()

    assert bias(0.01, TopK(0.4)) == pytest.approx(bias(0.01, Dense()), rel=0.3)
    assert bias(0.003, TopK(0.4)) < 0.5 * bias(0.01, TopK(0.4))


def test_only_what_is_packed_is_charged():
    ledger = pl.simulate(experiment(pl.rules.BEER(0.05), TopK(0.4), rounds=10)).ledger
    links = len(GRAPH.peers)
    assert ledger.messages == 10 * links
    # Two differences, two coordinates each, 5 bits of positions.
    assert ledger.bytes == 10 * links * 2 * (2 * 8 + 1)
    assert ledger.paper_bytes * 8 == 10 * links * 2 * (63 * 2 + 5)


@pytest.mark.parametrize(
    ("message", "nbytes", "paper"),
    [
        (TopK(0.1), 10 * 4 + 7, 63 * 10 + 100),  # Elias-Fano: 10 + 13 bits, 10 low parts of 3
        (TopK(0.1, "index"), 10 * 4 + 9, 63 * 10 + 100),  # 10 positions of 7 bits
        (TopK(0.5), 50 * 4 + 13, 63 * 50 + 100),  # a bitmap
        (RandK(0.1), 10 * 4, 63 * 10 + 100),
        (Quantised(5), 4 + 48, 100 * 5 + 64),  # Elias codes, whose length depends on what is drawn
        (Quantised(2), 4 + 29, 100 * 2 + 64),
        (Sign(), 4 + 13, 100 + 64),
        (SignTopK(0.1), 4 + 2 + 7, 10 * 8 + 64),
        (SignTopK(0.1, "index"), 4 + 2 + 9, 10 * 8 + 64),
    ],
    ids=repr,
)
def test_bodies_have_the_stated_bytes_and_the_papers_bits(message, nbytes, paper):
    row = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 100)).astype(np.float32))
    assert message.nbytes(row, envelope_of_rows(Draws(0), 1, 1, np.arange(1))).tolist() == [nbytes]
    assert message.paper_bits(100) == paper


def test_top_k_takes_the_largest_in_size_and_not_in_value():
    x = np.tile([[-9.0, 1.0, 2.0, 0.5, -3.0]], (M, 1))
    assert squeeze(TopK(0.4), x, 1, 1)[0].tolist() == [-9, 0, 0, 0, -3]
    assert squeeze(SignTopK(0.4), x, 1, 1)[0].tolist() == [-6, 0, 0, 0, -6]
    assert squeeze(Sign(), x, 1, 1)[0] == pytest.approx([-3.1, 3.1, 3.1, 3.1, -3.1])


@pytest.mark.slow
def test_unbiased_compressors_have_the_right_mean():
    x = np.tile([[-9.0, 1.0, 2.0, 0.5, -3.0]], (M, 1))
    rounds = 4000
    found = np.stack([squeeze(RandK(0.4, unbiased=True), x, t, 1)[0] for t in range(rounds)])
    error = found.std(axis=0) / np.sqrt(rounds)
    assert (np.abs(found.mean(axis=0) - x[0]) < 4.5 * error).all()
    half = 2**4
    tau = 1 + min(N / half**2, np.sqrt(N) / half)
    found = tau * np.stack([squeeze(Quantised(5), x, t, 1)[0] for t in range(rounds)])
    assert (
        np.abs(found.mean(axis=0) - x[0]) < 4.5 * found.std(axis=0) / np.sqrt(rounds) + 1e-12
    ).all()


def test_a_zero_row_is_packed_as_zero():
    nothing = np.zeros((M, N))
    for message in COMPRESSORS:
        assert (squeeze(message, nothing, 1, 1) == 0).all(), message


def test_two_differences_of_a_round_are_compressed_independently():
    net = build_port(experiment(pl.rules.BEER(0.05), RandK(0.4)))
    net.t, x = 1, torch.ones(M, N, dtype=torch.float64)
    assert not torch.equal(net.compress(x).value, net.compress(x).value)


def test_impossible_parameters_and_starts_are_refused():
    with pytest.raises(ConfigError, match="gamma must be above 0"):
        pl.rules.CHOCO(0.1, gamma=0.0)
    with pytest.raises(ConfigError, match="from 2 to 16 bits"):
        Quantised(1)
    with pytest.raises(ConfigError, match="DCD needs one common first model"):
        experiment(pl.rules.DCD(0.1), TopK(0.5), x0=np.eye(M, N))
    with pytest.raises(ConfigError, match="x0 must be numbers"):
        experiment(pl.rules.DCD(0.1), TopK(0.5), x0=[["a"] * N] * M)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy, np.ndarray.tolist])
def test_equal_rows_are_a_common_start(kind):
    x = np.random.default_rng(3).normal(size=N)
    one, many = (
        experiment(pl.rules.DCD(0.1), TopK(0.5), x0=x0, rounds=9)
        for x0 in (x, kind(np.tile(x, (M, 1))))
    )
    assert torch.equal(pl.simulate(one).x, pl.simulate(many).x)


@pytest.mark.parametrize("path", ["auto", "links"])
def test_silence_costs_nothing(path):
    """SQuARM's rows that have not moved enough send no message; the ledger knows which did."""
    charged = []
    rule, message = pl.rules.SQuARM(0.02, 0.3, 0.8, H=2, c=40.0, growth=0.5), SignTopK(0.4)
    list(squarm(message, 0.02, 0.3, 0.8, 2, 40.0, 0.5, rounds=30, charged=charged))
    *_, last = iterate(experiment(rule, message, rounds=30), path=path)
    per_row = np.bincount([row for _, row in charged], minlength=M)
    assert 0 < per_row.sum() < 15 * M
    account = last.ledger.layers["peers"]
    assert np.array_equal(account.messages, per_row[GRAPH.peers.src])
    # Size, signs, positions.
    assert np.array_equal(account.nbytes, per_row[GRAPH.peers.src] * (8 + 1 + 1))
    assert np.allclose(account.time, per_row[GRAPH.peers.src])


def test_squarm_without_its_extras_is_choco():
    wanted = orbit(pl.rules.CHOCO(0.05, gamma=0.3), TopK(0.4), "auto")
    found = orbit(pl.rules.SQuARM(0.05, gamma=0.3, beta=0.0), TopK(0.4), "auto")
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


def test_anq_nids_without_rounding_is_nids():
    np.testing.assert_allclose(
        orbit(pl.rules.ANQNIDS(0.2), Dense(), "auto"),
        orbit(pl.rules.NIDS(0.2), Dense(), "auto"),
        atol=1e-12,
    )


def test_anq_nids_is_exact_with_few_bits():
    """It reaches the optimum at a few bits per coordinate, which do not grow with the rounds."""
    exp = experiment(pl.rules.ANQNIDS(0.3), ANQ(omega=0.1, eta=1.0, sigma=0.97), rounds=900)
    *_, middle = (s.ledger for s in iterate(replace(exp, rounds=450)))
    result = pl.simulate(exp)
    assert np.abs(result.x.numpy() - PROBLEM.solution()).max() < 1e-8
    per_coordinate = 8 * (result.ledger.bytes - middle.bytes) / (450 * len(GRAPH.peers) * N)
    assert 2 <= per_coordinate < 10


@pytest.mark.parametrize(
    "schedule",
    [pl.schedules.Every(2), pl.schedules.OneEdge(), pl.schedules.Sampled(fraction=0.5)],
    ids=repr,
)
@pytest.mark.parametrize(
    "rule", [pl.rules.CHOCO(0.05), pl.rules.EXTRA(0.05), pl.rules.ANQNIDS(0.05)]
)
def test_rules_that_need_every_link_refuse_a_schedule_that_drops_some(rule, schedule):
    with pytest.raises(ConfigError, match="every link in every round"):
        pl.simulate(experiment(rule, Dense(), schedule=schedule))


def test_squarm_takes_all_links_or_none():
    pl.simulate(experiment(pl.rules.SQuARM(0.01), Dense(), schedule=pl.schedules.Every(3)))
    with pytest.raises(ConfigError, match="all links of a round, or none"):
        pl.simulate(experiment(pl.rules.SQuARM(0.01), Dense(), schedule=pl.schedules.OneEdge()))


@pytest.mark.parametrize("wrong", [{"beta": 1.0}, {"H": 0}, {"c": -1.0}, {"gamma": 0.0}])
def test_squarm_refuses_what_cannot_be(wrong):
    with pytest.raises(ConfigError, match="SQuARM"):
        pl.rules.SQuARM(0.1, **wrong)
