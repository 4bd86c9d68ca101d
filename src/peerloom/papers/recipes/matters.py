"""Which points a figure's undecided claims are about: those at which more seeds help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...runs import Run
from .checks import Check
from .recipe import Form, Recipe

__all__ = ["points_that_matter"]


def points_that_matter(recipe: Recipe, form: Form, runs: Mapping[str, Sequence[Run]]) -> list[str]:
    """The points without which what is open of a claim would not be the same.

    Parts that hold need no more seeds, and those that measure nothing would gain nothing.
    """
    checks = [check for check in recipe.checks if not (form.fit and check.exact)]
    undecided = {k: some for k, check in enumerate(checks) if (some := _open(check, recipe, runs))}
    return [
        point
        for point in runs
        if any(
            not parts <= _parts(checks[k], recipe, {p: r for p, r in runs.items() if p != point})
            for k, parts in undecided.items()
        )
    ]


def _open(check: Check, recipe: Recipe, runs: Mapping[str, Sequence[Run]]) -> set[str]:
    """The parts that keep a claim from being decided; none where it is."""
    parts = check.parts(recipe.found(runs))
    if check.decide(parts) != "not decided here":
        return set()
    return {repr(part) for part in parts if part.values and part.answer != "holds"}


def _parts(check: Check, recipe: Recipe, runs: Mapping[str, Sequence[Run]]) -> set[str]:
    return {repr(part) for part in check.parts(recipe.found(runs))}
