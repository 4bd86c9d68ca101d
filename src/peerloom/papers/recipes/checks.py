"""Claims as checks: each measures something in every seed and holds it to a limit.

A claim whose seeds lie on both sides of the limit stays undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ...sweeps.readings import Found, Reading, middle, quartiles

__all__ = ["Answer", "Check", "Part", "Relation", "Unit", "Verdict", "decide", "difference"]

Answer = Literal["holds", "does not hold", "not decided here"]
Relation = Literal["above", "below"]
Unit = Literal["points", ""]


@dataclass(frozen=True)
class Part:
    """One thing a claim comes to: a number per seed, and the limit it should keep.

    A single seed says nothing about chance: nearer to the limit than `least` it decides nothing.
    """

    where: str
    values: tuple[float, ...]
    relation: Relation
    limit: float
    least: float = 0.0

    @property
    def answer(self) -> Answer:
        """By the quartiles over seeds: both on the right side, both on the wrong one, neither."""
        if not self.values or any(math.isnan(value) for value in self.values):
            return "not decided here"
        if len(self.values) == 1 and abs(self.values[0] - self.limit) < self.least:
            return "not decided here"
        sign = 1 if self.relation == "above" else -1
        low, high = sorted(sign * (value - self.limit) for value in quartiles(self.values))
        return "holds" if low > 0 else "does not hold" if high <= 0 else "not decided here"

    @property
    def slack(self) -> float:
        """How far the median is on the right side; to find the weakest part."""
        found = middle(self.values)
        return (
            -math.inf
            if math.isnan(found)
            else (found - self.limit) * (1 if self.relation == "above" else -1)
        )


@dataclass(frozen=True)
class Verdict:
    """What came of a claim."""

    name: str
    claim: str
    answer: Answer
    measured: str
    seeds: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Check:
    """A claim of a paper that runs can decide.

    name   short, for tables
    claim  as the paper says it
    what   what is measured, and what it is held to
    parts  measures it
    unit   how numbers are written: "points" of a hundred, or as they are
    exact  whether it is about the very numbers that the paper prints, which a smaller form cannot
           decide
    """

    name: str
    claim: str
    what: str
    parts: Callable[[Found], Sequence[Part]]
    unit: Unit = ""
    exact: bool = False

    def __call__(self, found: Found, judge: bool = True) -> Verdict:
        """The verdict on these runs; without `judge` nothing is decided."""
        parts = tuple(self.parts(found))
        answer = decide(parts) if judge else "not decided here"
        return Verdict(
            self.name, self.claim, answer, self._measured(parts, found), found.seeds, parts
        )

    def _measured(self, parts: Sequence[Part], found: Found) -> str:
        known = [part for part in parts if not math.isnan(middle(part.values))]
        if not known:
            return f"{self.what}: nothing was measured"
        weakest = min(known, key=lambda part: part.slack)
        where = found.place(weakest.where)
        low, high = quartiles(weakest.values)
        spread = (
            f" (quartiles {self._text(low)} to {self._text(high)})"
            if len(weakest.values) > 1
            else ""
        )
        said = f"{self.what}: {self._text(middle(weakest.values))}{spread}"
        if len(parts) == 1:
            return said + (f", {where}" if where else "")
        good = sum(part.answer == "holds" for part in parts)
        return f"{said} at the weakest of {len(parts)}, {where}; {good} of {len(parts)} hold"

    def _text(self, value: float) -> str:
        if math.isinf(value):
            return "diverged or never"
        return f"{100 * value:+.1f} points" if self.unit == "points" else f"{value:.4g}"


def decide(parts: Sequence[Part]) -> Answer:
    """A claim fails with any of its parts, and holds when all do."""
    answers = [part.answer for part in parts]
    if "does not hold" in answers:
        return "does not hold"
    return "holds" if answers and set(answers) == {"holds"} else "not decided here"


def difference(
    found: Found, point: str, ours: str, others: Sequence[str], reading: Reading
) -> tuple[float, ...]:
    """Seed by seed, how much better ours is than the best of the others."""
    mine = found.values(point, ours, reading)
    theirs = [found.values(point, label, reading) for label in others]
    sign = 1 if reading.higher else -1
    ahead = []
    for seed, value in mine.items():
        rivals = [
            sign * values[seed]
            for values in theirs
            if seed in values and not math.isnan(values[seed])
        ]
        if not rivals or math.isnan(value):
            ahead.append(math.nan)
        elif math.isinf(value) and math.isinf(max(rivals)):
            ahead.append(math.nan)  # neither got there
        else:
            ahead.append(sign * value - max(rivals))
    return tuple(ahead)
