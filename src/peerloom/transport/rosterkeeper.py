"""Writes down the rosters of running links, which are used before they are on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from ..errors import PeerError
from .links import LinkTable
from .roster import Roster, RosterForkError
from .rosterbook import RosterBook

__all__ = ["RosterKeeper"]


class RosterKeeper:
    """Keeps the newest roster of a table on disk, and the one in use in the book of its run.

    `keep` writes the newest one and comes first: it is what the next process begins with.
    """

    def __init__(
        self, table: LinkTable, book: RosterBook, keep: Callable[[Roster], object] | None
    ) -> None:
        self._table, self._book = table, book
        self._keep = keep or (lambda roster: None)
        self._lock = threading.Lock()
        self._saved = (0, 0)  # versions of the newest and of the one in use
        self._told = 0

    @property
    def unsaved(self) -> bool:
        """Whether a roster in memory is not on disk."""
        return self._saved != self._versions()

    def save(self) -> None:
        """Write down what is not on disk yet; OSError if that fails, told once per version.

        If `keep` refuses, because of another roster that lies there, that is an alarm.
        """
        with self._lock:
            newest, used = self._table.newest, self._table.roster
            if self._saved == (newest.version, used.version):
                return
            try:
                try:
                    self._keep(newest)
                except PeerError as error:  # what lies there is spoilt, or of a fork
                    fork = isinstance(error, RosterForkError)
                    self._table.refuse(
                        self._table.me, "roster_fork" if fork else "roster", str(error)
                    )
                self._book.offer(used)
            except OSError as error:
                if self._told < newest.version:
                    self._told = newest.version
                    self._table.tell(
                        "alarm",
                        "",
                        f"roster version {newest.version} is in use, but cannot be written "
                        f"({error.strerror or error}): make room on the disk. No checkpoint is "
                        "written before it is.",
                    )
                raise
            self._saved = newest.version, used.version

    def try_to_save(self) -> None:
        """Save now if possible; the next checkpoint and the next look at the folder try again."""
        with suppress(OSError):
            self.save()

    def _versions(self) -> tuple[int, int]:
        return self._table.newest.version, self._table.roster.version
