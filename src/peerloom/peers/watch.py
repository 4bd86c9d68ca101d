"""Keeps the roster of a peer's folder and that of its running process the same, whichever of them hears of a newer one."""

from __future__ import annotations

from types import TracebackType

from ..errors import PeerError
from ..transport import Home, Roster, RosterForkError, Transport
from .background import Background
from .wire_plan import WirePlan

__all__ = ["RosterWatch"]

_EVERY = 0.5  # seconds between two looks


class RosterWatch(Background):
    """What an operator puts into the folder reaches the links, what neighbours bring is kept in the folder.

    A rule that cannot go on without those who were taken away is stopped everywhere, not only
    beside them: otherwise the others would wait for peers that have stopped.
    """

    def __init__(self, home: Home, post: Transport, plan: WirePlan, began: Roster) -> None:
        self._home, self._post, self._plan, self._began = home, post, plan, began
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
        self._look()  # what came last is kept too

    def work(self) -> float:
        """Look once."""
        self._look()
        return _EVERY

    def _look(self) -> None:
        file = self._file.stat()
        changed = (file.st_ino, file.st_mtime_ns) != self._seen
        newest = self._post.offered() or self._post.roster
        if not changed and newest.version == self._kept:
            return
        self._seen, self._kept = (file.st_ino, file.st_mtime_ns), newest.version
        try:
            self._post.consider(self._home.roster)
            newest = self._post.offered() or self._post.roster
            self._kept = newest.version
            self._home.trust(newest)
        except PeerError as error:
            self._post.refuse(
                "roster_fork" if isinstance(error, RosterForkError) else "roster", str(error)
            )
        self._check(newest)

    def _check(self, newest: Roster) -> None:
        """Stop if somebody, or within the epoch a link, is missing whom the rule counts on."""
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
                self._post.halt(str(error))
