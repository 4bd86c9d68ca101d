"""Claims as checks: each measures something in every seed and holds it to a limit.

A claim is decided where a 95 % interval for the median over seeds lies on one side of the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ...sweeps.readings import Found, Reading, middle
from .intervals import ERROR, LOOKS, interval, judged

__all__ = [
    "Answer",
    "Check",
    "Part",
    "Relation",
    "Unit",
    "Verdict",
    "decide",
    "difference",
    "leads",
]

Answer = Literal["holds", "does not hold", "not decided here"]
Relation = Literal["above", "below", "between"]
Unit = Literal["points", "share", ""]

HOLDS: Answer = "holds"
FAILS: Answer = "does not hold"
OPEN: Answer = "not decided here"


@dataclass(frozen=True)
class Part:
    """One thing a claim comes to: a number per seed, in their order, and the limit it should keep.

    With "between" it should lie from `floor` to the limit.
    """

    where: str
    values: tuple[float, ...]
    relation: Relation
    limit: float
    floor: float = -math.inf

    @property
    def judged(self) -> tuple[float, ...]:
        """The numbers of the seeds that the last look takes."""
        return judged(self.values)

    @property
    def median(self) -> float:
        """The median of what is judged; NaN where nothing was measured."""
        return middle(self.judged)

    @property
    def answer(self) -> Answer:
        """By the interval for the median, of this part alone."""
        return self.within(interval(self.values))

    def within(self, span: tuple[float, float] | None) -> Answer:
        """Whether a median that lies in this interval keeps the limit."""
        if span is None:
            return OPEN
        low, high = span
        if self.relation == "between":
            inside, outside = (
                self.floor <= low and high <= self.limit,
                high < self.floor or low > self.limit,
            )
        elif self.relation == "above":
            inside, outside = low > self.limit, high <= self.limit
        else:
            inside, outside = high < self.limit, low >= self.limit
        return HOLDS if inside else FAILS if outside else OPEN

    @property
    def slack(self) -> float:
        """How far the median is on the right side; to find the weakest part."""
        above, below = self.median - self.limit, self.limit - self.median
        slack = {"above": above, "below": below, "between": min(below, self.median - self.floor)}
        return -math.inf if math.isnan(self.median) else slack[self.relation]


@dataclass(frozen=True)
class Verdict:
    """What came of a claim.

    what      what was measured, and what it was held to
    interval  the median of its weakest part, and the interval that decides
    where     which part that is, of how many, and how many of them hold
    judged    the seeds that the interval is of
    seeds     the seeds that were run
    opposed   whether the halves of the seeds contradict each other, or one of them the answer
    words     the paper's own words, and where they stand
    """

    name: str
    claim: str
    answer: Answer
    what: str
    interval: str
    where: str
    judged: int
    seeds: int
    parts: tuple[Part, ...]
    opposed: bool = False
    words: str = ""
    place: str = ""

    @property
    def measured(self) -> str:
        """All that was measured, in a sentence."""
        seeds = f", {self.judged} seeds" if self.judged > 1 else ", one seed" if self.judged else ""
        where = f", {self.where}" if self.where else ""
        halves = "; the halves of the seeds contradict each other" if self.opposed else ""
        return f"{self.what}: {self.interval}{seeds}{where}{halves}"


@dataclass(frozen=True)
class Check:
    """A claim of a paper that runs can decide.

    name     short, for tables
    claim    what the paper says
    what     what is measured, and what it is held to
    parts    measures it
    unit     how numbers are written: "points" of a hundred, as a "share", or as they are
    exact    whether it is about the very numbers that the paper prints, which a smaller form cannot
             decide
    certain  whether chance has no part in it: every seed is then to keep the limit, and one decides
    words    the paper's own words for it
    place    where they stand
    """

    name: str
    claim: str
    what: str
    parts: Callable[[Found], Sequence[Part]]
    unit: Unit = ""
    exact: bool = False
    certain: bool = False
    words: str = ""
    place: str = ""

    def __call__(self, found: Found, judge: bool = True) -> Verdict:
        """The verdict on these runs; without `judge` nothing is decided."""
        parts = tuple(self.parts(found))
        opposed = judge and not self.certain and self._opposed(self.decide(parts), found)
        return self.verdict(parts, found.seeds, found.place, opposed, judge)

    def verdict(
        self,
        parts: Sequence[Part],
        seeds: int,
        place: Callable[[str], str] = str,
        opposed: bool = False,
        judge: bool = True,
    ) -> Verdict:
        """The verdict on what was measured in so many seeds; `place` puts parts into words."""
        known = [part for part in parts if not math.isnan(part.median)]
        weakest = min(known, key=lambda part: (_RANK[part.answer], part.slack), default=None)
        return Verdict(
            self.name,
            self.claim,
            self.decide(parts) if judge else OPEN,
            self.what,
            self._interval(weakest) if weakest else "nothing was measured",
            self._where(place(weakest.where), parts) if weakest else "",
            len(weakest.judged) if weakest else 0,
            seeds,
            tuple(parts),
            opposed,
            self.words,
            self.place,
        )

    def decide(self, parts: Sequence[Part]) -> Answer:
        """The answer to which these parts come."""
        return _of_all(map(_certainly, parts)) if self.certain else decide(parts)

    def _opposed(self, answer: Answer, found: Found) -> bool:
        """Whether the first and the second half of the seeds say the contrary.

        Of what was decided, by their medians; of what was not, by their own verdicts.
        """
        names = judged(found.seed_names)
        halves = [
            self.parts(found.only(some))
            for some in (names[: len(names) // 2], names[len(names) // 2 :])
        ]
        if answer == OPEN:
            return {decide(parts) for parts in halves} >= {HOLDS, FAILS}
        sides = {
            _of_all(part.within((middle(part.values),) * 2) for part in parts) for parts in halves
        }
        return bool(sides - {answer, OPEN})

    def _interval(self, part: Part) -> str:
        """The median of a part, and the interval for it; the range where there is none."""
        span = None if self.certain else interval(part.values)
        unit = {"points": " points", "share": " %", "": ""}[self.unit]
        median = self._number(part.median) + (unit if math.isfinite(part.median) else "")
        if span is not None:
            return f"{median} ({self._number(span[0])} to {self._number(span[1])})"
        some = [value for value in part.judged if not math.isnan(value)]
        ends = (
            f"from {self._number(min(some))} to {self._number(max(some))}" if len(some) > 1 else ""
        )
        few = "" if self.certain else f"no interval below {LOOKS[0]} seeds"
        return f"{median} ({', '.join(filter(None, [ends, few]))})" if ends or few else median

    def _where(self, where: str, parts: Sequence[Part]) -> str:
        """Where the weakest part is, and how many of all hold, fail and were not run."""
        if len(parts) == 1:
            return where
        answers = [_certainly(each) if self.certain else each.answer for each in parts]
        said = [f"{answers.count(HOLDS)} of {len(parts)} hold"]
        if failed := answers.count(FAILS):
            said.append(f"{failed} fail{'' if self.decide(parts) == FAILS else ' by themselves'}")
        if missing := sum(not each.values for each in parts):
            said.append(f"{missing} not run")
        return f"at the weakest, {where}; {', '.join(said)}"

    def _number(self, value: float) -> str:
        if math.isinf(value):
            return "diverged or never"
        if self.unit == "share":
            return f"{100 * value:.1f}"
        return f"{100 * value:+.1f}" if self.unit == "points" else f"{value:.4g}"


def _of_all(answers: Iterable[Answer]) -> Answer:
    """What all of these say together, without regard to chance."""
    some = set(answers)
    return FAILS if FAILS in some else HOLDS if some == {HOLDS} else OPEN


def _certainly(part: Part) -> Answer:
    """What every seed says, of something in which chance has no part."""
    if not part.values or any(map(math.isnan, part.values)):
        return OPEN
    return HOLDS if part.within((min(part.values), max(part.values))) == HOLDS else FAILS


_RANK: dict[Answer, int] = {FAILS: 0, OPEN: 1, HOLDS: 2}


def decide(parts: Sequence[Part]) -> Answer:
    """A claim holds when all of its parts do, and fails with any of them.

    Were every part true, chance would still make one of many look false. So a part makes the claim
    fail only by an interval whose error is the share of one among all.
    """
    if any(part.within(interval(part.values, ERROR / len(parts))) == FAILS for part in parts):
        return FAILS
    return HOLDS if parts and all(part.answer == HOLDS for part in parts) else OPEN


def difference(
    found: Found, point: str, ours: str, others: Sequence[str], reading: Reading
) -> tuple[float, ...]:
    """Seed by seed, how much better ours is than the best of the others."""
    return tuple(leads(found, point, ours, others, reading).values())


def leads(
    found: Found, point: str, ours: str, others: Sequence[str], reading: Reading
) -> dict[str, float]:
    """By seed, how much better ours is than the best of the others.

    NaN where one of them says nothing, as it might have been the best, and where none got there.
    """
    mine = found.values(point, ours, reading)
    theirs = [found.values(point, label, reading) for label in others]
    sign = 1 if reading.higher else -1
    found_by_seed = {}
    for seed, value in mine.items():
        rivals = [sign * values.get(seed, math.nan) for values in theirs]
        if not rivals or any(map(math.isnan, [value, *rivals])):
            found_by_seed[seed] = math.nan
        elif math.isinf(value) and math.isinf(max(rivals)):
            found_by_seed[seed] = math.nan  # neither got there
        else:
            found_by_seed[seed] = sign * value - max(rivals)
    return found_by_seed
