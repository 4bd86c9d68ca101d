"""PaME's figures 2 to 7, PaME alone on example 1.

Figures 3 to 6 are the curves of 2a to 2d and share their recipes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ...sweeps.readings import Found, Reading
from .checks import Check, Part
from .claims import across, order, printed
from .recipe import Recipe

__all__ = ["EXAMPLE1", "NODES", "PAME", "PAME_ALIASES", "nodes", "pame", "regression"]

Table = dict[str, Any]

_OBJECTIVE, _ROUNDS, _SECONDS = Reading("average_loss"), Reading("round"), Reading("seconds")
NODES = (32, 64, 128)
_EACH = 400  # samples of a client in example 1
_PERIODS = (1, 2, 4, 8, 16)
_CHOSEN1 = (
    "Where the paper is silent: 200 features, 400 samples per node, full gradients, random "
    "regular graphs of degree m/2; at most 1000 iterations. The objective is the mean over nodes, "
    "the paper's the sum; the stopping rule is the paper's, of the sum."
)


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


_TINY1 = ("rounds=20", "problem.data.samples=640", "problem.data.features=20")
EXAMPLE1 = pame(0.2, 0.2, 3, 7, 1.0, 1.005)


def _grid(values: Sequence[float], setting: str) -> dict[str, list[str]]:
    return {
        f"{v:g}, m {m}": [*nodes(m), f"algorithms.PaME.{setting}={v:g}"]
        for m in NODES
        for v in values
    }


def _own(
    title: str,
    checks: Sequence[Check],
    varied: str,
    points: dict[str, list[str]],
    algorithms: list[Table] | None = None,
) -> Recipe:
    """Example 1, PaME alone."""
    table, shows = regression(algorithms or [EXAMPLE1]), (_OBJECTIVE, _ROUNDS)
    return Recipe(title, tuple(checks), table, shows, varied, points, chosen=_CHOSEN1, tiny=_TINY1)


def _pairs(first: str, second: str) -> list[tuple[str, str]]:
    return [(f"{first}, m {m}", f"{second}, m {m}") for m in NODES]


def _diminishing(found: Found) -> list[Part]:
    """Iterations saved from 0.1 to 0.2, less those saved from 0.2 to 0.3.

    Where none are saved at first, those lost.
    """
    made = []
    for m in NODES:
        a, b, c = (found.values(f"{v}, m {m}", "PaME", _ROUNDS) for v in ("0.1", "0.2", "0.3"))
        seeds = [seed for seed in a if seed in b and seed in c]
        if seeds:
            saved = tuple(min(a[s] - b[s], (a[s] - b[s]) - (b[s] - c[s])) for s in seeds)
            made.append(Part(f"m {m}", saved, "above", 0.0))
    return made


def _less_at_large_m(found: Found) -> list[Part]:
    """How much longer the longest period takes than the shortest.

    With few nodes, over with many.
    """
    few, many = NODES[0], NODES[-1]
    ends = [
        found.values(f"{k}, m {m}", "PaME", _ROUNDS)
        for m in (few, many)
        for k in (_PERIODS[-1], _PERIODS[0])
    ]
    seeds = [seed for seed in ends[0] if all(seed in some for some in ends)]
    ratios = tuple(ends[0][s] / ends[1][s] / (ends[2][s] / ends[3][s]) for s in seeds)
    return [Part(f"m {few} over m {many}", ratios, "above", 1.0)] if seeds else []


def _insensitive(within: float, label: str = "PaME") -> Check:
    """The final objectives of points with equally many nodes lie within a share of the least."""

    def parts(found: Found) -> list[Part]:
        made = []
        for m in NODES:
            some = [
                found.values(point, label, _OBJECTIVE)
                for point in found.points
                if point.endswith(f"m {m}")
            ]
            if some:
                seeds = [seed for seed in some[0] if all(seed in values for values in some)]
                spans = [max(v[s] for v in some) / min(v[s] for v in some) - 1 for s in seeds]
                made.append(Part(f"m {m}", tuple(spans), "below", within))
        return made

    return Check(
        "insensitive",
        "The period hardly matters to the final objective",
        f"largest over least, less 1, below {within:g}",
        parts,
    )


def _unequal() -> Recipe:
    """Figure 2d: equal and unequal periods of one median side by side."""
    points = {
        f"{k}, m {m}": [
            *nodes(m),
            f"algorithms.equal.schedule.kappa={k}",
            f"algorithms.unequal.schedule.kappa={max(1, k // 2)}",
            f"algorithms.unequal.schedule.upto={k + k // 2}",
        ]
        for m in NODES
        for k in _PERIODS
    }
    # 1 has no neighbours below
    points = {name: settings for name, settings in points.items() if not name.startswith("1,")}
    checks = [
        _insensitive(0.1, "unequal"),
        order(["equal", "unequal"], _ROUNDS, "Unequal periods are slightly slower", name="slower"),
    ]
    rules = [
        pame(0.2, 0.2, 1, None, 1.0, 1.005, "equal"),
        pame(0.2, 0.2, 1, 2, 1.0, 1.005, "unequal"),
    ]
    own = _own("Unequal communication periods", checks, "median period", points, rules)
    spread = (
        "Periods are from half of the median to one and a half; a median of 1, which has none "
        "below, is left out."
    )
    return replace(own, chosen=f"{own.chosen} {spread}")


_SHARES, _DEGREES = (0.1, 0.2, 0.4, 0.6), (6, 12, 26, 38, 63)


def _connectivity() -> Recipe:
    """Figure 7: a table of transmission rate and degree."""
    points = {
        f"{share:g}, degree {degree}": [
            *nodes(64),
            f"graph.degree={degree}",
            f"algorithms.PaME.message.fraction={share:g}",
            "algorithms.PaME.schedule.fraction=0.4",
        ]
        for share in _SHARES
        for degree in _DEGREES
    }
    far = "0.6, degree 63"
    dense = [
        (point, far)
        for point in points
        if not point.startswith("0.1") and not point.endswith("degree 6") and point != far
    ]
    iterations = {
        (point, "PaME", _ROUNDS): 200.0 for point in [*(point for point, _ in dense), far]
    }
    checks = [
        across(
            "PaME",
            _OBJECTIVE,
            dense,
            "below",
            1.05,
            "The objective saturates but for sparse graphs and small s",
            name="saturates",
        ),
        printed(
            iterations,
            1.0,
            "About 200 iterations, to a factor of two",
            ratio=True,
            name="iterations",
        ),
    ]
    own = _own("Transmission rate and degree, m 64", checks, "rate and degree", points)
    return replace(own, shows=(_OBJECTIVE, _ROUNDS, _SECONDS), kind="map")


PAME: dict[str, Recipe] = {
    "fig2a": _own(
        "Transmission rate",
        [
            across(
                "PaME",
                _OBJECTIVE,
                _pairs("0.1", "0.6"),
                "below",
                1.05,
                "A rate of 0.1 already comes near",
                name="0.1 is near",
            ),
            across(
                "PaME",
                _OBJECTIVE,
                _pairs("0.2", "0.6"),
                "below",
                1.02,
                "Little is gained beyond 0.2",
                name="0.2 is enough",
            ),
        ],
        "rate",
        _grid((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), "message.fraction"),
    ),
    "fig2b": _own(
        "Participation rate",
        [
            across(
                "PaME",
                _ROUNDS,
                _pairs("0.1", "0.2"),
                "above",
                1.0,
                "0.2 is faster than 0.1",
                name="faster",
            ),
            Check(
                "diminishing",
                "A big gain from 0.1 to 0.2, then less",
                "iterations saved to 0.2, less those to 0.3",
                _diminishing,
            ),
        ],
        "participation",
        _grid((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), "schedule.fraction"),
    ),
    "fig2c": _own(
        "Equal communication periods",
        [
            _insensitive(0.05),
            *(
                across(
                    "PaME",
                    _ROUNDS,
                    _pairs(str(b), str(a)),
                    "above",
                    1.0,
                    f"Short periods are faster: {a} than {b}",
                    name=f"{a} faster than {b}",
                )
                for a, b in pairwise(_PERIODS)
            ),
            Check(
                "less at large m",
                "With more nodes short periods help less",
                "rounds with the longest period over the shortest, of few nodes over that of "
                "many, above 1",
                _less_at_large_m,
            ),
        ],
        "period",
        {
            f"{k}, m {m}": [*nodes(m), f"algorithms.PaME.schedule.kappa={k}"]
            for m in NODES
            for k in _PERIODS
        },
        [pame(0.2, 0.2, 1, None, 1.0, 1.005)],
    ),
    "fig2d": _unequal(),
    "fig7": _connectivity(),
}
PAME_ALIASES = {"fig3": "fig2a", "fig4": "fig2b", "fig5": "fig2c", "fig6": "fig2d", "fig10": "fig9"}
