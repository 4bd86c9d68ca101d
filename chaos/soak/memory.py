"""How much memory processes hold, and whether it grows."""

from __future__ import annotations

import contextlib
import statistics
from pathlib import Path

__all__ = ["Samples", "growth_per_hour", "resident"]

Samples = list[tuple[float, float]]
"""(seconds, megabytes) of one process."""


def resident(pid: int) -> float | None:
    """Megabytes of a process that come from no file; None if it has ended.

    Files, such as the libraries of PyTorch, stay in memory as the system likes.
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    return None


def growth_per_hour(samples: Samples) -> float:
    """Megabytes per hour, by the line of least squares.

    >>> growth_per_hour([(0.0, 100.0), (1800.0, 101.0), (3600.0, 102.0)])
    2.0
    """
    times, sizes = zip(*samples, strict=True)
    return 3600 * statistics.linear_regression(times, sizes).slope
