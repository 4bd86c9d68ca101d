"""Budgets that fill up with time."""

from __future__ import annotations

__all__ = ["Bucket"]


class Bucket:
    """Holds up to `burst` tokens and gets `rate` more every second; full at first."""

    __slots__ = ("_burst", "_level", "_rate", "_when")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst, self._level, self._when = rate, burst, burst, 0.0

    def take(self, count: float, now: float) -> float:
        """Take so much, if need be on credit; the seconds until that is paid back."""
        self._fill(now)
        self._level -= count
        return max(0.0, -self._level / self._rate)

    def spare(self, count: float, now: float) -> bool:
        """Take so much if it is there; whether it was."""
        self._fill(now)
        if self._level < count:
            return False
        self._level -= count
        return True

    def earn(self, count: float) -> None:
        """Put some back."""
        self._level = min(self._burst, self._level + count)

    def _fill(self, now: float) -> None:
        self.earn(self._rate * max(0.0, now - self._when))
        self._when = now
