"""The log of a peer: the one place that makes its lines."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from ..core.events import (
    Evaluated,
    Event,
    Finished,
    LinksOpened,
    PeerEvent,
    RoundDone,
    Started,
)
from ..errors import DataError
from ..transport import Roster
from .status import figures

__all__ = ["EventLog", "LogFile"]

_OFTEN, _SELDOM = 5.0, 30.0  # seconds between lines on progress: at least, and at most
_STEP = 0.05  # of the run, after which there is a line


class EventLog:
    """An observer that writes a line per event, stamped with UTC, peer and kind.

        2026-11-18T01:20:48.123Z hungarian up cleveland: sending to cleveland

    With `as_json` a line is a JSON object, which also has round, run, incarnation and way.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        as_json: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._as_json, self._clock = write, as_json, clock
        self._peer, self._roster = "", None  # type: tuple[str, Roster | None]
        self._run, self._incarnation, self._rounds, self._round = "", 0, 0, 0
        self._judged: dict[str, float] = {}
        self._told = (0, 0.0)  # round and time of the last line on progress
        self._end = ""

    def introduce(self, peer: str, roster: Roster) -> None:
        """Say whose log it is, and by which names others are called."""
        self._peer, self._roster = peer, roster

    def observe(self, event: Event) -> None:
        """Write what is of interest to people."""
        match event:
            case PeerEvent(peer=peer, text=text, way=way):
                about = self._roster.name(peer) if peer and self._roster is not None else ""
                self.write(event.kind, text, about, way)
            case LinksOpened(run, incarnation, rounds):
                self._run, self._incarnation, self._rounds = run, incarnation, rounds
            case Started(t):
                self._round, self._told = t, (t, self._clock())
            case RoundDone(t):
                self._round = t
                self._tell_progress(t)
            case Evaluated(_, metrics):
                self._judged = {k: v for k, v in figures(metrics).items() if k != "accuracy"}
            case Finished(t, why):
                how = "done" if why == "rounds" else "stopped; the same command goes on from here"
                self._end = f"round {t}, {how}"

    def _tell_progress(self, t: int) -> None:
        before, when = self._told
        spent = self._clock() - when
        due = spent >= _SELDOM or (spent >= _OFTEN and t - before >= _STEP * self._rounds)
        if not due or t >= self._rounds:
            return
        rate = (t - before) / spent
        self._told = (t, when + spent)
        judged = "".join(f", {name} {value:.4g}" for name, value in self._judged.items())
        left = _duration((self._rounds - t) / rate)
        self.write(
            "progress", f"round {t} of {self._rounds}, {rate:.1f} rounds/s{judged}, {left} left"
        )

    def close(self) -> None:
        """Write how the run ended, once its links are closed and nothing more can happen."""
        self.write("end", self._end)

    def write(self, kind: str, text: str, about: str = "", way: str = "") -> None:
        """Write one line."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if not self._as_json:
            whose = " ".join(word for word in (at, self._peer, kind, about) if word)
            self._write(f"{whose}: {' '.join(text.splitlines())}")
            return
        what = {"at": at, "peer": self._peer, "kind": kind, "about": about, "text": text}
        where = {"round": self._round, "run": self._run, "incarnation": self._incarnation}
        self._write(json.dumps({**what, **where, "way": way}))

    @contextmanager
    def warnings(self) -> Iterator[None]:
        """Write what the program logs as a warning or worse as lines of this log, too."""
        handler, logger = _Lines(self), logging.getLogger("peerloom")
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)


class _Lines(logging.Handler):
    """Hands records of the program to a log; every line of a traceback is a line there."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        for line in self.format(record).splitlines():
            self._log.write(record.levelname.lower(), line)


class LogFile:
    """A log in a file of at most `size` bytes; `keep` older ones stay as FILE.1, FILE.2 and so on.

    Any thread may write. Where it cannot be written, `say` hears so once, and the peer goes on.
    """

    def __init__(self, path: Path, size: int, keep: int, say: Callable[[str], None]) -> None:
        self._path, self._size, self._keep, self._say = path, size, keep, say
        self._trouble, self._lock = False, threading.Lock()
        try:
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise DataError(f"--log-file {path}: cannot be written ({error.strerror}).") from None

    def write(self, line: str) -> None:
        """Add a line."""
        with self._lock:
            try:
                self._add(line.encode() + b"\n")
                self._trouble = False
            except OSError as error:
                if not self._trouble:
                    self._say(f"--log-file {self._path}: cannot be written ({error.strerror}).")
                self._trouble = True

    def _add(self, data: bytes) -> None:
        if self._file.closed:  # none could be opened when it was rotated
            self._file = self._path.open("ab", buffering=0)
        if self._file.tell() and self._file.tell() + len(data) > self._size:
            self._rotate()
        self._file.write(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rotate(self) -> None:
        """Let every file take the next number; the last one goes."""
        self._file.close()
        name = self._path.name
        older_files = [self._path.with_name(f"{name}.{k}") for k in range(1, self._keep + 1)]
        names = [self._path, *older_files]
        for older, newer in reversed(list(pairwise(names))):
            if older.exists():
                older.replace(newer)
        self._file = self._path.open("ab", buffering=0)


def _duration(seconds: float) -> str:
    """Return a time in the unit that people would use.

    >>> [_duration(seconds) for seconds in (7.4, 130, 9000)]
    ['7 s', '2 min', '2.5 h']
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
