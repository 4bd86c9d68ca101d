"""The newest roster a peer has accepted, in a file."""

from __future__ import annotations

from pathlib import Path

from .files import write_whole
from .roster import Roster

__all__ = ["RosterBook"]


class RosterBook:
    """Keeps the newest accepted roster on disk. It never goes back to an older one."""

    def __init__(self, path: Path, founder: str) -> None:
        self._path, self._founder = path, founder
        self.current = Roster.from_bytes(path.read_bytes(), founder) if path.exists() else None

    def offer(self, roster: Roster) -> bool:
        """Accept a roster if it is newer; whether it was. Refuses a fork and a wrong signature."""
        roster.verify(self._founder)
        if self.current is not None and not roster.succeeds(self.current):
            return False
        write_whole(self._path, roster.to_bytes())
        self.current = roster
        return True
