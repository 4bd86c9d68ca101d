"""PaME's figures 2 to 7, PaME alone on example 1.

Figures 3 to 6 are the curves of 2a to 2d and share their recipes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...sweeps.readings import Found, Reading
from . import pame_words as words
from .checks import Check, Part
from .claims import across, by_seed, printed
from .pame_excess import excess
from .pame_periods import equal_periods, unequal_periods
from .pame_settings import NODES, OBJECTIVE, ROUNDS, alone, nodes, pairs
from .recipe import Recipe

__all__ = ["PAME", "PAME_ALIASES"]

_SECONDS = Reading("seconds")


def _grid(values: Sequence[float], setting: str) -> dict[str, list[str]]:
    return {
        f"{v:g}, m {m}": [*nodes(m), f"algorithms.PaME.{setting}={v:g}"]
        for m in NODES
        for v in values
    }


def _diminishing(found: Found) -> list[Part]:
    """Iterations saved from 0.1 to 0.2, less those saved from 0.2 to 0.3.

    Never more than those saved from 0.1 to 0.2: if that step saves none, the claim fails.
    """
    made = []
    for m in NODES:
        a, b, c = (found.values(f"{v}, m {m}", "PaME", ROUNDS) for v in ("0.1", "0.2", "0.3"))
        seeds = [seed for seed in a if seed in b and seed in c]
        if seeds:
            saved = tuple(min(a[s] - b[s], (a[s] - b[s]) - (b[s] - c[s])) for s in seeds)
            made.append(Part(f"m {m}", saved, "above", 0.0))
    return made


def _more_nodes(found: Found) -> list[Part]:
    """How far the final objective lies above the least, of fewer nodes over more, at rate 0.1.

    Above the least: that itself grows with m, since more samples share 200 features.
    """
    ends = {m: excess(found, f"0.1, m {m}", "PaME", "end") for m in NODES}
    return [
        Part(
            f"m {few} over m {many}",
            by_seed(lambda both: both[0] / both[1], [ends[few], ends[many]]),
            "above",
            1.0,
        )
        for few, many in pairwise(NODES)
    ]


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
    iterations = {(point, "PaME", ROUNDS): 200.0 for point in [*(point for point, _ in dense), far]}
    checks = [
        across(
            "PaME",
            OBJECTIVE,
            dense,
            "below",
            1.05,
            "The objective saturates but for sparse graphs and small s",
            name="saturates",
            **words.SATURATES,
        ),
        printed(
            iterations,
            1.0,
            "About 200 iterations, to a factor of two",
            ratio=True,
            name="iterations",
            **words.CONSISTENT,
        ),
    ]
    own = alone("Transmission rate and degree, m 64", checks, "rate and degree", points)
    return replace(own, shows=(OBJECTIVE, ROUNDS, _SECONDS), kind="map")


PAME: dict[str, Recipe] = {
    "fig2a": alone(
        "Transmission rate",
        [
            across(
                "PaME",
                OBJECTIVE,
                pairs("0.1", "0.6"),
                "below",
                1.05,
                "A rate of 0.1 already comes near to the highest, 0.6",
                name="0.1 is near",
                **words.ALREADY_NEAR,
            ),
            across(
                "PaME",
                OBJECTIVE,
                pairs("0.2", "0.6"),
                "below",
                1.02,
                "Little is gained beyond 0.2",
                name="0.2 is enough",
                **words.NEGLIGIBLE,
            ),
            across(
                "PaME",
                ROUNDS,
                pairs("0.1", "0.6"),
                "above",
                1.0,
                "A higher rate is faster: 0.6 than 0.1",
                name="faster",
                **words.RATE_HELPS,
            ),
            Check(
                "more nodes",
                "At the lowest rate more nodes end nearer to the least objective",
                "excess of the final objective at a rate of 0.1, of fewer nodes over more, above 1",
                _more_nodes,
                **words.MORE_NODES,
            ),
        ],
        "rate",
        _grid((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), "message.fraction"),
    ),
    "fig2b": alone(
        "Participation rate",
        [
            across(
                "PaME",
                ROUNDS,
                pairs("0.1", "0.2"),
                "above",
                1.0,
                "0.2 is faster than 0.1",
                name="faster",
                **words.PARTICIPATION,
            ),
            Check(
                "diminishing",
                "A big gain from 0.1 to 0.2, then less",
                "iterations saved to 0.2, less those to 0.3",
                _diminishing,
                **words.MARGINAL,
            ),
        ],
        "participation",
        _grid((0.1, 0.2, 0.3, 0.4, 0.5, 0.6), "schedule.fraction"),
    ),
    "fig2c": equal_periods(),
    "fig2d": unequal_periods(),
    "fig7": _connectivity(),
}
PAME_ALIASES = {"fig3": "fig2a", "fig4": "fig2b", "fig5": "fig2c", "fig6": "fig2d", "fig10": "fig9"}
