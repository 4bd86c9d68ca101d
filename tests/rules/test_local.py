"""Local steps and servers, in plain loops from the equations."""

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.errors import ConfigError
from peerloom.runtime import build_port, iterate

M, N, K = 6, 4, 3
GRAPH = pl.graphs.small_world(M, degree=4, rewire=0.3, seed=1)
W = GRAPH.peers.matrix()
SERVER = pl.graphs.hubs(pl.graphs.from_edges(1, []), [M])
X0 = np.random.default_rng(3).normal(size=N)
LAM = 0.3


def problem(h=None):
    base = pl.testing.random_quadratic(M, N, seed=7)
    return pl.problems.Quadratic(base.A, base.b, h=h)


def gradient(x):
    """Row by row, for rows x."""
    A, b = np.asarray(problem().A), np.asarray(problem().b)
    return np.stack([A[i] @ x[i] - b[i] for i in range(M)])


def soft(z, step):
    return np.sign(z) * np.maximum(np.abs(z) - step * LAM, 0)


def orbit(rule, graph, h=None, rounds=10, path="matrix", **changes):
    exp = pl.Experiment(graph, problem(h), rule, rounds=rounds, x0=X0, dtype="float64", **changes)
    return [snapshot.x.numpy() for snapshot in iterate(exp, path=path)]


def same(found, wanted):
    np.testing.assert_allclose(np.stack(found), np.stack(list(wanted)), rtol=0, atol=1e-11)


def start():
    return np.tile(X0, (M, 1))


@pytest.mark.parametrize("path", ["matrix", "links"])
@pytest.mark.parametrize("theta", [0.0, 0.7])
def test_dfedavgm_is_its_equation(theta, path):
    def loops():
        x = start()
        yield x
        for _ in range(10):
            y, before = x, x
            for _ in range(K):
                y, before = y - 0.05 * gradient(y) + theta * (y - before), y
            x = W @ y
            yield x

    same(orbit(pl.rules.DFedAvgM(0.05, K=K, theta=theta), GRAPH, path=path), loops())


@pytest.mark.parametrize("Q", [1, 2])
def test_dfedsam_is_its_equation(Q):
    def loops():
        x = start()
        yield x
        for _ in range(10):
            y = x
            for _ in range(K):
                g = gradient(y)
                eps = 0.1 * g / np.linalg.norm(g, axis=1, keepdims=True)
                y = y - 0.05 * gradient(y + eps)
            x = np.linalg.matrix_power(W, Q) @ y
            yield x

    same(orbit(pl.rules.DFedSAM(0.05, rho=0.1, K=K, Q=Q), GRAPH), loops())


def test_dfedsam_stands_still_where_the_gradient_is_zero():
    nothing = pl.problems.Quadratic(np.zeros((M, N, N)), np.zeros((M, N)))
    exp = pl.Experiment(GRAPH, nothing, pl.rules.DFedSAM(0.1), rounds=3, x0=X0, dtype="float64")
    np.testing.assert_allclose(pl.simulate(exp).x.numpy(), start(), atol=1e-14)


def test_kgt_is_its_equation():
    def loops():
        x, c = start(), np.zeros((M, N))
        yield x
        for _ in range(10):
            y = x
            for _ in range(K):
                y = y - 0.04 * (gradient(y) + c)
            z = (x - y) / (K * 0.04)
            c = c - z + W @ z
            x = W @ (x - K * 0.04 * 0.8 * z)
            yield x

    same(orbit(pl.rules.KGT(0.04, K=K, server_lr=0.8), GRAPH), loops())


def test_kgts_own_start_is_its_equation():
    """A first round that only sends gradients: c = -g(x0) + W g(x0), x stays."""

    def loops():
        x, c = start(), W @ gradient(start()) - gradient(start())
        yield x
        for _ in range(10):
            yield x
            y = x
            for _ in range(K):
                y = y - 0.04 * (gradient(y) + c)
            z = (x - y) / (K * 0.04)
            c = c - z + W @ z
            x = W @ (x - K * 0.04 * z)

    same(orbit(pl.rules.KGT(0.04, K=K, start="gradients"), GRAPH), loops())


