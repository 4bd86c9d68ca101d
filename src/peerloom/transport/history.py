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

    Each line is one write call, so a killed process leaves at most its last line cut short; the
    next one begins a line of its own.
    """

    def __init__(self, path: Path, peer: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._peer, self._lock = path, peer, threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if _is_cut(path):
            os.write(self._file, b"\n")

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

    def give_up(self) -> None:
        """Remove the file, to make room; later events are dropped."""
        self.close()
        self._path.unlink(missing_ok=True)


def read_history(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a file; a line that a kill cut short is left out.

    Such a line is the last one, or the next process starts after it. Any other is refused.
    """
    broken = 0
    with path.open() as file:
        for number, line in enumerate(file, 1):
            try:
                event = json.loads(line)
            except ValueError:
                _refuse_broken(path, broken)
                broken = number if line.strip() else broken
                continue
            if event["what"] != "start":
                _refuse_broken(path, broken)
            broken = 0
            yield event


def _refuse_broken(path: Path, number: int) -> None:
    if number:
        raise DataError(
            f"{path}, line {number}, is no event. The file was changed after it was written."
        )


def _is_cut(path: Path) -> bool:
    """Whether the last line has no end."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        return end > 0 and os.pread(file.fileno(), 1, end - 1) != b"\n"
