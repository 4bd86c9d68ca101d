"""The journal of decisions: what a peer did without, written before it acts on it.

A peer that starts again repeats the decisions of the round it was in, and `replay` repeats all of
them. A run without a deadline, whose roster does not change, decides nothing and writes nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ..transport import Gap
from ..transport.files import append_lines
from ..transport.json_files import COUNT, Each, check_form, read_json_lines

__all__ = ["CLOSING", "Absences", "Decision", "Journal", "Tag", "read_decisions"]

Kind = Literal["missed", "skipped", "held", "late", "unheard", "untold", "away", "back"]
Tag = tuple[int, int]  # (round, mix)
_END = (2**62, 0)  # after every mixing
CLOSING = ("unheard", "untold")  # decisions that hold for the rest of the run


class Decision(NamedTuple):
    """One decision about the link with another row, in one mixing.

    missed    its parcel was not there by the deadline, or not among the first that were enough; it
              may come later
    skipped   its parcel will never come
    held      nothing was sent to it, since too much was under way
    late      its parcel of the earlier mixing `of` came now
    unheard   a newer roster took the link from it away: nothing comes from now on
    untold    a newer roster took the link to it away: nothing is sent from now on
    away      its link is down: from now on it is neither waited for nor sent anything,
    back      until now
    """

    kind: Kind
    round: int
    mix_index: int
    row: int
    of: Tag = (0, 0)


class Absences:
    """When which row was away, by the decisions of one peer; add them in the order of mixings."""

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._spans: defaultdict[int, list[tuple[Tag, Tag]]] = defaultdict(list)
        for decision in decisions:
            self.add(decision)

    def add(self, decision: Decision) -> None:
        """Take a decision into account; kinds other than away and back change nothing."""
        spans, tag = self._spans[decision.row], (decision.round, decision.mix_index)
        if decision.kind == "away":
            spans.append((tag, _END))
        elif decision.kind == "back" and spans:
            spans[-1] = (spans[-1][0], tag)

    def at(self, tag: Tag) -> set[int]:
        """The rows that are away in a mixing."""
        return {row for row in self._spans if self.contains(row, tag)}

    def contains(self, row: int, tag: Tag) -> bool:
        """Whether a row is away in a mixing."""
        return any(first <= tag < end for first, end in self._spans.get(row, ()))

    def spans(self) -> list[tuple[int, Tag, Tag]]:
        """(row, first mixing, first mixing after it) of every absence."""
        return [(row, *span) for row, spans in self._spans.items() for span in spans]


class Journal:
    """The decisions of one peer, in a file that only grows; without a path, in memory alone."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._by_tag: defaultdict[Tag, list[Decision]] = defaultdict(list)
        for decision in read_decisions(path) if path is not None else []:
            self._by_tag[decision.round, decision.mix_index].append(decision)
        self._closing = [decision for decision in self.every() if decision.kind in CLOSING]
        self.absences = Absences(self.every())

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
            self.absences.add(decision)
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

    def gaps(self, before: int) -> dict[int, list[Gap]]:
        """Return, by row, the absences up to a round, and what of them had come before it.

        What is late comes in order, mixing by mixing.
        """
        found: defaultdict[int, list[Gap]] = defaultdict(list)
        come: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for decision in self.every():
            if decision.kind == "late" and decision.round < before:
                (round, mix_index), settled = decision.of, come[decision.row]
                settled[mix_index] = max(round, settled.get(mix_index, 0))
        for row, first, end in self.absences.spans():
            if first < (before, 0):
                found[row].append(Gap(first, min(end, (before, 0)), come[row]))
        return dict(found)


def read_decisions(path: Path) -> list[Decision]:
    """All decisions of a file; a last line that a kill cut short is left out."""
    return read_json_lines(path, list, _decision)


def _decision(line: list[Any]) -> Decision:
    kind, round, mix_index, row, (of_round, of_mixing) = line
    check_form([round, mix_index, row, of_round, of_mixing], Each(COUNT))
    if kind not in get_args(Kind):
        raise ValueError(f"{kind!r} is no decision")
    return Decision(kind, round, mix_index, row, (of_round, of_mixing))
