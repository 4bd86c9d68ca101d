"""PaME's figures 2 to 7, PaME alone on example 1.

Figures 3 to 6 are the curves of 2a to 2d and share their recipes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...sweeps.readings import Found, Reading
from .checks import Check, Part
from .claims import across, printed
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
        ),
        printed(
            iterations,
            1.0,
            "About 200 iterations, to a factor of two",
            ratio=True,
            name="iterations",
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
                "A rate of 0.1 already comes near",
                name="0.1 is near",
            ),
            across(
                "PaME",
                OBJECTIVE,
                pairs("0.2", "0.6"),
                "below",
                1.02,
                "Little is gained beyond 0.2",
                name="0.2 is enough",
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
    "fig2c": equal_periods(),
    "fig2d": unequal_periods(),
    "fig7": _connectivity(),
}
PAME_ALIASES = {"fig3": "fig2a", "fig4": "fig2b", "fig5": "fig2c", "fig6": "fig2d", "fig10": "fig9"}
