"""MLL-SGD against its equations in plain loops, its invariants, and graphs with hubs."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies

import peerloom as pl
from peerloom.config import comparison_from, experiment_to_table
from peerloom.core import Draws
from peerloom.errors import ConfigError
from peerloom.graphs.hubs import diffusion
from peerloom.reports import write_report
from peerloom.runs import RunFolder
from peerloom.runtime import iterate
from peerloom.schedules import HubRounds

WORKERS = [3, 2, 4]
WEIGHTS = (1.0, 2.0, 3.0, 1.0, 5.0, 2.0, 2.0, 1.0, 4.0)
RATES = np.linspace(0.3, 1.0, 9)
HOME = np.repeat(np.arange(3), WORKERS)


def experiment(graph=None, tau=3, q=2, nodes=RATES, rounds=25, lr=0.05, **changes):
    graph = graph or pl.graphs.hubs(pl.graphs.path(3), WORKERS, WEIGHTS)
    return pl.Experiment(
        graph=graph,
        problem=pl.testing.random_quadratic(graph.clients, 4, seed=2),
        algorithm=pl.rules.MLLSGD(lr),
        schedule=HubRounds(tau, q, nodes),
        rounds=rounds,
        seed=6,
        dtype="float64",
        **changes,
    )


def shares(weights=WEIGHTS, home=HOME):
    w = np.asarray(weights)
    heft = np.bincount(home, w)
    return w / heft[home], heft / w.sum(), w / w.sum()  # v, b, a


def oracle(exp, H, tau=3, q=2, lr=0.05, weights=WEIGHTS, home=HOME):
    """Section 1.3, time steps k = 1, 2, ...; averaging tests the finished step (erratum E-M1)."""
    v, _, _ = shares(weights, home)
    A, b = np.asarray(exp.problem.A), np.asarray(exp.problem.b)
    active = exp.schedule.bind(exp.graph, Draws(exp.seed))
    x = exp.start(range(exp.graph.clients)).numpy().copy()
    for k in range(1, exp.rounds + 1):
        for i in range(len(x)):
            if active.nodes(k)[i]:
                x[i] = x[i] - lr * (A[i] @ x[i] - b[i])
        if k % tau == 0:
            z = [sum(v[i] * x[i] for i in range(len(x)) if home[i] == d) for d in range(len(H))]
            y = (
                [sum(H[j][d] * z[j] for j in range(len(H))) for d in range(len(H))]
                if k % (q * tau) == 0
                else z
            )
            for i in range(len(x)):
                x[i] = y[home[i]]
    return x


@pytest.mark.parametrize("path", ["matrix", "links"])
@pytest.mark.parametrize(("tau", "q"), [(1, 1), (3, 2), (2, 4), (5, 1)])
def test_the_rule_is_its_equation(path, tau, q):
    exp = experiment(tau=tau, q=q)
    *_, last = iterate(exp, path=path)
    H = diffusion(pl.graphs.path(3), shares()[1])
    np.testing.assert_allclose(last.x.numpy(), oracle(exp, H, tau, q), rtol=0, atol=1e-12)


def test_a_matrix_of_ones_own_is_used_as_hub_j_in_hub_d():
    b = shares()[1]
    H = np.tile(b[:, None], (1, 3))  # H_ij = b_i: everything averaged at once
    exp = experiment(graph=pl.graphs.hubs(pl.graphs.complete(3), WORKERS, WEIGHTS, H))
    np.testing.assert_allclose(pl.simulate(exp).x.numpy(), oracle(exp, H), rtol=0, atol=1e-12)


@given(seed=strategies.integers(0, 200), hubs=strategies.integers(2, 6))
def test_the_authors_hubs_average_in_place_one_after_the_other(seed, hubs):
    dice = np.random.default_rng(seed)
    graph = pl.graphs.erdos_renyi(hubs, p=0.6, seed=seed)
    sizes = dice.integers(1, 9, hubs)
    across = pl.graphs.hubs(graph, [1] * hubs, sizes, compat=True).layers["across"]
    old = dice.normal(size=hubs)
    found = old * (1 - np.bincount(across.dst - hubs, across.a, minlength=hubs))
    np.add.at(found, across.dst - hubs, across.a * old[across.src - hubs])
    z = list(old)
    for d in range(hubs):
        near = [
            *(int(i) for i, j in zip(graph.peers.src, graph.peers.dst, strict=True) if j == d),
            d,
        ]
        z[d] = sum(sizes[j] * z[j] for j in near) / sum(sizes[j] for j in near)
    np.testing.assert_allclose(found, z, rtol=1e-12, atol=1e-12)


@given(seed=strategies.integers(0, 200), hubs=strategies.integers(1, 6))
def test_the_diffusion_matrix_has_the_properties_that_the_paper_asks_for(seed, hubs):
    dice = np.random.default_rng(seed)
    graph = (
        pl.graphs.erdos_renyi(hubs, p=0.6, seed=seed) if hubs > 1 else pl.graphs.from_edges(1, [])
    )
    b = dice.dirichlet(np.ones(hubs))
    H = diffusion(graph, b)
    assert (H >= -1e-15).all()
    np.testing.assert_allclose(H.sum(axis=0), 1)
    np.testing.assert_allclose(H @ b, b)
    np.testing.assert_allclose(H * b, (H * b).T, atol=1e-15)


@given(sizes=strategies.lists(strategies.integers(1, 6), min_size=2, max_size=5))
def test_hubs_that_all_know_each_other_average_exactly(sizes):
    b = np.array(sizes) / sum(sizes)
    H = diffusion(pl.graphs.complete(len(sizes)), b)
    assert all(H[j, d] == b[j] for j in range(len(b)) for d in range(len(b)))


@pytest.mark.parametrize("weights", [None, [1.0, 5.0, 1.0, 2.0, 1.0, 9.0, 1.0, 1.0, 1.0]])
@pytest.mark.parametrize("name", ["HLSGD", "LocalSGD", "FedAvg", "DistributedSGD"])
def test_after_hubs_averaged_with_each_other_all_workers_have_the_weighted_mean(name, weights):
    """x_i = sum_j a_j (x_j - eta g_j(x_j)) at every worker i, in plain loops."""
    kind = getattr(pl.rules, name)
    hubs, sizes = (1, [9]) if kind.needs.one_hub else (3, [1, 2, 6])
    between = pl.graphs.complete(3) if hubs == 3 else pl.graphs.from_edges(1, [])
    graph = pl.graphs.hubs(between, sizes, weights)
    problem = pl.testing.random_quadratic(9, 4, seed=2)
    A, b = np.asarray(problem.A), np.asarray(problem.b)
    a = np.full(9, 1 / 9) if weights is None else np.array(weights) / sum(weights)
    tau, q = (1, 1) if name == "DistributedSGD" else (3, 2)
    schedule = pl.schedules.Always() if name == "DistributedSGD" else HubRounds(tau, q)
    x0 = np.random.default_rng(1).normal(size=(9, 4))
    exp = pl.Experiment(
        graph, problem, kind(0.05), schedule, rounds=4 * tau * q, x0=x0, dtype="float64"
    )
    home = np.repeat(np.arange(hubs), sizes)
    x = x0.copy()
    for snapshot in iterate(exp):
        k = snapshot.t
        if k:
            x = np.stack([x[i] - 0.05 * (A[i] @ x[i] - b[i]) for i in range(9)])
            if k % (tau * q) == 0 or (hubs == 1 and k % tau == 0):
                x = np.tile(sum(a[i] * x[i] for i in range(9)), (9, 1))
            elif k % tau == 0:
                for d in range(hubs):
                    mine = [i for i in range(9) if home[i] == d]
                    z = sum(a[i] * x[i] for i in mine) / sum(a[i] for i in mine)
                    x[mine] = z
        np.testing.assert_allclose(snapshot.x.numpy(), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["HLSGD", "LocalSGD"])
def test_hubs_that_would_not_average_exactly_are_refused_with_the_reason(name):
    rule, said = getattr(pl.rules, name)(0.05), f"{name} averages the models of all hubs exactly"
    H = diffusion(pl.graphs.path(3), np.full(3, 1 / 3))
    for graph in (
        pl.graphs.hubs(pl.graphs.path(3), [1, 2, 6]),
        pl.graphs.hubs(pl.graphs.ring(4), [2, 2, 2, 3]),
        pl.graphs.hubs(pl.graphs.complete(3), [3, 3, 3], H=H),
    ):
        problem = pl.testing.random_quadratic(9, 4)
        with pytest.raises(ConfigError, match=said):
            pl.Experiment(graph, problem, rule, HubRounds(2, 2))
        pl.Experiment(graph, problem, pl.rules.MLLSGD(0.05), HubRounds(2, 2))
    # The authors' code averages in place; who asks for that wants its numbers.
    compat = pl.graphs.hubs(pl.graphs.complete(3), [3, 3, 3], compat=True)
    pl.Experiment(compat, problem, rule, HubRounds(2, 2))


def test_hub_matrices_keep_the_weighted_mean():
    """Z a = a, V a = a, columns sum to one, V V = V, Z V = V Z = Z; Z has H's spectrum."""
    v, b, a = shares()
    H = diffusion(pl.graphs.path(3), b)
    V = np.where(HOME[:, None] == HOME[None], v[:, None], 0.0)
    Z = H[HOME][:, HOME] * v[:, None]
    for matrix in (V, Z):
        np.testing.assert_allclose(matrix @ a, a)
        np.testing.assert_allclose(matrix.sum(axis=0), 1)
    np.testing.assert_allclose(V @ V, V, atol=1e-15)
    np.testing.assert_allclose(Z @ V, Z, atol=1e-15)
    np.testing.assert_allclose(V @ Z, Z, atol=1e-15)
    found = np.sort(np.abs(np.linalg.eigvals(Z)))[-3:]
    np.testing.assert_allclose(found, np.sort(np.abs(np.linalg.eigvals(H))), atol=1e-9)
    nothing = pl.problems.Quadratic(np.zeros((9, 4, 4)), np.zeros((9, 4)))
    x0 = np.random.default_rng(0).normal(size=(9, 4))
    graph = pl.graphs.hubs(pl.graphs.path(3), WORKERS, WEIGHTS)
    rule, rhythm = pl.rules.MLLSGD(0.1), HubRounds(1, 1)
    after = pl.simulate(
        pl.Experiment(graph, nothing, rule, rhythm, rounds=1, x0=x0, dtype="float64")
    ).x.numpy()
    np.testing.assert_allclose(after, Z.T @ x0, atol=1e-14)


