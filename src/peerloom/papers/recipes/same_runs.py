"""Points of different figures that are the same runs: what they show is seen once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...config import table_hash

__all__ = ["distinct", "fingerprint", "shared"]


def fingerprint(table: Mapping[str, Any]) -> str:
    """A point's experiment, whatever it is called and however many seeds it has."""
    rest = {key: value for key, value in table.items() if key not in ("title", "seeds")}
    return table_hash(rest)[:16]


def distinct(found: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """How many points were run in these outcomes, and how many of them are not one another."""
    every = [mark for one in found for mark in one["ran"].values()]
    return len(every), len(set(every))


def shared(found: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """The points that are the same runs: for each that occurs in several figures, where.

    Of one figure in several forms each is another experiment.
    """
    places: dict[str, list[str]] = {}
    for one in found:
        for point, mark in one["ran"].items():
            at = f" at {one['varied']} {point}" if point else ""
            places.setdefault(mark, []).append(f"{one['figure']}{at}")
    return [some for some in places.values() if len(some) > 1]
