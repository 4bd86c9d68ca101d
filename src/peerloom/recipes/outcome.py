"""What a reproduction came to: figures point by point, and whether the claim is seen in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..reports import summary
from ..reports.targets import Spread
from ..runs import Run
from .recipe import Recipe

__all__ = ["Outcome", "outcome"]


_NOT_JUDGED = "This was the tiny version, which shows that all works and nothing about the claim."


@dataclass(frozen=True)
class Outcome:
    """Accuracy over seeds (or loss, where there is none) of every algorithm at every point, and who is best there."""

    quality: str
    points: dict[str, dict[str, Spread]]
    best: dict[str, str]
    verdict: str


def outcome(recipe: Recipe, runs: Mapping[str, list[Run]], judge: bool = True) -> Outcome:
    """Sweeps are judged by the last evaluation, as the paper does; curves at the delay that all runs reached."""
    points: dict[str, dict[str, Spread]] = {}
    quality, higher, seeds = "accuracy", True, 0
    for name, of_point in runs.items():
        found = summary(of_point)
        quality, higher = found.quality, found.quality == "accuracy"
        seeds = max(len(entry.seeds) for entry in found.final)
        if recipe.varied:
            points[name] = {entry.label: entry.figures[f"mean_{quality}"] for entry in found.final}
        else:
            points[name] = {entry.label: entry.value for entry in found.at_equal_delay}
    best = {name: _best(figures, higher) for name, figures in points.items()}
    return Outcome(quality, points, best, _verdict(recipe, best, seeds) if judge else _NOT_JUDGED)


def _best(figures: dict[str, Spread], higher: bool) -> str:
    known = {label: spread.median for label, spread in figures.items() if spread.median is not None}
    if not known:
        return ""
    return max(known, key=lambda label: known[label] if higher else -known[label])


def _verdict(recipe: Recipe, best: Mapping[str, str], seeds: int) -> str:
    others = {name: winner or "nobody" for name, winner in best.items() if winner != recipe.ours}
    over = f"in the median of {seeds} seeds" if seeds > 1 else "with one seed"
    if not recipe.varied:
        seen = "is not seen" if others else "is seen"
        return f"The claim {seen}: {next(iter(others.values()), recipe.ours)} is the best {over}."
    if not others:
        return f"The claim is seen: {recipe.ours} is the best at all {len(best)} values of {recipe.varied}, {over}."
    wins, listed = len(best) - len(others), ", ".join(f"{name} ({winner})" for name, winner in others.items())
    return f"The claim is seen at {wins} of {len(best)} values of {recipe.varied}, {over}; not at {listed}."
