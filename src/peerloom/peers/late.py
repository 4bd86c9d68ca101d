"""Parcels that came after they were given up, until checkpoints hold what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..core import Body
from ..transport import Gap, Parcel, Transport
from .decisions import Tag
from .sent_files import SentFiles
from .wire_memory import Memory, Pieces, stack_bodies, unstack_bodies

__all__ = ["LateParcels"]


class _Entry(NamedTuple):
    row: int  # of the sender
    parcel: Parcel
    handed: int | None = None  # the round in which it was handed over

    @property
    def place(self) -> Tag:
        return self.parcel.round, self.parcel.mix_index


class LateParcels:
    """What came late, in order of arrival.

    It takes room in the inbox until the newest two checkpoints hold it, or what followed from it:
    neighbours do not keep more than that to send again. Checkpoints hold what was not handed over
    by the end of their round.
    """

    def __init__(self, transport: Transport, peers: list[str], files: SentFiles | None) -> None:
        self._transport, self._peers, self._files = transport, peers, files
        self._entries = list[_Entry]()
        # How many of each peer no checkpoint covers yet, and how many only the newest does.
        self._uncovered, self._covered_once = Counter[str](), Counter[str]()

    def collect(self, row: int, matters: Callable[[Parcel], bool]) -> None:
        """Take what came late from a row, and forget what was taken before and does not matter.

        What comes now and does not matter gives its room back at once.
        """
        peer = self._peers[row]
        came = self._transport.late(peer)
        kept = [_Entry(row, parcel) for parcel in came if matters(parcel)]
        self._entries = [
            entry
            for entry in self._entries
            if entry.row != row or entry.handed is not None or matters(entry.parcel)
        ]
        self._entries += kept
        if kept:
            self._uncovered[peer] += len(kept)
        if len(kept) < len(came):
            self._transport.cover(peer, len(came) - len(kept))

    def waiting(self) -> Iterator[tuple[int, Parcel]]:
        """Yield what was not handed over, with the row that sent it."""
        return ((entry.row, entry.parcel) for entry in self._entries if entry.handed is None)

    def hand_over(self, round: int, places: Iterable[tuple[int, Tag]]) -> None:
        """Note that the parcels of these rows and places are handed over in this round."""
        handed = set(places)
        self._entries = [
            entry._replace(handed=round)
            if entry.handed is None and (entry.row, entry.place) in handed
            else entry
            for entry in self._entries
        ]

    def memory(self, t: int) -> Pieces:
        """Return what a checkpoint after round t holds: what no round up to it was handed."""
        entries = [self._filed(entry) for entry in self._entries]
        self._entries = entries
        return stack_bodies(
            "late",
            [
                ((entry.row, *entry.place), entry.parcel.body)
                for entry in entries
                if entry.handed is None or entry.handed > t
            ],
            self._files,
        )

    def resume(self, memory: Memory) -> None:
        """Go on with what a checkpoint holds; its neighbours may no longer have it."""
        self._entries = [
            _Entry(row, Parcel(mix_index, round, mix_index, body, self._peers[row]))
            for (row, round, mix_index), body in unstack_bodies("late", memory, self._files)
        ]

    def missing(self, owed: Mapping[int, list[Tag]]) -> dict[str, list[Tag]]:
        """Return, by peer, the places that are owed and not here."""
        here = {(entry.row, entry.place) for entry in self._entries}
        return {
            self._peers[row]: [place for place in places if (row, place) not in here]
            for row, places in owed.items()
        }

    def narrowed(self, gaps: Mapping[int, list[Gap]]) -> dict[str, list[Gap]]:
        """Return gaps by peer, without what is here: it comes in order, mixing by mixing."""
        newest = dict[tuple[int, int], int]()
        for row, parcel in self.waiting():
            newest[row, parcel.mix_index] = parcel.round
        return {
            self._peers[row]: [
                gap._replace(
                    settled={**gap.settled}
                    | {mix_index: at for (of, mix_index), at in newest.items() if of == row}
                )
                for gap in found
            ]
            for row, found in gaps.items()
        }

    def saved(self, t: int) -> None:
        """Note that a checkpoint after round t is written."""
        for peer, count in self._covered_once.items():
            self._transport.cover(peer, count)
        self._uncovered, self._covered_once = Counter(), self._uncovered
        self._entries = [
            entry for entry in self._entries if entry.handed is None or entry.handed > t
        ]

    def bodies(self) -> Iterator[Body]:
        """Yield the body of every parcel that is held."""
        return (entry.parcel.body for entry in self._entries)

    def _filed(self, entry: _Entry) -> _Entry:
        """The same with a large body in a file of its own, which a checkpoint can name."""
        body, files = entry.parcel.body, self._files
        if files is None or len(body) < files.least or files.of(body) is not None:
            return entry
        filed = files.write(entry.place, len(body), [body])
        return entry._replace(parcel=replace(entry.parcel, body=filed))
