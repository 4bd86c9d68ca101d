"""The newest roster a peer has accepted, in a file."""

from __future__ import annotations

from pathlib import Path

from .files import changing, write_whole
from .reserve import Reserve
from .roster import Roster

__all__ = ["RosterBook"]


class RosterBook:
    """Keeps the newest accepted roster on disk. It never goes back to an older one.

    With a reserve, a full disk does not keep it from being written.
    """

    def __init__(self, path: Path, founder: str, reserve: Reserve | None = None) -> None:
        self._path, self._founder, self._reserve = path, founder, reserve
        self.current = self._read()

    def offer(self, roster: Roster) -> bool:
        """Accept a roster if it is newer; whether it was. Refuses a fork and a wrong signature.

        Refuses, too, what could not be read again: a peer without its roster is lost.
        """
        data = roster.to_bytes()
        Roster.from_bytes(data, self._founder)
        with changing(self._path.parent):
            self.current = self._read()  # another process may have written since
            if self.current is not None and not roster.succeeds(self.current):
                return False
            write = write_whole if self._reserve is None else self._reserve.write_whole
            write(self._path, data)
            self.current = roster
        return True

    def _read(self) -> Roster | None:
        if not self._path.exists():
            return None
        return Roster.from_bytes(self._path.read_bytes(), self._founder)
