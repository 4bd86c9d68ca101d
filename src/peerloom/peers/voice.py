"""What a peer says while it runs: one line per change of state, for people or for machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

from ..transport import Event, Roster

__all__ = ["Voice"]


class Voice:
    """Says lines of text, or with `as_json` objects: at, peer, kind, about (whom), text."""

    def __init__(self, write: Callable[[str], None], as_json: bool = False) -> None:
        self._write, self._as_json = write, as_json
        self.peer, self.roster = "", None  # type: tuple[str, Roster | None]

    def introduce(self, peer: str, roster: Roster) -> None:
        """Whose voice it is, and by which names it calls others."""
        self.peer, self.roster = peer, roster

    def event(self, event: Event) -> None:
        """A change that the transport tells of."""
        about = self.roster.name(event.peer) if event.peer and self.roster is not None else ""
        self.say(event.kind, event.text, about)

    def say(self, kind: str, text: str, about: str = "") -> None:
        """One line."""
        if not self._as_json:
            self._write(text)
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(json.dumps({"at": at, "peer": self.peer, "kind": kind, "about": about, "text": text}))