def test_kgts_own_start_is_the_papers_where_all_are_neighbours():
    graph = pl.graphs.complete(M)
    rule = pl.rules.KGT(0.04, K=K, start="gradients")
    exp = pl.Experiment(graph, problem(), rule, rounds=1, x0=X0, dtype="float64")
    *_, last = iterate(exp)
    g = gradient(start())
    np.testing.assert_allclose(last.state.c.numpy(), g.mean(axis=0) - g, atol=1e-12)
    np.testing.assert_allclose(last.x.numpy(), start(), atol=1e-12)
    pl.testing.check_rule(rule)


def test_kgts_own_start_is_exact_too():
    exp = pl.Experiment(
        GRAPH, problem(), pl.rules.KGT(0.05, K=K, start="gradients"), rounds=2000, x0=X0,
        dtype="float64",
    )  # fmt: skip
    *_, last = iterate(exp)
    assert last.state.c.sum(dim=0).abs().max() < 1e-10
    assert np.abs(last.x.numpy() - problem().solution()).max() < 1e-8


@pytest.mark.parametrize("path", ["auto", "links"])
@pytest.mark.parametrize("theta", [0.0, 0.7])
def test_quantised_dfedavgm_is_its_equation(theta, path):
    """x <- x + W Q(y[K] - x), with Q the top half of the coordinates."""

    def top(rows):
        out = np.zeros_like(rows)
        for i, row in enumerate(rows):
            for k in np.argsort(-np.abs(row))[: N // 2]:
                out[i, k] = row[k]
        return out

    def loops():
        x = start()
        yield x
        for _ in range(10):
            y, before = x, x
            for _ in range(K):
                y, before = y - 0.05 * gradient(y) + theta * (y - before), y
            x = x + W @ top(y - x)
            yield x

    rule = pl.rules.QuantisedDFedAvgM(0.05, K=K, theta=theta)
    same(orbit(rule, GRAPH, path=path, message=pl.messages.TopK(0.5)), loops())


def test_without_loss_quantised_dfedavgm_adds_the_mixed_changes():
    """From a common start its first round is DFedAvgM's; its mean stays that of the changes."""
    plain, quantised = (
        orbit(rule(0.05, K=K), GRAPH, rounds=4)
        for rule in (pl.rules.DFedAvgM, pl.rules.QuantisedDFedAvgM)
    )
    np.testing.assert_allclose(plain[1], quantised[1], atol=1e-12)
    assert np.abs(plain[2] - quantised[2]).max() > 1e-6  # models themselves are not averaged


def test_quantised_dfedavgm_sends_few_bytes():
    rule = pl.rules.QuantisedDFedAvgM(0.1, K=2)
    data = pl.problems.Classification("softmax", batch=4)
    few, many = (
        pl.simulate(pl.Experiment(GRAPH, data, rule, message=message, rounds=3)).ledger
        for message in (pl.messages.Quantised(4), pl.messages.Dense())
    )
    assert few.messages == many.messages
    assert few.bytes < many.bytes / 6
    with pytest.raises(ConfigError, match="one common first model"):
        pl.Experiment(GRAPH, problem(), rule, x0=start() + np.arange(M)[:, None])


def test_kgts_corrections_sum_to_zero_and_it_is_exact():
    exp = pl.Experiment(
        GRAPH, problem(), pl.rules.KGT(0.05, K=K), rounds=2000, x0=X0, dtype="float64"
    )
    *_, last = iterate(exp)
    assert last.state.c.sum(dim=0).abs().max() < 1e-10
    assert np.abs(last.x.numpy() - problem().solution()).max() < 1e-8


def test_fedmid_is_its_equation():
    def loops():
        x = X0
        yield start()
        for _ in range(10):
            w = np.tile(x, (M, 1))
            for _ in range(K):
                w = soft(w - 0.05 * gradient(w), 0.05)
            x = soft(x + 0.9 * (w.mean(axis=0) - x), 0.9 * 0.05 * K)
            yield np.tile(x, (M, 1))

    same(orbit(pl.rules.FedMiD(0.05, K=K, server_lr=0.9), SERVER, pl.problems.L1(LAM)), loops())


def test_feddualavg_is_its_equation():
    def loops():
        y = X0
        yield start()
        for r in range(10):
            own = np.tile(y, (M, 1))
            for k in range(K):
                own = own - 0.05 * gradient(soft(own, 0.9 * 0.05 * K * r + 0.05 * k))
            y = y + 0.9 * (own.mean(axis=0) - y)
            yield np.tile(soft(y, 0.9 * 0.05 * K * (r + 1)), (M, 1))

    same(orbit(pl.rules.FedDualAvg(0.05, K=K, server_lr=0.9), SERVER, pl.problems.L1(LAM)), loops())


def feddr(alpha, eta, lr):
    x, own, y = X0, start(), start()
    yield start()
    for _ in range(10):
        y = y + alpha * (x - own)
        for _ in range(K):
            own = own - lr * (gradient(own) + (own - y) / eta)
        x = soft((2 * own - y).mean(axis=0), eta)
        yield np.tile(x, (M, 1))


def test_feddr_is_its_equation():
    same(
        orbit(pl.rules.FedDR(0.1, eta=0.7, alpha=1.5, K=K), SERVER, pl.problems.L1(LAM)),
        feddr(1.5, 0.7, 0.1),
    )


def test_fedadmm_is_feddr_with_alpha_one():
    found = orbit(pl.rules.FedADMM(0.1, eta=1 / 0.7, K=K), SERVER, pl.problems.L1(LAM))
    same(found, feddr(1.0, 0.7, 0.1))


def test_feddr_solved_well_reaches_the_optimum_of_f_plus_h():
    rule = pl.rules.FedDR(0.2, eta=1.0, alpha=1.0, K=60)
    x = orbit(rule, SERVER, pl.problems.L1(LAM), rounds=400)[-1][0]
    g = gradient(np.tile(x, (M, 1))).mean(axis=0)
    assert (np.abs(g[x == 0]) <= LAM + 1e-7).all()
    np.testing.assert_allclose(g[x != 0], -LAM * np.sign(x[x != 0]), atol=1e-7)


def test_local_and_hierarchical_sgd_let_everyone_compute():
    graph = pl.graphs.hubs(pl.graphs.ring(3), [2, 2, 2])
    for rule in (pl.rules.LocalSGD(0.05), pl.rules.HLSGD(0.05)):
        sporadic, always = (
            orbit(rule, graph, schedule=pl.schedules.HubRounds(3, 2, nodes=nodes))
            for nodes in (0.3, 1.0)
        )
        same(sporadic, always)
        same(always, orbit(pl.rules.MLLSGD(0.05), graph, schedule=pl.schedules.HubRounds(3, 2)))


def test_every_local_step_has_a_batch_of_its_own_and_repeats_on_demand():
    data = pl.problems.Classification("softmax", batch=2)
    exp = pl.Experiment(
        pl.graphs.ring(4), data, pl.rules.DFedAvgM(0.1, K=3), rounds=2, dtype="float64"
    )
    net = build_port(exp)
    net.t, x = 1, exp.start(range(4))
    with torch.no_grad():
        first, second, again = (net.grad(x, batch=k) for k in (0, 1, 0))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert torch.equal(first, net.grad(x))
    assert pl.simulate(exp).ledger.gradients == 2 * 3 * 4


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: pl.rules.DFedAvgM(0.1, K=0), "at least 1 local step"),
        (lambda: pl.rules.DFedAvgM(0.1, theta=1.0), "theta"),
        (lambda: pl.rules.DFedSAM(0.1, Q=0), "Q >= 1"),
        (lambda: pl.rules.KGT(0.1, server_lr=0.0), "server_lr"),
        (lambda: pl.rules.KGT(0.1, start="exact"), "start must be 'zero' or 'gradients'"),
        (lambda: pl.rules.QuantisedDFedAvgM(0.1, theta=1.0), r"QuantisedDFedAvgM\.theta"),
        (lambda: pl.rules.FedMiD(0.0), r"FedMiD.lr must be above 0"),
        (lambda: pl.rules.FedDR(0.1, eta=float("inf")), r"FedDR.eta must be above 0"),
        (
            lambda: orbit(pl.rules.FedMiD(0.1), pl.graphs.hubs(pl.graphs.ring(3), [2, 2, 2])),
            "FedMiD needs a server",
        ),
        (
            lambda: orbit(pl.rules.FedMiD(0.1), GRAPH),
            "FedMiD needs a server, but graph 'small_world' has 0 hubs",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()
