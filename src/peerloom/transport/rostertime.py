"""For how long a roster is good, and what is said when that ends."""

from __future__ import annotations

import time

__all__ = ["GRACE_DAYS", "VALID_DAYS", "WARN_DAYS", "day_of", "expired", "expiry", "warning"]

VALID_DAYS = 90
"""Unless the founders say otherwise."""
WARN_DAYS, GRACE_DAYS = 14, 7
_DAY = 86400


def expiry(now: float | None, days: float) -> int:
    """The Unix time so many days from now."""
    return int((time.time() if now is None else now) + days * _DAY)


def expired(expires: int, now: float) -> bool:
    """Whether that time is over, with some days' grace for clocks that differ; 0 is never."""
    return expires > 0 and expires + GRACE_DAYS * _DAY < now


def day_of(expires: int) -> str:
    """That time as a date, in UTC; 'ever' if there is none."""
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(expires)) if expires else "ever"
    except (OverflowError, ValueError, OSError):  # beyond the calendar of this machine
        return "the end of all calendars"


def warning(version: int, expires: int, now: float) -> str:
    """What to say about a roster's time: empty while there is plenty of it."""
    if not expires or now < expires - WARN_DAYS * _DAY:
        return ""
    day = day_of(expires)
    renew = "A founder renews it: peerloom peer roster renew."
    if expired(expires, now):
        return (
            f"Version {version} of the roster was good until {day}: no run begins and nobody "
            f"joins; a run under way goes on. {renew}"
        )
    return f"Version {version} of the roster is good until {day}. {renew}"
