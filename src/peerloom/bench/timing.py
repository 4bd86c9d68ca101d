"""Timing on a noisy machine: contenders take turns, and the best turn of each counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

__all__ = ["best_of", "interleaved", "turns"]

_TURN = 0.15  # seconds of a turn, long enough to include the draws for up to 256 rounds ahead
_REST = 0.2  # seconds between turns: OpenBLAS's threads spin on and would slow the next contender
_FEWEST = 4  # turns of each contender, however slow
_MOST = 200


def interleaved(contenders: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return milliseconds per call of each contender, the best of turns of `seconds` in all.

    Noise only ever adds time, so the least is the closest to the truth.
    """
    return {name: min(found) for name, found in turns(contenders, seconds).items()}


def turns(contenders: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """Return milliseconds per call of each contender in every turn, of `seconds` in all.

    Because turns alternate, a slow spell of the machine hits all contenders alike.
    """
    calls: dict[str, int] = {}
    for name, call in contenders.items():
        call()  # the first call builds caches and threads
        calls[name] = max(1, round(_TURN / max(_seconds(call, 1), 1e-6)))
    found: dict[str, list[float]] = {name: [] for name in contenders}
    end = time.perf_counter() + seconds
    for turn in range(_MOST):
        if turn >= _FEWEST and time.perf_counter() > end:
            break
        for name, call in contenders.items():
            time.sleep(_REST)
            call()  # so that its numbers are in the cache again, where those of the others are now
            found[name].append(1000 * _seconds(call, calls[name]))
    return found


def best_of(call: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several calls."""
    return min(_seconds(call, 1) for _ in range(repeats))


def _seconds(call: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times
