"""CHOCO, DCD and BEER against their equations in plain loops, and the compressors they send with."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.core import Draws, Trip
from peerloom.engines import build_net, iterate
from peerloom.errors import ConfigError
from peerloom.messages import Dense, Quantised, RandK, Sign, SignTopK, TopK

M, N = 6, 5
GRAPH = pl.graphs.small_world(M, degree=2, rewire=0.5, seed=1)
W = GRAPH.peers.matrix()
PROBLEM = pl.testing.random_quadratic(M, N, seed=4)
COMPRESSORS = [Dense(), TopK(0.4), RandK(0.4), RandK(0.6, unbiased=True), Quantised(6), Sign(), SignTopK(0.4)]


def trip(t, turn, rows=None, seed=0):
    rows = np.arange(M) if rows is None else rows
    return Trip(Draws(seed), t, turn, rows, rows)


def squeeze(message, x, t, turn):
    """C(x), as anyone who has the message decodes it."""
    here = trip(t, turn)
    values, mask = message.unpack(message.pack(torch.from_numpy(x), here), x.shape[1], here)
    return (values * mask).numpy()


def gradient(x):
    return np.stack([np.asarray(PROBLEM.A)[i] @ x[i] - np.asarray(PROBLEM.b)[i] for i in range(M)])


def experiment(rule, message, rounds=12, **changes):
    return pl.Experiment(GRAPH, PROBLEM, rule, message=message, rounds=rounds, dtype="float64", **changes)


def orbit(rule, message, path, **changes):
    return np.stack([snapshot.x.numpy() for snapshot in iterate(experiment(rule, message, **changes), path=path)])


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


@pytest.mark.parametrize("path", ["auto", "links"])
@pytest.mark.parametrize("message", COMPRESSORS, ids=repr)
def test_the_rules_are_their_equations(message, path):
    for rule, wanted in (
        (pl.algorithms.CHOCO(0.05, gamma=0.3), choco(message, 0.05, 0.3)),
        (pl.algorithms.DCD(0.05), dcd(message, 0.05)),
        (pl.algorithms.BEER(0.05, gamma=0.3), beer(message, 0.05, 0.3)),
    ):
        np.testing.assert_allclose(orbit(rule, message, path), np.stack(list(wanted)), rtol=0, atol=1e-10)


def test_without_compression_choco_is_adapt_then_combine_and_dcd_is_dpsgd():
    plain = orbit(pl.algorithms.CHOCO(0.05, gamma=1.0), Dense(), "auto")
    np.testing.assert_allclose(plain, orbit(pl.algorithms.DSGD(0.05), Dense(), "auto"), atol=1e-12)
    plain = orbit(pl.algorithms.DCD(0.05), Dense(), "auto")
    np.testing.assert_allclose(plain, orbit(pl.algorithms.DGD(0.05), Dense(), "auto"), atol=1e-12)


def test_without_compression_beer_is_ab_from_the_second_step():
    found = [snapshot.state for snapshot in iterate(experiment(pl.algorithms.BEER(0.05, gamma=1.0), Dense()))]
    x, v = found[1].x.numpy(), found[1].v.numpy()
    for state in found[2:]:
        x, v, old = W @ x - 0.05 * v, W @ v, x
        v = v + gradient(x) - gradient(old)
        np.testing.assert_allclose(state.x.numpy(), x, atol=1e-12)


def test_beers_invariants():
    states = [snapshot.state for snapshot in iterate(experiment(pl.algorithms.BEER(0.05), TopK(0.4)))]
    for before, after in pairwise(states):
        np.testing.assert_allclose(after.v.mean(dim=0), gradient(after.x.numpy()).mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(after.x.mean(dim=0), before.x.mean(dim=0) - 0.05 * before.v.mean(dim=0), atol=1e-12)


def test_beer_reaches_the_optimum_although_little_travels():
    result = pl.simulate(experiment(pl.algorithms.BEER(0.05, gamma=0.2), TopK(0.4), rounds=3000))
    assert np.abs(result.x.numpy() - PROBLEM.solution()).max() < 1e-8


def test_chocos_bias_is_that_of_plain_sgd_and_shrinks_with_the_step():
    def bias(lr, message):
        exp = experiment(pl.algorithms.CHOCO(lr, gamma=0.3), message, rounds=round(30 / lr))
        return np.abs(pl.simulate(exp).x.numpy() - PROBLEM.solution()).max()

    assert bias(0.01, TopK(0.4)) == pytest.approx(bias(0.01, Dense()), rel=0.3)
    assert bias(0.003, TopK(0.4)) < 0.5 * bias(0.01, TopK(0.4))


def test_only_what_is_packed_is_charged():
    ledger = pl.simulate(experiment(pl.algorithms.BEER(0.05), TopK(0.4), rounds=10)).ledger
    links = len(GRAPH.peers)
    assert ledger.messages == 10 * links
    assert ledger.bytes * 8 == 10 * links * 2 * 2 * (64 + 3)  # two differences, two coordinates each, log2(5) rounded up
    assert ledger.paper_bytes * 8 == 10 * links * 2 * (63 * 2 + 5)


@pytest.mark.parametrize(
    ("message", "true", "paper"),
    [
        (TopK(0.1), 10 * (32 + 7), 63 * 10 + 100),
        (RandK(0.1), 10 * 32, 63 * 10 + 100),
        (Quantised(5), 100 * 6 + 32, 100 * 5 + 64),
        (Sign(), 100 + 32, 100 + 64),
        (SignTopK(0.1), 10 * 8 + 32, 10 * 8 + 64),
    ],
    ids=repr,
)
def test_sizes_in_bits(message, true, paper):
    assert message.bits(100, torch.float32) == true
    assert message.paper_bits(100) == paper


def test_top_k_takes_the_largest_in_size_and_not_in_value():
    x = np.tile([[-9.0, 1.0, 2.0, 0.5, -3.0]], (M, 1))
    assert squeeze(TopK(0.4), x, 1, 1)[0].tolist() == [-9, 0, 0, 0, -3]
    assert squeeze(SignTopK(0.4), x, 1, 1)[0].tolist() == [-6, 0, 0, 0, -6]
    assert squeeze(Sign(), x, 1, 1)[0] == pytest.approx([-3.1, 3.1, 3.1, 3.1, -3.1])


def test_unbiased_compressors_have_the_right_mean():
    x = np.tile([[-9.0, 1.0, 2.0, 0.5, -3.0]], (M, 1))
    rounds = 4000
    found = np.stack([squeeze(RandK(0.4, unbiased=True), x, t, 1)[0] for t in range(rounds)])
    error = found.std(axis=0) / np.sqrt(rounds)
    assert (np.abs(found.mean(axis=0) - x[0]) < 4.5 * error).all()
    half = 2**4
    tau = 1 + min(N / half**2, np.sqrt(N) / half)
    found = tau * np.stack([squeeze(Quantised(5), x, t, 1)[0] for t in range(rounds)])
    assert (np.abs(found.mean(axis=0) - x[0]) < 4.5 * found.std(axis=0) / np.sqrt(rounds) + 1e-12).all()


def test_a_zero_row_is_packed_as_zero():
    nothing = np.zeros((M, N))
    for message in COMPRESSORS:
        assert (squeeze(message, nothing, 1, 1) == 0).all(), message


def test_two_differences_of_a_round_are_compressed_independently():
    net = build_net(experiment(pl.algorithms.BEER(0.05), RandK(0.4)))
    net.t, x = 1, torch.ones(M, N, dtype=torch.float64)
    assert not torch.equal(net.compress(x).value, net.compress(x).value)


def test_refusals():
    with pytest.raises(ConfigError, match="gamma must be above 0"):
        pl.algorithms.CHOCO(0.1, gamma=0.0)
    with pytest.raises(ConfigError, match="from 2 to 16 bits"):
        Quantised(1)
    with pytest.raises(ConfigError, match="DCD needs one common first model"):
        experiment(pl.algorithms.DCD(0.1), TopK(0.5), x0=np.zeros((M, N)))
