"""A peer's history, for checks after a run: one JSON object per line for each event."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DataError

__all__ = ["History", "read_history"]


class History:
    """An append-only file of one peer's events.

    Each line is one write call, so a killed process leaves at most its last line cut short.
    """

    def __init__(self, path: Path, peer: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._peer, self._lock = peer, threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, what: str, **facts: object) -> None:
        """Append one event.

        `what` is start, put, ack, apply, refuse, superseded, adopt, checkpoint, round or totals.
        """
        line = json.dumps({"what": what, "peer": self._peer, "at": time.time(), **facts}) + "\n"
        with self._lock:
            if self._file >= 0:
                os.write(self._file, line.encode())

    def close(self) -> None:
        """Close the file; later events are dropped."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1


def read_history(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a file. A cut last line is left out; any other broken line is refused."""
    lines = path.read_text().split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            yield json.loads(line)
        except ValueError:
            if number < len(lines):
                raise DataError(
                    f"{path}, line {number}, is no event. "
                    "The file was changed after it was written."
                ) from None
