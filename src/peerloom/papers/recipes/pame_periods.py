"""PaME's figures 2c and 2d: equal and unequal communication periods."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ...sweeps.readings import Found, Reading
from . import pame_words as words
from .checks import Check, Part
from .claims import by_seed
from .pame_excess import excess
from .pame_settings import CHOSEN, NODES, OBJECTIVE, alone, nodes, pame
from .recipe import Recipe

__all__ = ["equal_periods", "unequal_periods"]

_PERIODS = (1, 2, 4, 8, 16)
_ROUNDS = 300
_BY_CURVES = (
    f"Runs have {_ROUNDS} iterations, and are compared by their curves: by the objective less the "
    "least one, in the mean over the iterations, judged in every third. The paper's rule, which "
    "looks at three objectives in a row, would end runs with long periods between two "
    "communications, where models have not agreed."
)
_ALONG = Reading("average_loss", "along")


def equal_periods() -> Recipe:
    """Figure 2c: one period for all nodes."""
    checks = [
        _insensitive(0.05),
        *(
            Check(
                f"{a} faster than {b}",
                f"Short periods are faster: {a} than {b}",
                "mean excess of the objective over the iterations, of the longer over the shorter",
                lambda found, a=a, b=b: [  # type: ignore[misc]
                    _ratio(found, f"m {m}", (f"{b}, m {m}", "PaME"), (f"{a}, m {m}", "PaME"))
                    for m in NODES
                ],
                **words.SHORTER,
            )
            for a, b in pairwise(_PERIODS)
        ),
        Check(
            "less at large m",
            "With more nodes short periods help less",
            "mean excess of the objective with the longest period over that with the shortest; "
            "this ratio, of few nodes over that of many, above 1",
            _less_at_large_m,
            **words.LESS_AT_LARGE_M,
        ),
    ]
    points = {
        f"{k}, m {m}": [*nodes(m), f"algorithms.PaME.schedule.kappa={k}"]
        for m in NODES
        for k in _PERIODS
    }
    rules = [pame(0.2, 0.2, 1, None, 1.0, 1.005)]
    return _by_curves(alone("Equal communication periods", checks, "period", points, rules))


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
        Check(
            "slower",
            "Unequal periods are slightly slower",
            "mean excess of the objective over the iterations, of unequal over equal periods",
            lambda found: [
                _ratio(found, point, (point, "unequal"), (point, "equal"))
                for point in found.planned
            ],
            **words.SLOWER,
        ),
    ]
    rules = [
        pame(0.2, 0.2, 1, None, 1.0, 1.005, "equal"),
        pame(0.2, 0.2, 1, 2, 1.0, 1.005, "unequal"),
    ]
    spread = (
        "Periods are from half of the median to one and a half; a median of 1, which has none "
        "below, is left out."
    )
    own = alone("Unequal communication periods", checks, "median period", points, rules)
    return _by_curves(own, spread)


def _by_curves(recipe: Recipe, more: str = "") -> Recipe:
    """Without the rule that ends runs; three shares no factor with the periods, which are 2^k."""
    table = {key: value for key, value in recipe.table.items() if key != "until_settled"}
    table |= {"rounds": _ROUNDS, "evaluate": {"every": 3}}
    chosen = " ".join(filter(None, [CHOSEN, _BY_CURVES, more]))
    return replace(recipe, table=table, shows=(OBJECTIVE, _ALONG), chosen=chosen)


def _ratio(found: Found, where: str, first: tuple[str, str], second: tuple[str, str]) -> Part:
    """The mean excess of one, a point and a label, over that of another: above 1."""
    both = [excess(found, *each, "along") for each in (first, second)]
    return Part(where, by_seed(lambda two: two[0] / two[1], both), "above", 1.0)


def _insensitive(within: float, label: str = "PaME") -> Check:
    """The final objectives of points with equally many nodes lie within a share of the least."""

    def parts(found: Found) -> list[Part]:
        made = []
        for m in NODES:
            some = [
                found.values(point, label, OBJECTIVE)
                for point in found.planned
                if point.endswith(f"m {m}")
            ]
            if some:
                spans = by_seed(lambda each: max(each) / min(each) - 1, some)
                made.append(Part(f"m {m}", spans, "below", within))
        return made

    return Check(
        "insensitive",
        "The period hardly matters to the final objective",
        f"largest over least, less 1, below {within:g}",
        parts,
        **words.MINIMAL,
    )


def _less_at_large_m(found: Found) -> list[Part]:
    """Mean excess with the longest period over the shortest: this ratio, of few nodes over many."""
    few, many = NODES[0], NODES[-1]
    ends = [
        excess(found, f"{k}, m {m}", "PaME", "along")
        for m in (few, many)
        for k in (_PERIODS[-1], _PERIODS[0])
    ]
    ratios = by_seed(lambda some: some[0] / some[1] / (some[2] / some[3]), ends)
    return [Part(f"m {few} over m {many}", ratios, "above", 1.0)]
