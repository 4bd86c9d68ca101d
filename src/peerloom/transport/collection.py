"""One wait for the parcels of many peers: what is there, given up or late."""

from __future__ import annotations

from collections.abc import Callable

from .links import LinkTable
from .types import Parcel, Skipped, Wanted

__all__ = ["Answer", "Collection"]

Answer = Parcel | Skipped | None
_NEVER = float("inf")


class Collection:
    """What is still wanted (`open`), and the answers so far.

    Call everything with the table's lock held.
    """

    def __init__(
        self,
        table: LinkTable,
        wanted: list[Wanted],
        seconds: float,
        paced: bool = False,
        enough: int | None = None,
    ) -> None:
        self._table, self._begin, self._paced = table, table.clock(), paced
        self._end, self._late = self._begin + seconds, self._begin + table.settings.late
        self.open = sorted(set(wanted))
        self._needed = len(self.open) if enough is None else enough  # so many parcels more
        self.answers: dict[Wanted, Answer] = {}
        self._told: dict[str, Wanted] = {}  # peers that were reported late

    def look(self) -> list[tuple[str, str]]:
        """Take what is there and give up what is too late; the lines to report, by peer."""
        now = self._table.clock()
        if self._needed < len(self.open):
            self.open.sort(key=self._arrival)
        self.open = [
            want for want in self.open if not self._needed or not self._answered(want, now)
        ]
        if now >= self._end or not self._needed:
            for want in self.open:
                self._settle(want, None)
            self.open = []
        return self._lateness(self.open if now >= self._late else [], now - self._begin)

    def _arrival(self, want: Wanted) -> float:
        """When the parcel of a place came, as a count of arrivals; those not there come last."""
        inbox = self._table.inboxes.get(want.peer)
        place = (want.round, want.mix_index)
        return inbox.came(*place) if inbox is not None and place in inbox else _NEVER

    def patience(self) -> float:
        """Seconds until the next look although nothing came: a link may be down too long then."""
        now, table = self._table.clock(), self._table
        edges = [table.edges["in", want.peer] for want in self.open]
        times = [edge.since + table.settings.wait for edge in edges if not edge.up]
        return min([self._end, *times, self._late if self._late > now else _NEVER]) - now

    def ready(self, interrupted: Callable[[], bool]) -> Callable[[], bool]:
        """A test whether an arrival makes another look worthwhile.

        Where a peer was reported late, any arrival does; otherwise only the last one needed. So
        does what lets the wait be `interrupted`.
        """
        missing, some, needed = self.open.copy(), bool(self._told), self._needed

        def worthwhile() -> bool:
            if interrupted():
                return True
            if some:
                return not all(map(self._awaited, missing))
            if needed < len(missing):
                return sum(not self._awaited(want) for want in missing) >= needed
            while missing and not self._awaited(missing[-1]):
                missing.pop()  # not to be looked at again
            return not missing

        return worthwhile

    def _answered(self, want: Wanted, now: float) -> bool:
        table = self._table
        inbox, edge = table.inboxes.get(want.peer), table.edges.get(("in", want.peer))
        if inbox is None or edge is None or table.barred(want.peer):
            self.answers[want] = None
            return True
        answer = inbox.look(want.round, want.mix_index)
        # `patience` names the very moment at which this becomes true.
        gone = not edge.up and now >= edge.since + table.settings.wait
        gone |= self._paced and inbox.catches_up(want.round)
        if answer is None and not gone and (want.round, want.mix_index) >= inbox.floor:
            return False
        self._settle(want, answer)
        return True

    def _settle(self, want: Wanted, answer: Answer) -> None:
        """Note the answer: the place is taken, skipped or given up."""
        self.answers[want] = answer
        self._needed -= isinstance(answer, Parcel)
        inbox = self._table.inboxes.get(want.peer)
        if inbox is not None:
            leave = inbox.give_up if answer is None else inbox.pass_by
            self._table.edges["in", want.peer].frames["stale"] += leave(want.round, want.mix_index)

    def _awaited(self, want: Wanted) -> bool:
        inbox = self._table.inboxes.get(want.peer)
        if inbox is None or (self._paced and inbox.catches_up(want.round)):
            return False
        return inbox.awaits(want.round, want.mix_index)

    def _lateness(self, slow: list[Wanted], seconds: float) -> list[tuple[str, str]]:
        """Report peers that are late, and what became of those reported before."""
        table, lines = self._table, list[tuple[str, str]]()
        for peer, want in list(self._told.items()):
            if want in self.answers:
                given_up = self.answers[want] is None
                what = f"was given up for round {want.round}" if given_up else "is no longer late"
                lines.append((peer, f"{table.name(peer)} {what}: {seconds:.1f} s"))
                del self._told[peer]
        for want in slow:
            if want.peer not in self._told:
                self._told[want.peer] = want
                edge = table.edges["in", want.peer]
                down = f"its link is down for {table.clock() - edge.since:.1f} s"
                link = "its link is up" if edge.up else down
                late = f"{table.name(want.peer)} is late: {seconds:.1f} s, round {want.round}"
                lines.append((want.peer, f"{late}, {link}"))
        return lines
