"""What problems say of their losses is true; what they do not say is unknown."""

import math

import numpy as np
import pytest
import torch

from peerloom.core import Draws, Placement
from peerloom.problems import (
    IID,
    L1,
    MCP,
    SCAD,
    BySize,
    Classification,
    Dataset,
    Labels,
    Natural,
    Quadratic,
)
from peerloom.problems.properties import Properties, properties_of
from peerloom.theory import estimate
from tests.builders import quadratic


def everyone(clients):
    return Placement(np.arange(clients), clients, torch.device("cpu"), torch.float64)


def owned(owners=3, samples=60, features=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, features)).astype(np.float32)
    return Dataset.of(
        x, rng.integers(0, 2, samples), owners=rng.permutation(np.arange(samples) % owners)
    )


def hessians(problem, clients, at, seed=0):
    """By differences of gradients, client by client: what the closed forms are held to."""
    local = problem.bind(everyone(clients), Draws(seed))
    x = torch.as_tensor(at).repeat(clients, 1)
    every, h = np.arange(clients), 1e-4
    columns = []
    for k in range(x.shape[1]):
        step = torch.zeros_like(x)
        step[:, k] = h
        columns.append((local.grad(x + step, every, 1) - local.grad(x - step, every, 1)) / (2 * h))
    return torch.stack(columns, dim=2).numpy()


@pytest.mark.parametrize("model", ["logistic", "softmax", "least_squares"])
@pytest.mark.parametrize("partition", [IID(), Natural()], ids=["IID", "Natural"])
def test_no_hessian_leaves_the_curvature_that_a_linear_model_states(model, partition):
    data = owned()
    problem = Classification(model, data, partition, batch="all", l2=0.05)
    known = problem.properties(3).curvature()
    for seed in range(3):
        curves = np.linalg.eigvalsh(
            hessians(problem, 3, np.random.default_rng(seed).normal(size=problem.n))
        )
        assert known.least - 1e-6 <= curves.min()
        assert curves.max() <= known.largest + 1e-6
        if known.exact:
            assert curves.min() == pytest.approx(known.least, abs=1e-6)
            assert curves.max() == pytest.approx(known.largest, rel=1e-6)
    assert known.exact == (model == "least_squares")


def test_owners_hold_their_samples_in_closed_forms_too():
    problem = Classification("least_squares", owned(), Natural(), batch="all", l2=0.1)
    A, b = problem.properties(3).quadratic()
    np.testing.assert_allclose(A, hessians(problem, 3, np.zeros(problem.n)), rtol=1e-6, atol=1e-7)
    start = problem.bind(everyone(3), Draws(0)).grad(
        torch.zeros(3, problem.n, dtype=torch.float64), np.arange(3), 1
    )
    np.testing.assert_allclose(-b, start.numpy(), rtol=1e-6, atol=1e-7)
    assert estimate(problem, 3).smoothness.how == "exact"


def test_a_closed_form_follows_the_seed_that_deals_the_data():
    problem = Classification("least_squares", owned(), IID(), batch="all")
    for seed in (0, 7):
        A, _ = problem.properties(3, seed).quadratic()
        np.testing.assert_allclose(
            A, hessians(problem, 3, np.zeros(problem.n), seed), rtol=1e-6, atol=1e-7
        )


def test_deeper_models_and_kinks_do_not_pretend():
    deep = Classification("mlp", owned()).properties(3)
    assert deep.quadratic is None
    assert deep.curvature is None
    kinked = Classification("svm", owned()).properties(3).curvature()
    assert (kinked.least, kinked.largest) == (0.0, math.inf)


@pytest.mark.parametrize(
    ("partition", "iid"), [(IID(), True), (Labels(1), False), (BySize((1, 2, 3)), False)]
)
def test_only_data_dealt_by_chance_in_equal_parts_are_iid(partition, iid):
    assert Classification("softmax", owned(), partition).properties(3).iid is iid


def test_batches_and_noise():
    sampled, full = (
        Classification("softmax", owned(), batch=batch).properties(3) for batch in (4, "all")
    )
    assert (sampled.full_batch, full.full_batch) == (False, True)
    assert sampled.whole.batch == "all"
    assert sampled.noise is None
    assert quadratic(4, noise=0.5).properties(4).noise == 0.5


def test_quadratics_know_their_minimiser_unless_something_is_added():
    problem = quadratic(4)
    np.testing.assert_array_equal(problem.properties(4).minimiser(), problem.solution())
    assert Quadratic([[[1.0]]], [[1.0]], h=L1(0.1)).properties(1).minimiser is None


@pytest.mark.parametrize(
    ("h", "rho"), [(None, 0.0), (L1(1.0), 0.0), (MCP(1.0, 4.0), 0.25), (SCAD(1.0, 5.0), 0.25)]
)
def test_weak_convexity_makes_regularisers_convex_and_no_more(h, rho):
    assert Quadratic([[[1.0]]], [[1.0]], h=h).properties(1).weak_convexity == rho
    if h is None:
        return
    x = torch.linspace(-8, 8, 4001, dtype=torch.float64)[:, None]

    def bends(by):
        value = h.value(x) + by / 2 * x[:, 0].square()
        return float((value[2:] - 2 * value[1:-1] + value[:-2]).min())

    assert bends(rho) > -1e-10
    if rho:
        assert bends(0.9 * rho) < -1e-8


def test_a_problem_that_does_not_answer_is_unknown():
    class Silent:
        n = 2

    assert properties_of(Silent(), 3).__dict__ == Properties().__dict__
