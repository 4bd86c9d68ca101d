"""What a signal's handler raises must not cut a frame in two: it waits until the step under way is done."""

from __future__ import annotations

import threading
from types import TracebackType

__all__ = ["SHIELD", "Shield"]


class Shield(threading.local):
    """Within `with SHIELD`, what the same thread throws is kept; it is raised at the end of the outermost.

    Handlers of signals run in the main thread, between any two of its steps, so they `throw` in place of raising.
    """

    _depth = 0
    _kept: BaseException | None = None

    def throw(self, error: BaseException) -> None:
        """Raise it now, or as soon as it does no harm."""
        if not self._depth:
            raise error
        self._kept = error

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if self._kept is not None and not self._depth:
            kept, self._kept = self._kept, None
            raise kept


SHIELD = Shield()
