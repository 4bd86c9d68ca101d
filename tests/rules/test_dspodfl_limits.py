"""DSpodFL and DGD on heterogeneous quadratics end at their known fixed points."""

import numpy as np
import pytest

from peerloom import graphs
from peerloom.core.rates import InverseSqrt
from peerloom.rules import DGD, DFedAvg, DSpodFL
from peerloom.runtime import iterate
from peerloom.schedules import Bernoulli
from tests.builders import experiment, final, quadratic
from tests.oracles import check_close, local_steps_fixed_point, metropolis

GRAPH = graphs.complete(4)
PROBLEM = quadratic(4, n=2, seed=3)
ABLE = np.array([1.0, 0.7, 0.2, 0.4])


def fixed_point(alpha, d, b):
    """Fixed point X of the mean iteration E[P] X - alpha D (A X - b), solved as one system."""
    m, n = PROBLEM.b.shape
    R = b * np.array(metropolis(GRAPH))
    mixing = np.kron(np.diag(R.sum(axis=1)) - R, np.eye(n))
    curvature = np.zeros((m * n, m * n))
    for i in range(m):
        curvature[i * n : i * n + n, i * n : i * n + n] = d[i] * PROBLEM.A[i]
    return np.linalg.solve(
        mixing + alpha * curvature, alpha * (d[:, None] * PROBLEM.b).ravel()
    ).reshape(m, n)


def test_the_fixed_point_tends_to_the_weighted_optimum_as_the_step_shrinks():
    """The mean tends to where sum_i d_i grad F_i = 0, at a distance of the order of the step."""
    wanted = PROBLEM.solution(weights=ABLE)
    off = [
        np.linalg.norm(fixed_point(alpha, ABLE, 0.5).mean(axis=0) - wanted)
        for alpha in (1e-2, 1e-3, 1e-4)
    ]
    assert off[0] / off[1] == pytest.approx(10, rel=0.1)
    assert off[1] / off[2] == pytest.approx(10, rel=0.1)


def test_the_weighted_solution_is_where_weighted_gradients_cancel():
    x = PROBLEM.solution(weights=ABLE)
    assert (
        np.abs(
            sum(w * (A @ x - b) for w, A, b in zip(ABLE, PROBLEM.A, PROBLEM.b, strict=True))
        ).max()
        < 1e-12
    )
    assert np.linalg.norm(x - PROBLEM.solution()) > 0.3


def test_dspodfl_settles_where_gradients_weighted_by_d_cancel():
    """The long-run mean is the fixed point (five standard errors), and not the plain optimum."""
    alpha, blocks = 0.02, 20
    exp = experiment(
        GRAPH,
        DSpodFL(alpha),
        problem=PROBLEM,
        schedule=Bernoulli(nodes=ABLE, links=0.5),
        rounds=9000,
        seed=1,
    )
    means = np.array([snapshot.x.mean(dim=0).numpy() for snapshot in iterate(exp)])[1000 + 1 :]
    batches = means.reshape(blocks, -1, 2).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(blocks)
    assert (
        np.abs(batches.mean(axis=0) - fixed_point(alpha, ABLE, 0.5).mean(axis=0)) < 5 * error
    ).all()
    weighted, plain = PROBLEM.solution(weights=ABLE), PROBLEM.solution()
    assert np.linalg.norm(batches.mean(axis=0) - weighted) < 0.15 * np.linalg.norm(weighted - plain)


def test_dgd_converges_to_its_fixed_point_near_the_optimum():
    wanted, off = PROBLEM.solution(), []
    for alpha in (0.02, 0.01):
        x = final(experiment(GRAPH, DGD(alpha), problem=PROBLEM, rounds=4000)).x.numpy()
        check_close(x, fixed_point(alpha, np.ones(4), 1.0), 1e-9)
        off.append(np.linalg.norm(x - wanted))
    assert off[0] / off[1] == pytest.approx(2, rel=0.1)
    assert off[1] < 0.1


def test_a_shrinking_step_closes_the_gap_that_a_fixed_one_leaves():
    fixed = experiment(GRAPH, DGD(0.1), problem=PROBLEM, rounds=3000)
    shrinking = experiment(GRAPH, DGD(InverseSqrt(0.1, gamma=10)), problem=PROBLEM, rounds=3000)
    gap = [np.linalg.norm(final(exp).x.numpy() - PROBLEM.solution()) for exp in (fixed, shrinking)]
    assert gap[1] < gap[0] / 8


def dfedavg_fixed_point(alpha, D):
    R = np.array(metropolis(GRAPH))
    return local_steps_fixed_point(PROBLEM, R + np.diag(1 - R.sum(axis=1)), alpha, D)


@pytest.mark.parametrize("D", [1, 10])
def test_dfedavg_converges_to_its_fixed_point(D):
    x = final(experiment(GRAPH, DFedAvg(0.02, D=D), problem=PROBLEM, rounds=110 * 22)).x.numpy()
    check_close(x, dfedavg_fixed_point(0.02, D), 1e-9)


def test_dfedavg_drifts_further_from_the_optimum_with_more_local_rounds():
    off = [np.linalg.norm(dfedavg_fixed_point(0.02, D) - PROBLEM.solution()) for D in (1, 3, 10)]
    assert off[0] < off[1] < off[2]
