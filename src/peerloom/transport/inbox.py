"""What came over one directed link and is not yet taken. No thread, no socket, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .types import Mode, Parcel, RefusedError, Skipped

__all__ = ["Inbox"]

Result = Literal["applied", "duplicate", "stale"]


class Inbox:
    """The arrivals of one link: each at most once, in order.

    A place is a pair (round, mix_index). `floor` is the first place that is still of interest.
    Parcels below it are stale: they are not kept for their round, but `newest` sees them.
    """

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._rounds: dict[tuple[int, int], Parcel] = {}
        self._newest: dict[int, Parcel] = {}
        self._skipped = -1
        self.last = (0, 0)
        self.floor = (0, 0)
        self.missed: set[tuple[int, int]] = set()
        self._late: list[Parcel] = []

    def __len__(self) -> int:
        return len(self._rounds)

    def admit(self, epoch: int, order: tuple[int, int], mine: int) -> bool:
        """Whether a frame of this order is new; refuses epochs other than `mine`."""
        if epoch != mine:
            raise RefusedError("stale_epoch" if epoch < mine else "epoch_ahead")
        return order > self.last

    def deliver(self, parcel: Parcel, mode: Mode, mine: int) -> Result:
        """Take a parcel in."""
        if not self.admit(parcel.epoch, (parcel.incarnation, parcel.seq), mine):
            return "duplicate"
        self._advance((parcel.incarnation, parcel.seq))
        self._newest[parcel.channel] = parcel
        if mode == "latest":
            return "applied"
        place = (parcel.round, parcel.mix_index)
        if place in self.missed:
            self.missed.remove(place)
            self._late.append(parcel)
            return "applied"
        if self.missed:
            # Parcels come in order: missed places before this one never will be filled.
            self.missed = {missed for missed in self.missed if missed > place}
        if place < self.floor:
            return "stale"
        self._rounds[place] = parcel
        return "applied"

    def skip(self, round: int, epoch: int, order: tuple[int, int], mine: int) -> Result:
        """Note that nothing comes for rounds up to this one."""
        if not self.admit(epoch, order, mine):
            return "duplicate"
        self._advance(order)
        self._skipped = max(self._skipped, round)
        return "applied"

    def look(self, round: int, mix_index: int) -> Parcel | Skipped | None:
        """The answer for a place if it is known; a later parcel proves that none comes for it."""
        place = (round, mix_index)
        if place < self.floor:
            return None
        if place in self._rounds:
            return self._rounds[place]
        if round <= self._skipped:
            return Skipped(round)
        sender = self.last[0]
        if any(at > place and p.incarnation == sender for at, p in self._rounds.items()):
            return Skipped(round)
        return None

    def awaits(self, round: int, mix_index: int) -> bool:
        """Whether this place may still be filled."""
        return (round, mix_index) >= self.floor and self.look(round, mix_index) is None

    def pass_by(self, round: int, mix_index: int) -> int:
        """Drop this settled place and all before it; how many untaken parcels were dropped."""
        self.floor = max(self.floor, (round, mix_index + 1))
        gone = [place for place in self._rounds if place < self.floor]
        for place in gone:
            del self._rounds[place]
        return len([place for place in gone if place != (round, mix_index)])

    def give_up(self, round: int, mix_index: int) -> int:
        """Go on without the parcel of this place; if it comes after all, `late` has it."""
        if (round, mix_index) >= self.floor:
            self.missed.add((round, mix_index))
        return self.pass_by(round, mix_index)

    @property
    def want(self) -> int:
        """The first round of which a parcel is still of interest."""
        return min([self.floor[0], *(round for round, _ in self.missed)])

    def late(self) -> list[Parcel]:
        """What came after it was given up, in order, each once."""
        found, self._late = self._late, []
        return found

    def expect(self, round: int, missed: Iterable[tuple[int, int]] = ()) -> int:
        """Drop what lies before this round, except what was missed; how many were dropped.

        A neighbour may have sent a missed parcel again before `missed` was known here: such a
        parcel is late, not stale.
        """
        self.missed |= set(missed)
        self.floor = max(self.floor, (round, 0))
        past = [place for place in sorted(self._rounds) if place < self.floor]
        gone = {place: self._rounds.pop(place) for place in past}
        late = [parcel for place, parcel in gone.items() if place in self.missed]
        self._late += late
        self.missed -= set(gone)
        return len(gone) - len(late)

    def newest(self, channel: int) -> Parcel | None:
        """The newest parcel of a channel."""
        return self._newest.get(channel)

    def _advance(self, order: tuple[int, int]) -> None:
        if order[0] != self.last[0]:
            self._skipped = -1  # a restarted peer may send rounds that it had promised to skip
        self.last = order

    def start_epoch(self) -> None:
        """Forget everything of the epoch before."""
        self._rounds.clear()
        self._newest.clear()
        self._skipped = -1
        self.missed.clear()
        self._late.clear()