def test_the_weighted_mean_moves_by_the_gradients_alone():
    exp = experiment()
    a = torch.from_numpy(shares()[2])
    A, b = np.asarray(exp.problem.A), np.asarray(exp.problem.b)
    activity = exp.schedule.bind(exp.graph, Draws(exp.seed))
    states = [snapshot.x for snapshot in iterate(exp)]
    for k in range(1, len(states)):
        x = states[k - 1].numpy()
        g = np.stack([A[i] @ x[i] - b[i] for i in range(9)]) * activity.nodes(k)[:, None]
        wanted = a @ states[k - 1] - 0.05 * torch.from_numpy(g).T @ a
        torch.testing.assert_close(a @ states[k], wanted, rtol=0, atol=1e-12)


def test_workers_agree_with_their_hub_after_tau_and_with_all_after_q_tau():
    b = shares()[1]
    graph = pl.graphs.hubs(pl.graphs.complete(3), WORKERS, WEIGHTS, np.tile(b[:, None], (1, 3)))
    for snapshot in iterate(experiment(graph=graph)):
        spread = snapshot.x - snapshot.x[:1]
        within = max(
            (snapshot.x[d == HOME] - snapshot.x[d == HOME][:1]).abs().max().item() for d in range(3)
        )
        assert (within < 1e-13) == (snapshot.t % 3 == 0)
        assert (spread.abs().max().item() < 1e-13) == (snapshot.t % 6 == 0)


