"""Proximal steps against brute force: the point they give is the best of all (section 1.4)."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from peerloom.core import ConfigError, Draws, Placement
from peerloom.problems import L1, L2, MCP, SCAD, Box, Quadratic, Zero


def mcp(t, lam, theta):
    return lam * abs(t) - t * t / (2 * theta) if abs(t) <= theta * lam else theta * lam * lam / 2


def scad(t, lam, theta):
    if abs(t) <= lam:
        return lam * abs(t)
    if abs(t) <= theta * lam:
        return (-t * t + 2 * theta * lam * abs(t) - lam * lam) / (2 * (theta - 1))
    return (theta + 1) * lam * lam / 2


def box(t, lo, hi):
    return 0.0 if lo <= t <= hi else math.inf


# Each regulariser, its penalty as the paper writes it, and the steps that are allowed.
CASES = {
    "zero": (Zero(), lambda t: 0.0, 5.0),
    "l1": (L1(0.7), lambda t: 0.7 * abs(t), 5.0),
    "l1 off": (L1(0.0), lambda t: 0.0, 5.0),
    "l2": (L2(0.7), lambda t: 0.35 * t * t, 5.0),
    "mcp": (MCP(0.7, 3.0), lambda t: mcp(t, 0.7, 3.0), 2.9),
    "mcp, sharp": (MCP(1.5, 0.8), lambda t: mcp(t, 1.5, 0.8), 0.79),
    "scad": (SCAD(0.7, 3.7), lambda t: scad(t, 0.7, 3.7), 2.6),
    "scad, sharp": (SCAD(1.2, 2.1), lambda t: scad(t, 1.2, 2.1), 1.05),
    "box": (Box(-0.5, 1.5), lambda t: box(t, -0.5, 1.5), 5.0),
}
every = pytest.mark.parametrize("name", CASES)


def prox(h, z, step):
    return float(h.prox(torch.tensor([[z]], dtype=torch.float64), step)[0, 0])


@every
@given(z=st.floats(-6, 6), share=st.floats(0.01, 1))
def test_no_point_of_a_grid_is_better_than_the_proximal_one(name, z, share):
    h, penalty, largest = CASES[name]
    step = share * largest
    cost = lambda t: penalty(t) + (t - z) ** 2 / (2 * step)  # noqa: E731
    found = prox(h, z, step)
    grid = np.linspace(-6.5, 6.5, 2601)
    costs = [cost(t) for t in grid]
    assert cost(found) <= min(costs) + 1e-12
    curvature = 1 / step - {
        "mcp": 1 / 3,
        "mcp, sharp": 1 / 0.8,
        "scad": 1 / 2.7,
        "scad, sharp": 1 / 1.1,
    }.get(name, 0.0)
    apart = abs(grid[int(np.argmin(costs))] - found)
    # The cost is strongly convex, so the point is unique.
    assert curvature / 2 * apart**2 <= min(costs) - cost(found) + 1e-9


@every
def test_values_are_the_penalty_summed_over_coordinates(name):
    h, penalty, _ = CASES[name]
    x = torch.from_numpy(np.random.default_rng(0).uniform(-5, 5, (40, 3)))
    x[:20] *= 0.2
    wanted = [sum(penalty(t) for t in row) for row in x.tolist()]
    assert h.value(x).tolist() == pytest.approx(wanted, rel=1e-12, abs=1e-12)


JOINTS = {
    "l1": lambda a: [0.7 * a],
    "mcp": lambda a: [a * 0.7, 3.0 * 0.7],
    "mcp, sharp": lambda a: [a * 1.5, 0.8 * 1.5],
    "scad": lambda a: [a * 0.7, (1 + a) * 0.7, 3.7 * 0.7],
    "scad, sharp": lambda a: [a * 1.2, (1 + a) * 1.2, 2.1 * 1.2],
    "box": lambda a: [0.5, 1.5],
}


@pytest.mark.parametrize("name", JOINTS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_pieces_of_a_proximal_step_meet_without_a_jump(name, share):
    h, _, largest = CASES[name]
    step, tiny = share * largest, 1e-9
    for joint in JOINTS[name](step):
        for sign in (-1, 1):
            gap = prox(h, sign * (joint + tiny), step) - prox(h, sign * (joint - tiny), step)
            assert abs(gap) <= 100 * tiny


@pytest.mark.parametrize("h", [MCP(1.0, 2.0), SCAD(1.0, 3.0)])
@pytest.mark.parametrize("step", [2.0, 2.5])
def test_a_step_without_a_unique_answer_is_refused(h, step):
    with pytest.raises(ConfigError, match=f"{type(h).__name__}: the step {step:g} must be below"):
        h.prox(torch.zeros(1, 1), step)


@pytest.mark.parametrize(
    "make",
    [
        lambda: L1(-1.0),
        lambda: L2(-1.0),
        lambda: MCP(-1.0, 1.0),
        lambda: MCP(1.0, 0.0),
        lambda: SCAD(-1.0),
        lambda: SCAD(1.0, 2.0),
        lambda: Box(1.0, 0.0),
    ],
)
def test_impossible_regularisers_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def test_a_quadratic_uses_its_regulariser():
    A, b = np.array([[[2.0]], [[4.0]]]), np.array([[1.0], [3.0]])
    place = Placement(np.arange(2), 2, torch.device("cpu"), torch.float64)
    local = Quadratic(A, b, h=L1(0.5)).bind(place, Draws(0))
    x = torch.tensor([[2.0], [-1.0]], dtype=torch.float64)
    assert local.evaluate(x).loss.tolist() == pytest.approx([1.5 * 4 - 2 * 2 + 1.0, 1.5 + 2 + 0.5])
    assert local.prox(x, 1.0).tolist() == [[1.5], [-0.5]]
