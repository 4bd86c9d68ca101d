"""The common setting of PaME's experiments: example 1, and the parameters of table II."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...sweeps.readings import Reading
from .checks import Check
from .recipe import Recipe

__all__ = [
    "CHOSEN",
    "EXAMPLE1",
    "NODES",
    "OBJECTIVE",
    "ROUNDS",
    "Table",
    "alone",
    "nodes",
    "pairs",
    "pame",
    "regression",
]

Table = dict[str, Any]

OBJECTIVE, ROUNDS = Reading("average_loss"), Reading("round")
NODES = (32, 64, 128)
_EACH = 400  # samples of a client in example 1
CHOSEN = (
    "Where the paper is silent: 200 features, 400 samples per node, full gradients, random "
    "regular graphs of degree m/2. The objective is the mean over nodes, the paper's the sum."
)
_ENDS = "At most 1000 iterations; the stopping rule is the paper's, of the sum."
_TINY = ("rounds=20", "problem.data.samples=640", "problem.data.features=20")


def pame(
    fraction: float,
    share: float,
    kappa: int,
    upto: int | None,
    sigma: float,
    growth: float,
    label: str = "",
) -> Table:
    """PaME with these parameters of table II."""
    schedule: Table = {"name": "Sampled", "kappa": kappa, "fraction": fraction} | (
        {"upto": upto} if upto else {}
    )
    message = {"name": "Coordinates", "fraction": share}
    rule: Table = {
        "name": "PaME",
        "sigma": sigma,
        "growth": growth,
        "schedule": schedule,
        "message": message,
    }
    return rule | ({"label": label} if label else {})


def regression(algorithms: list[Table]) -> Table:
    """Example 1, to be run by these."""
    data = {
        "name": "linear_regression",
        "samples": 32 * _EACH,
        "features": 200,
        "noise": 0.5,
        "nonzero": 0.01,
    }
    return {
        "rounds": 1000,
        "until_settled": 0.001,
        "seeds": [1, 2, 3],
        "graph": {"name": "regular", "clients": 32, "degree": 16},
        "problem": {
            "name": "Classification",
            "model": {"name": "least_squares", "bias": False, "zero": True},
            "data": data,
            "batch": "all",
        },
        "evaluate": {"every": 1},
        "algorithms": algorithms,
    }


def nodes(m: int, each: int = _EACH) -> list[str]:
    """The settings of so many nodes with so many samples each."""
    return [f"graph.clients={m}", f"graph.degree={m // 2}", f"problem.data.samples={m * each}"]


EXAMPLE1 = pame(0.2, 0.2, 3, 7, 1.0, 1.005)


def alone(
    title: str,
    checks: Sequence[Check],
    varied: str,
    points: dict[str, list[str]],
    algorithms: list[Table] | None = None,
) -> Recipe:
    """A recipe of example 1 that PaME runs alone."""
    table, shows = regression(algorithms or [EXAMPLE1]), (OBJECTIVE, ROUNDS)
    return Recipe(
        title, tuple(checks), table, shows, varied, points, chosen=f"{CHOSEN} {_ENDS}", tiny=_TINY
    )


def pairs(first: str, second: str) -> list[tuple[str, str]]:
    """Two values of what is varied, as points with each number of nodes."""
    return [(f"{first}, m {m}", f"{second}, m {m}") for m in NODES]