def test_one_hub_and_every_round_is_distributed_sgd():
    graph = pl.graphs.hubs(pl.graphs.from_edges(1, []), [5])
    exp = experiment(graph=graph, tau=1, q=1, nodes=1.0, lr=0.1)
    x, A, b = np.zeros(4), np.asarray(exp.problem.A), np.asarray(exp.problem.b)
    for _ in range(exp.rounds):
        x = x - 0.1 * np.mean([A[i] @ x - b[i] for i in range(5)], axis=0)
    np.testing.assert_allclose(pl.simulate(exp).x.numpy(), np.tile(x, (5, 1)), atol=1e-12)


def test_one_worker_per_hub_is_cooperative_sgd():
    ring = pl.graphs.ring(5)
    W = np.asarray(ring.peers.matrix())
    exp = experiment(graph=pl.graphs.hubs(ring, [1] * 5, H=W), tau=3, q=1, nodes=1.0)
    plain = pl.Experiment(
        ring,
        exp.problem,
        pl.rules.CooperativeSGD(0.05, tau=3),
        rounds=exp.rounds,
        seed=exp.seed,
        dtype="float64",
    )
    torch.testing.assert_close(pl.simulate(exp).x, pl.simulate(plain).x, rtol=0, atol=1e-13)


def test_messages_and_gradients_are_counted_where_they_happen():
    ledger = pl.simulate(experiment(tau=3, q=2, nodes=1.0, rounds=12)).ledger
    assert ledger.gradients == 12 * 9
    assert {name: int(account.messages.sum()) for name, account in ledger.layers.items()} == {
        "up": 4 * 9, "across": 2 * 4, "down": 4 * 9,
    }  # fmt: skip


