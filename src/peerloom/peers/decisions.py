"""The journal of decisions: what a peer did without, written before it acts on it.

A peer that starts again repeats the decisions of the round it was in, and `replay` repeats all of
them. A run without a deadline, whose roster does not change, decides nothing and writes nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from ..transport.files import append_lines, read_lines

__all__ = ["CLOSING", "Decision", "Journal", "Tag", "read_decisions"]

Tag = tuple[int, int]  # (round, mix)
CLOSING = ("unheard", "untold")  # decisions that hold for the rest of the run


class Decision(NamedTuple):
    """One decision about the link with another row, in one mixing.

    missed    its parcel was not there by the deadline; it may come later
    skipped   its parcel will never come
    held      nothing was sent to it, since too much was under way
    late      its parcel of the earlier mixing `of` came now
    unheard   a newer roster took the link from it away: nothing comes from now on
    untold    a newer roster took the link to it away: nothing is sent from now on
    """

    kind: Literal["missed", "skipped", "held", "late", "unheard", "untold"]
    round: int
    mix_index: int
    row: int
    of: Tag = (0, 0)


class Journal:
    """The decisions of one peer, in a file that only grows; without a path, in memory alone."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._by_tag: defaultdict[Tag, list[Decision]] = defaultdict(list)
        for decision in read_decisions(path) if path is not None else []:
            self._by_tag[decision.round, decision.mix_index].append(decision)
        self._closing = [decision for decision in self.every() if decision.kind in CLOSING]

    def at(self, tag: Tag) -> list[Decision]:
        """What was decided in a mixing."""
        return list(self._by_tag.get(tag, ()))

    def add(self, decisions: Iterable[Decision]) -> None:
        """Write them down, durably; those that are known already are not written twice."""
        new = [
            decision
            for decision in decisions
            if decision not in self._by_tag[decision.round, decision.mix_index]
        ]
        for decision in new:
            self._by_tag[decision.round, decision.mix_index].append(decision)
        self._closing += [decision for decision in new if decision.kind in CLOSING]
        if new and self._path is not None:
            append_lines(self._path, map(json.dumps, new))

    def every(self) -> list[Decision]:
        """All of them, in the order of rounds."""
        return [decision for tag in sorted(self._by_tag) for decision in self._by_tag[tag]]

    def gone(self, tag: Tag) -> set[tuple[str, int]]:
        """(unheard or untold, row) of the links that were taken away up to a mixing."""
        return {(d.kind, d.row) for d in self._closing if (d.round, d.mix_index) <= tag}

    def outstanding(self, before: int) -> dict[int, list[Tag]]:
        """Return, by row, the mixings whose parcels were given up and had not come before a round.

        Those of the round itself, which an earlier process began, are among them: it is repeated
        with the same decisions.
        """
        found: defaultdict[int, list[Tag]] = defaultdict(list)
        every = self.every()
        come = {
            (decision.row, decision.of)
            for decision in every
            if decision.kind == "late" and decision.round < before
        }
        for decision in every:
            tag = (decision.round, decision.mix_index)
            if decision.kind == "missed" and (decision.row, tag) not in come:
                found[decision.row].append(tag)
        return dict(found)


def read_decisions(path: Path) -> list[Decision]:
    """All decisions of a file; a last line that a kill cut short is left out."""
    found = [json.loads(line) for line in read_lines(path)]
    return [
        Decision(kind, round, mix_index, row, (of[0], of[1]))
        for kind, round, mix_index, row, of in found
    ]
