"""What came over one directed link and is not yet taken. No thread, no socket, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .types import Gap, Mode, Parcel, RefusedError, Skipped

__all__ = ["Inbox"]

Result = Literal["applied", "duplicate", "stale"]


class Inbox:
    """The arrivals of one link: each at most once, in order.

    A place is a pair (round, mix_index). `floor` is the first place that is still of interest.
    Parcels below it are stale: they are not kept for their round, but `newest` sees them. So is
    what a later process of the sender repeats of a parcel that lies here: it takes its place.
    """

    def __init__(self, peer: str, keeps_late: bool = True) -> None:
        self._peer, self._keeps_late = peer, keeps_late
        self._rounds: dict[tuple[int, int], Parcel] = {}
        self._came: dict[tuple[int, int], int] = {}  # after how many arrivals, over all links
        self._newest: dict[int, Parcel] = {}
        self._skipped = -1
        self.last = (0, 0)
        self.floor = (0, 0)
        self.missed: set[tuple[int, int]] = set()
        self._late: list[Parcel] = []
        self.uncovered = 0  # late parcels that are needed again after a crash here
        self._gaps: list[Gap] = []
        self._reached = 0  # the round of the newest ordered parcel
        self._gave_up: tuple[int, int] | None = None  # the last round given up, and `_reached` then

    def __len__(self) -> int:
        return len(self._rounds)

    def __contains__(self, place: tuple[int, int]) -> bool:
        return place in self._rounds

    def admit(self, epoch: int, order: tuple[int, int], mine: int) -> bool:
        """Whether a frame of this order is new; refuses epochs other than `mine`."""
        if epoch != mine:
            raise RefusedError("stale_epoch" if epoch < mine else "epoch_ahead")
        return order > self.last

    def deliver(self, parcel: Parcel, mode: Mode, mine: int, before: int = 0) -> Result:
        """Take a parcel in, which came after so many others over all links."""
        if not self.admit(parcel.epoch, (parcel.incarnation, parcel.seq), mine):
            return "duplicate"
        self._advance((parcel.incarnation, parcel.seq))
        self._newest[parcel.channel] = parcel
        if mode == "latest":
            return "applied"
        place = (parcel.round, parcel.mix_index)
        self._reached = parcel.round
        if self._is_late(place):
            return "applied" if self._keep_late(parcel) else "stale"
        if self.missed:
            # Parcels come in order: missed places before this one never will be filled.
            self.missed = {missed for missed in self.missed if missed > place}
        if place < self.floor:
            return "stale"
        again = place in self._rounds
        self._rounds[place] = parcel  # only the newest process tells what it skips; see `look`
        self._came.setdefault(place, before)
        return "stale" if again else "applied"

    def came(self, round: int, mix_index: int) -> int:
        """After how many others, over all links, the parcel of a place came that is there."""
        return self._came[round, mix_index]

    def _is_late(self, place: tuple[int, int]) -> bool:
        """Whether what came for this place was given up; it is then no longer awaited."""
        late = place in self.missed or any(gap.holds(place) for gap in self._gaps)
        self.missed.discard(place)
        if self._gaps:  # parcels come in order, so what lies before it in a gap never comes
            after = (place[0], place[1] + 1)
            left = [gap._replace(first=max(gap.first, after)) for gap in self._gaps]
            self._gaps = [gap for gap in left if gap.first < gap.end]
        return late

    def _keep_late(self, parcel: Parcel) -> bool:
        """Keep a parcel that came too late for its round, if anybody asks for such; whether so.

        What is kept takes room until it is covered. Where a peer waits for a neighbour that sends
        again all that was given up before, it would have none left for what is awaited.
        """
        if self._keeps_late:
            self._late.append(parcel)
            self.uncovered += 1
        return self._keeps_late

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
            return Skipped(round, promised=True)
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
        self._gave_up = None
        gone = [place for place in self._rounds if place < self.floor]
        for place in gone:
            del self._rounds[place], self._came[place]
        return len([place for place in gone if place != (round, mix_index)])

    def give_up(self, round: int, mix_index: int) -> int:
        """Go on without the parcel of this place; `late` has it if it is there or comes."""
        if (round, mix_index) in self._rounds:
            self._keep_late(self._rounds[round, mix_index])
        elif (round, mix_index) >= self.floor:
            self.missed.add((round, mix_index))
        dropped = self.pass_by(round, mix_index)
        self._gave_up = (round, self._reached)
        return dropped

    def catches_up(self, round: int) -> bool:
        """Whether the sender is behind, but has done two rounds for each one here since it was.

        It then catches up without being waited for.
        """
        if self._gave_up is None or self._reached >= round:
            return False
        before, reached = self._gave_up
        return self._reached - reached >= 2 * (round - before)

    @property
    def want(self) -> int:
        """The first round of which a parcel is still of interest."""
        rounds = [round for round, _ in self.missed]
        return min([self.floor[0], *rounds, *(gap.first[0] for gap in self._gaps)])

    def late(self) -> list[Parcel]:
        """What came after it was given up, in order, each once."""
        found, self._late = self._late, []
        return found

    def cover(self, count: int) -> None:
        """Note that so many late parcels are not needed again."""
        self.uncovered -= count

    def expect(
        self,
        place: tuple[int, int],
        missed: Iterable[tuple[int, int]] = (),
        gaps: Iterable[Gap] = (),
    ) -> int:
        """Drop what lies before this place, except what was missed; how many were dropped.

        A neighbour may have sent a missed parcel before `missed` or `gaps` were known here: such a
        parcel is late, not stale.
        """
        self.missed |= set(missed)
        self._gaps += [gap for gap in gaps if gap.first < gap.end]
        self.floor = max(self.floor, place)
        past = [place for place in sorted(self._rounds) if place < self.floor]
        stale = 0
        for place in past:
            parcel = self._rounds.pop(place)
            del self._came[place]
            stale += not (self._is_late(place) and self._keep_late(parcel))
        return stale

    def newest(self, channel: int) -> Parcel | None:
        """The newest parcel of a channel."""
        return self._newest.get(channel)

    def _advance(self, order: tuple[int, int]) -> None:
        if order[0] != self.last[0]:
            self._skipped = -1  # a restarted peer may send rounds that it had promised to skip
        self.last = order

    def forget_order(self) -> None:
        """Forget which process sent last: what an earlier one sends is taken again."""
        self._skipped, self.last = -1, (0, 0)

    def start_epoch(self) -> None:
        """Forget everything of the epoch before."""
        self._rounds.clear()
        self._came.clear()
        self._newest.clear()
        self._skipped = -1
        self.missed.clear()
        self._late.clear()
        self.uncovered = 0
        self._gaps.clear()
        self._reached, self._gave_up = 0, None