def test_problems_and_models_speak_of_the_workers_only(tmp_path):
    exp = pl.Experiment(
        graph=pl.graphs.hubs(pl.graphs.ring(3), [2, 2, 2]),
        problem=pl.problems.Classification("svm", partition=pl.problems.Labels(2)),
        algorithm=pl.rules.MLLSGD(0.05),
        schedule=HubRounds(2, 2, nodes=pl.laws.Uniform(0.3, 1.0)),
        rounds=20,
    )
    result = pl.simulate(exp, out=tmp_path)
    assert result.x.shape == (6, 650)
    assert len(result.metrics["client_accuracy"][-1]) == 6
    assert exp.graph.workers.tolist() == list(range(6))
    assert torch.equal(pl.simulate(RunFolder(tmp_path).experiment()).x, result.x)


def test_a_file_makes_the_same_hubs_again():
    exp = experiment(rounds=7)
    again = comparison_from(experiment_to_table(exp)).experiments[0]
    assert torch.equal(pl.simulate(again).x, pl.simulate(exp).x)


def test_a_report_can_be_written(tmp_path):
    pl.simulate(experiment(rounds=7), out=tmp_path)
    run = RunFolder(tmp_path).read()
    text = write_report([run], tmp_path / "page.html", "hubs").read_text()
    hubs = run.network["rows"] - len(run.network["node_probability"])
    assert text.count("<title>hub ") == hubs > 0
    assert "layer up: works with probability" in text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: pl.graphs.hubs(pl.graphs.ring(3), [1, 2]), "for each of 3 hubs"),
        (lambda: pl.graphs.hubs(pl.graphs.from_edges(1, []), [2], compat=True), "there is one hub"),
        (lambda: pl.graphs.hubs(pl.graphs.ring(3), [1, 0, 2]), "at least 1"),
        (lambda: pl.graphs.hubs(pl.graphs.ring(3), [1, 1, 1], [1.0]), "each of 3 workers"),
        (lambda: pl.graphs.hubs(pl.graphs.ring(3), [1, 1, 1], [1.0, 1.0, 0.0]), "above 0"),
        (
            lambda: pl.graphs.hubs(pl.graphs.path(2), [1, 3], H=[[0.5, 0.5], [0.5, 0.5]]),
            r"H\[0, 1\] b\[1\] is 0.375",
        ),
        (
            lambda: pl.graphs.hubs(pl.graphs.path(2), [1, 1], H=[[0.5, 0.6], [0.5, 0.5]]),
            "H, column 1 sums to 1.1",
        ),
        (lambda: HubRounds(0), "tau >= 1"),
        (lambda: HubRounds(1, nodes=1.5), "probabilities from 0 to 1"),
        (lambda: HubRounds(2).bind(pl.graphs.ring(3), Draws(0)), "for graphs with hubs"),
        (
            lambda: experiment(graph=pl.graphs.ring(4)),
            "MLLSGD mixes over layer 'up', but graph 'ring' has peers",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()
