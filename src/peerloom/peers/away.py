"""Neighbours that are away: with a deadline, whose link is down is not waited for in each round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..transport import Gap, Transport
from .decisions import Decision, Journal, Tag
from .wire_plan import WirePlan

__all__ = ["Away"]


class Away:
    """Decides who is away, and since when.

    A row is away if its last parcel was missed, or the last one to it held back, and its link is
    down. It is then neither sent anything nor waited for until the link is up again, so both ends
    of the link rest. A row whose link was not up yet may just be starting, and a row without any
    neighbour that is there has nobody to go on with: both are waited for up to the deadline.
    """

    def __init__(
        self, transport: Transport, peers: Sequence[str], journal: Journal, plan: WirePlan
    ) -> None:
        self._transport, self._peers, self._journal = transport, peers, journal
        self._allowed, self._pushes = plan.deadline is not None, plan.pushes
        self._missing: set[int] = set()  # rows without which the last mixing with them went on
        # Rows that are away, and the first mixing of which the transport was not told yet.
        self._since: dict[int, Tag] = {}

    def resume(self, round: int) -> dict[int, list[Gap]]:
        """Go on at this round; return, by row, the gaps of which late mass may still come."""
        place = (round, 0)
        self._since = dict.fromkeys(self._journal.absences.at(place), place)
        return self._journal.gaps(round) if self._pushes else {}

    def note(self, heard: Iterable[int], made: Iterable[Decision]) -> None:
        """Note without which rows a mixing went on, of those it waited for or held back from."""
        self._missing -= set(heard)
        self._missing |= {each.row for each in made if each.kind in ("missed", "held")}

    def rows(self, tag: Tag, sources: Sequence[int], decides: bool) -> set[int]:
        """Return the rows that are away in this mixing, of which `sources` are to be heard.

        If it `decides`, rows may leave or come back now; else only as the journal says.
        """
        if decides and (self._missing or self._since):
            self._decide(tag, sources)
        away = self._journal.absences.at(tag)
        for row in [row for row in self._since if row not in away]:
            since = self._since.pop(row)
            # What is no mass is of no use later.
            gap = Gap(since if self._pushes else tag, tag)
            self._transport.expect_late(self._peers[row], gap)
        for row in away:
            self._since.setdefault(row, tag)
        return away

    def _decide(self, tag: Tag, sources: Sequence[int]) -> None:
        """Write down who leaves and who is back, before anything follows from it."""
        here, transport = self._journal.absences.at(tag), self._transport
        back = [row for row in here if not self._allowed or self._connected(row)]
        leave = list[int]()
        if self._allowed and any(map(self._connected, sources)):
            leave = [row for row in self._missing - here if transport.lost(self._peers[row])]
        self._missing -= set(leave)
        self._journal.add(
            [Decision("back", *tag, row) for row in sorted(back)]
            + [Decision("away", *tag, row) for row in sorted(leave)]
        )

    def _connected(self, row: int) -> bool:
        return self._transport.connected(self._peers[row])
