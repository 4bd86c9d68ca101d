"""Where the runs of a reproduction lie, and reading them back."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ...runs import Run, find_runs
from .recipe import Recipe

__all__ = ["place_of", "recorded"]


def place_of(out: Path, recipe: Recipe, point: str) -> Path:
    """The folder of a point's runs below the reproduction's."""
    name = f"{recipe.varied}-{point}" if recipe.varied else "curves"
    return out / "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)


def recorded(
    out: Path, recipe: Recipe, points: Collection[str] | None = None
) -> dict[str, list[Run]]:
    """The runs of these points, or of all, that came to their end.

    Algorithms are in the recipe's order, since others may have been begun first.
    """
    labels = [str(entry.get("label", entry["name"])) for entry in recipe.table["algorithms"]]
    rank = {label: k for k, label in enumerate(labels)}
    found = {}
    for point in (
        recipe.points if points is None else [point for point in recipe.points if point in points]
    ):
        place = place_of(out, recipe, point)
        folders = find_runs(place) if any(place.glob("*/run.json")) else []
        runs = [
            folder.read()
            for folder in folders
            if folder.info().get("status") in ("done", "diverged")
        ]
        if runs:
            found[point] = sorted(
                runs, key=lambda run: rank.get(str(run.info.get("label")), len(rank))
            )
    return found
