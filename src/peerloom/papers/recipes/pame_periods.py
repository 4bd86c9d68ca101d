"""PaME's figures 2c and 2d: equal and unequal communication periods."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ...sweeps.readings import Found
from .checks import Check, Part
from .claims import across, order
from .pame_settings import NODES, OBJECTIVE, ROUNDS, alone, nodes, pairs, pame
from .recipe import Recipe

__all__ = ["equal_periods", "unequal_periods"]

_PERIODS = (1, 2, 4, 8, 16)


def equal_periods() -> Recipe:
    """Figure 2c: one period for all nodes."""
    return alone(
        "Equal communication periods",
        [
            _insensitive(0.05),
            *(
                across(
                    "PaME",
                    ROUNDS,
                    pairs(str(b), str(a)),
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
    )


def unequal_periods() -> Recipe:
    """Figure 2d: equal and unequal periods of one median, side by side."""
    points = {
        f"{k}, m {m}": [
            *nodes(m),
            f"algorithms.equal.schedule.kappa={k}",
            f"algorithms.unequal.schedule.kappa={max(1, k // 2)}",
            f"algorithms.unequal.schedule.upto={k + k // 2}",
        ]
        for m in NODES
        for k in _PERIODS[1:]  # nothing lies below a median of 1
    }
    checks = [
        _insensitive(0.1, "unequal"),
        order(["equal", "unequal"], ROUNDS, "Unequal periods are slightly slower", name="slower"),
    ]
    rules = [
        pame(0.2, 0.2, 1, None, 1.0, 1.005, "equal"),
        pame(0.2, 0.2, 1, 2, 1.0, 1.005, "unequal"),
    ]
    own = alone("Unequal communication periods", checks, "median period", points, rules)
    spread = (
        "Periods are from half of the median to one and a half; a median of 1, which has none "
        "below, is left out."
    )
    return replace(own, chosen=f"{own.chosen} {spread}")


def _insensitive(within: float, label: str = "PaME") -> Check:
    """The final objectives of points with equally many nodes lie within a share of the least."""

    def parts(found: Found) -> list[Part]:
        made = []
        for m in NODES:
            some = [
                found.values(point, label, OBJECTIVE)
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


def _less_at_large_m(found: Found) -> list[Part]:
    """Rounds with the longest period over the shortest: this ratio, of few nodes over many."""
    few, many = NODES[0], NODES[-1]
    ends = [
        found.values(f"{k}, m {m}", "PaME", ROUNDS)
        for m in (few, many)
        for k in (_PERIODS[-1], _PERIODS[0])
    ]
    seeds = [seed for seed in ends[0] if all(seed in some for some in ends)]
    ratios = tuple(ends[0][s] / ends[1][s] / (ends[2][s] / ends[3][s]) for s in seeds)
    return [Part(f"m {few} over m {many}", ratios, "above", 1.0)] if seeds else []
