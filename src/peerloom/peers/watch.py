"""Keeps the roster in a peer's folder and that of its running process the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from ..core.events import Alarm, Observer, RosterChanged
from ..errors import PeerError
from ..transport import Home, Roster, RosterForkError, Transport
from .background import Background
from .wire_plan import WirePlan

__all__ = ["RosterWatch"]

_EVERY = 0.5  # seconds between two looks


class RosterWatch(Background):
    """Passes a newer roster from the folder to the links, and from neighbours to the folder.

    Under a rule that cannot go on without a removed peer, all peers stop, not only its neighbours:
    otherwise the others would wait for peers that have stopped. It says when the roster's time runs
    out; the run goes on.
    """

    def __init__(
        self,
        home: Home,
        transport: Transport,
        plan: WirePlan,
        began: Roster,
        tell: Observer = lambda event: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._home, self._transport, self._plan, self._began = home, transport, plan, began
        self._tell, self._clock, self._warned = tell, clock, ""
        self._file = home.folder / "roster.json"
        self._seen, self._kept = (0, 0), 0
        super().__init__("roster-watch", _EVERY)

    def __enter__(self) -> Self:
        self._warn()
        return super().__enter__()

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
        self._warn()
        return _EVERY

    def _warn(self) -> None:
        """Say once what there is to say about the time of the newest roster."""
        newest, now = self._transport.offered() or self._transport.roster, self._clock()
        warning = newest.warning(now)
        if warning and warning != self._warned:
            event = Alarm if newest.expired(now) else RosterChanged
            self._tell(event("", warning))
        self._warned = warning

    def _compare(self) -> None:
        with suppress(OSError):  # told by who keeps the roster; the next look tries again
            self._compare_once()

    def _compare_once(self) -> None:
        file = self._file.stat()
        changed = (file.st_ino, file.st_mtime_ns) != self._seen
        newest = self._transport.offered() or self._transport.roster
        if not changed and newest.version == self._kept and not self._transport.roster_unsaved:
            return
        self._seen, self._kept = (file.st_ino, file.st_mtime_ns), newest.version
        try:
            self._transport.consider(self._home.roster)
        except PeerError as error:
            self._transport.refuse(
                "roster_fork" if isinstance(error, RosterForkError) else "roster", str(error)
            )
        newest = self._transport.offered() or self._transport.roster
        self._kept = newest.version
        self._check(newest)
        self._transport.save_roster()

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
                self._transport.halt(error)
