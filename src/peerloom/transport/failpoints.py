"""Named places where a test may make the program fail: PEERLOOM_FAILPOINTS="mid_body=kill@3,before_rename=sleep:0.2".

Each entry is NAME=ACTION with the actions kill (as kill -9 would), raise (an OSError) and sleep:SECONDS. `@N` acts on the
N-th passing only. Without the variable a passing costs one look into an empty dictionary.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass

from ..errors import ConfigError

__all__ = ["NAMES", "arm", "hit"]

NAMES = (
    "before_send",
    "mid_body",
    "after_send_before_ack",
    "before_apply",
    "after_apply_before_ack",
    "before_rename",
    "after_rename",
)


@dataclass
class _Point:
    action: str
    seconds: float
    only: int | None
    passed: int = 0


def _parse(text: str) -> dict[str, _Point]:
    points = {}
    for entry in filter(None, text.split(",")):
        name, _, rest = entry.strip().partition("=")
        action, _, nth = rest.partition("@")
        action, _, seconds = action.partition(":")
        try:
            point = _Point(action, float(seconds or 0), int(nth) if nth else None)
        except ValueError:
            point = _Point("", 0, None)
        if name not in NAMES or point.action not in ("kill", "raise", "sleep"):
            raise ConfigError(
                f"PEERLOOM_FAILPOINTS holds '{entry}'; use NAME=kill, NAME=raise or NAME=sleep:SECONDS, and @N if wanted. "
                f"Names: {', '.join(NAMES)}."
            )
        points[name] = point
    return points


_points = _parse(os.environ.get("PEERLOOM_FAILPOINTS", ""))
_lock = threading.Lock()


def arm(text: str) -> None:
    """Set the failpoints of this process, as the variable would; an empty text disarms all."""
    global _points
    _points = _parse(text)


def hit(name: str) -> None:
    """Pass a failpoint."""
    if not _points or (point := _points.get(name)) is None:
        return
    with _lock:
        point.passed += 1
        due = point.only in (None, point.passed)
    if not due:
        return
    if point.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if point.action == "raise":
        raise OSError(f"failpoint {name}")
    time.sleep(point.seconds)
