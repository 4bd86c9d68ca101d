"""The averaged model is the paper's own, wherever models are averaged: u = sum_i a_i x_i."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

import peerloom as pl
from peerloom.core import Draws, masses, mean_model, spread
from peerloom.runs import RunFolder
from peerloom.runs.export import export_run
from peerloom.runtime import iterate
from peerloom.schedules import HubRounds

WEIGHTS = [1.0, 5.0, 1.0, 2.0, 1.0, 9.0, 1.0, 1.0, 1.0]
HOME = [0, 0, 0, 1, 1, 2, 2, 2, 2]
ETA = 0.05


def loss(problem, x):
    """F(x) = (1/m) sum_i x'A_i x / 2 - b_i'x, as `Quadratic` judges."""
    A, b = np.asarray(problem.A), np.asarray(problem.b)
    return np.mean([0.5 * x @ A[i] @ x - b[i] @ x for i in range(len(A))])


def hub_rounds(rounds=24):
    graph = pl.graphs.hubs(pl.graphs.path(3), [3, 2, 4], WEIGHTS)
    problem = pl.testing.random_quadratic(9, 4, seed=2)
    x0 = np.random.default_rng(7).normal(size=(9, 4))
    return pl.Experiment(
        graph,
        problem,
        pl.rules.MLLSGD(ETA),
        HubRounds(3, 2, 0.6),
        rounds=rounds,
        x0=x0,
        seed=6,
        dtype="float64",
        evaluate=pl.Evaluate(every=1),
    )


def mll_sgd(exp):
    """u_k by its own recursion, u <- u - eta sum_i a_i theta_i g_i (eq. 10), and x_k with it."""
    a = np.array(WEIGHTS) / sum(WEIGHTS)
    b = [sum(a[i] for i in range(9) if HOME[i] == d) for d in range(3)]
    near = {0: [1], 1: [0, 2], 2: [1]}
    H = np.zeros((3, 3))
    for d in range(3):
        for j in near[d]:
            H[j, d] = min(1, b[j] / b[d]) / (1 + max(len(near[j]), len(near[d])))
        H[d, d] = 1 - sum(H[j, d] for j in near[d])
    A, c = np.asarray(exp.problem.A), np.asarray(exp.problem.b)
    coins = exp.schedule.bind(exp.graph, Draws(exp.seed))
    x = np.array(exp.x0)
    u = sum(a[i] * x[i] for i in range(9))
    yield x.copy(), u.copy()
    for k in range(1, exp.rounds + 1):
        g = [A[i] @ x[i] - c[i] if coins.nodes(k)[i] else np.zeros(4) for i in range(9)]
        x = np.stack([x[i] - ETA * g[i] for i in range(9)])
        u = u - ETA * sum(a[i] * g[i] for i in range(9))
        if k % 3 == 0:
            z = [sum(a[i] / b[d] * x[i] for i in range(9) if HOME[i] == d) for d in range(3)]
            if k % 6 == 0:
                z = [sum(H[j, d] * z[j] for j in range(3)) for d in range(3)]
            x = np.stack([z[HOME[i]] for i in range(9)])
        yield x.copy(), u.copy()


def test_mll_sgd_judges_the_average_by_its_workers_weights():
    exp = hub_rounds()
    rows = pl.simulate(exp).metrics.rows()
    a = np.array(WEIGHTS) / sum(WEIGHTS)
    for row, (x, u) in zip(rows, mll_sgd(exp), strict=True):
        assert row["average_loss"] == pytest.approx(loss(exp.problem, u), rel=1e-10)
        apart = sum(a[i] * np.sum((x[i] - u) ** 2) for i in range(9))
        assert row["consensus"] == pytest.approx(apart, rel=1e-10)
    x, u = list(mll_sgd(exp))[-1]
    equal = loss(exp.problem, x.mean(axis=0))
    assert abs(equal - loss(exp.problem, u)) > 0.01, "equal weights would have to be seen"


@pytest.mark.parametrize("name", ["SGP", "SubgradientPush", "PushDIGing"])
def test_push_sums_judge_the_average_by_what_their_rows_weigh(name):
    """What is pushed is conserved: the average is sum_i u_i / m, not the mean of u_i / w_i."""
    graph = pl.graphs.random_digraph(6, p=0.4, seed=3)
    problem = pl.testing.random_quadratic(6, 4, seed=2)
    x0 = np.random.default_rng(1).normal(size=(6, 4))
    lr = pl.rates.InverseSqrt(0.05, 10) if name == "SubgradientPush" else 0.05
    exp = pl.Experiment(
        graph,
        problem,
        getattr(pl.rules, name)(lr),
        rounds=5,
        x0=x0,
        dtype="float64",
        evaluate=pl.Evaluate(every=1),
    )
    rows = pl.simulate(exp).metrics.rows()
    for row, snapshot in zip(rows, iterate(exp), strict=True):
        u, w = snapshot.state.u.numpy(), snapshot.state.w.numpy()
        middle = sum(u[i] for i in range(6)) / 6
        assert row["average_loss"] == pytest.approx(loss(problem, middle), rel=1e-10)
        apart = sum(w[i, 0] * np.sum((u[i] / w[i] - middle) ** 2) for i in range(6)) / 6
        assert row["consensus"] == pytest.approx(apart, rel=1e-10)
    assert abs(loss(problem, (u / w).mean(axis=0)) - loss(problem, middle)) > 1e-4


def test_the_exported_average_is_the_one_that_was_judged(tmp_path):
    exp = hub_rounds()
    pl.simulate(exp, out=tmp_path / "hubs")
    export_run(RunFolder(tmp_path / "hubs"), tmp_path / "u.safetensors", None)
    _, u = list(mll_sgd(exp))[-1]
    np.testing.assert_allclose(load_file(tmp_path / "u.safetensors")["x"], u, atol=1e-12)
    push = pl.Experiment(
        pl.graphs.random_digraph(6, p=0.4, seed=3),
        pl.testing.random_quadratic(6, 4),
        pl.rules.SGP(0.05),
        rounds=5,
        dtype="float64",
    )
    last = pl.simulate(push, out=tmp_path / "push")
    export_run(RunFolder(tmp_path / "push"), tmp_path / "v.safetensors", None)
    found = load_file(tmp_path / "v.safetensors")["x"]
    np.testing.assert_allclose(found, last.state.u.numpy().mean(axis=0), atol=1e-12)


@given(seed=st.integers(0, 99), sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4))
def test_masses_are_shares_of_the_weights_and_hubs_have_none(seed, sizes):
    w = np.random.default_rng(seed).uniform(0.1, 9.0, sum(sizes))
    graph = pl.graphs.hubs(pl.graphs.path(len(sizes)), sizes, w)
    rows = np.arange(graph.rows)
    found = masses(pl.rules.MLLSGD(0.1), graph, rows, {}).numpy()
    np.testing.assert_allclose(found[: graph.clients], w / w.mean())
    assert not found[graph.clients :].any()
    some = rows[::2]  # each process knows its own
    np.testing.assert_array_equal(masses(pl.rules.MLLSGD(0.1), graph, some, {}).numpy(), found[::2])


@given(seed=st.integers(0, 99))
def test_masses_of_one_are_the_plain_mean(seed):
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(5, 3)))
    graph = pl.graphs.ring(5)
    mass = masses(pl.rules.DGD(0.1), graph, np.arange(5), {"x": x})
    assert mass.tolist() == [1.0] * 5
    middle = mean_model(x, mass)
    torch.testing.assert_close(middle, x.mean(dim=0), rtol=0, atol=1e-15)
    plain = ((x - x.mean(dim=0)) ** 2).sum(dim=1).mean().item()
    assert spread(x, mass) == pytest.approx(plain, rel=1e-12)
