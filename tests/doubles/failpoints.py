"""Named places at which a test makes the program fail: "mid_body=kill@3,before_rename=sleep:0.2".

Each entry is NAME=ACTION with the actions kill (as kill -9 would), raise (an OSError) and
sleep:SECONDS. `@N` acts on the N-th passing only. The package knows nothing of this: `arm` replaces
its methods, in this process only, by ones that pass such a place first. To start a peer with them,
as `python -m peerloom` would:

    PEERLOOM_FAILPOINTS="mid_body=kill@3" python -m tests.doubles.failpoints peer start FILE
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerloom.errors import ConfigError
from peerloom.transport import files
from peerloom.transport.conversation import Conversation
from peerloom.transport.receiver import Arrival, Receiver
from peerloom.transport.sender import Sender

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


_points: dict[str, _Point] = {}
_lock = threading.Lock()
_originals: list[tuple[Any, str, Callable[..., Any]]] = []


def arm(text: str) -> None:
    """Set the failpoints of this process; an empty text restores the program's own methods."""
    points = _parse(text)
    while _originals:
        owner, name, original = _originals.pop()
        setattr(owner, name, original)
    _points.clear()
    _points.update(points)
    if points:
        _replace(Sender, "_data", _sending)
        _replace(Conversation, "sent", _sent)
        _replace(Sender, "next", _next)
        _replace(Receiver, "apply", _applying)
        _replace(files, "rename", _renaming)


def hit(name: str) -> None:
    """Pass a failpoint."""
    point = _points.get(name)
    if point is None:
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


def _sending(original: Callable[..., Any], sender: Sender, *args: Any) -> Any:
    hit("before_send")
    return original(sender, *args)


def _sent(original: Callable[..., Any], conversation: Conversation, count: int) -> None:
    original(conversation, count)
    if conversation._pieces:  # more of the same frame or of the next
        hit("mid_body")


def _next(original: Callable[..., Any], sender: Sender, now: float) -> Any:
    """A caller that asks for more has written what came before."""
    if sender.state == "awaiting" and sender._body is None:
        hit("after_send_before_ack")
    return original(sender, now)


def _applying(original: Callable[..., Any], receiver: Receiver, coming: Arrival) -> Any:
    hit("before_apply")
    answer = original(receiver, coming)
    hit("after_apply_before_ack")
    return answer


def _renaming(original: Callable[..., Any], draft: Path, path: Path) -> None:
    hit("before_rename")
    original(draft, path)
    hit("after_rename")


def _replace(owner: Any, name: str, by: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    _originals.append((owner, name, original))
    setattr(owner, name, lambda *args, **named: by(original, *args, **named))


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
                f"The failpoints hold '{entry}'; use NAME=kill, NAME=raise or NAME=sleep:SECONDS, "
                f"and @N if wanted. Names: {', '.join(NAMES)}."
            )
        points[name] = point
    return points


if __name__ == "__main__":
    from peerloom.cli import main
    from tests.doubles import failpoints

    failpoints.arm(os.environ.get("PEERLOOM_FAILPOINTS", ""))
    main()
