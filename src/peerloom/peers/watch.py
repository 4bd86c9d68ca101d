"""Keeps the roster in a peer's folder and that of its running process the same."""

from __future__ import annotations

from types import TracebackType

from ..errors import PeerError
from ..transport import Home, Roster, RosterForkError, Transport
from .background import Background
from .wire_plan import WirePlan

__all__ = ["RosterWatch"]

_EVERY = 0.5  # seconds between two looks


class RosterWatch(Background):
    """Passes a newer roster from the folder to the links, and from neighbours to the folder.

    Under a rule that cannot go on without a removed peer, all peers stop, not only its neighbours:
    otherwise the others would wait for peers that have stopped.
    """

    def __init__(self, home: Home, transport: Transport, plan: WirePlan, began: Roster) -> None:
        self._home, self._transport, self._plan, self._began = home, transport, plan, began
        self._file = home.folder / "roster.json"
        self._seen, self._kept = (0, 0), 0
        super().__init__("roster-watch", _EVERY)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._compare()  # what came last is kept too

    def work(self) -> float:
        """Compare once."""
        self._compare()
        return _EVERY

    def _compare(self) -> None:
        file = self._file.stat()
        changed = (file.st_ino, file.st_mtime_ns) != self._seen
        newest = self._transport.offered() or self._transport.roster
        if not changed and newest.version == self._kept:
            return
        self._seen, self._kept = (file.st_ino, file.st_mtime_ns), newest.version
        try:
            self._transport.consider(self._home.roster)
            newest = self._transport.offered() or self._transport.roster
            self._kept = newest.version
            self._home.trust(newest)
        except PeerError as error:
            self._transport.refuse(
                "roster_fork" if isinstance(error, RosterForkError) else "roster", str(error)
            )
        self._check(newest)

    def _check(self, newest: Roster) -> None:
        """Stop if a member, or within the epoch a link, is missing that the rule counts on."""
        gone = [member.name for member in self._began.members if not newest.has(member.id)]
        there = {(link.source, link.target, link.layer) for link in newest.links}
        lost = [
            link
            for link in self._began.links
            if (link.source, link.target, link.layer) not in there
        ]
        if newest.epoch == self._began.epoch:
            gone += [self._began.name(link.source) for link in lost]
        for name in gone[:1]:
            try:
                self._plan.check_outlasts(name)
            except PeerError as error:
                self._transport.halt(str(error))
