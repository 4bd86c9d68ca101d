"""Timing on a noisy machine: contenders take turns, and the best turn of each counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

__all__ = ["best_of", "interleaved"]

_TURN = 0.15  # seconds of a turn, long enough to include the draws for up to 256 rounds ahead
_REST = 0.2  # seconds between turns: OpenBLAS's threads spin on and would slow the next contender
_FEWEST = 4  # turns of each contender, however slow
_MOST = 200


def interleaved(contenders: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return milliseconds per call of each contender, the best of turns of `seconds` in all.

    Noise only ever adds time, so the least is the closest to the truth; and because turns
    alternate, a slow spell of the machine hits all contenders alike.
    """
    calls: dict[str, int] = {}
    for name, call in contenders.items():
        call()  # the first call builds caches and threads
        calls[name] = max(1, round(_TURN / max(_seconds(call, 1), 1e-6)))
    best = dict.fromkeys(contenders, float("inf"))
    end = time.perf_counter() + seconds
    for turn in range(_MOST):
        if turn >= _FEWEST and time.perf_counter() > end:
            break
        for name, call in contenders.items():
            time.sleep(_REST)
            call()  # so that its numbers are in the cache again, where those of the others are now
            best[name] = min(best[name], _seconds(call, calls[name]))
    return {name: 1000 * value for name, value in best.items()}


def best_of(call: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several calls."""
    return min(_seconds(call, 1) for _ in range(repeats))


def _seconds(call: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times
