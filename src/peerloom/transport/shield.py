"""What a signal's handler raises must not cut a frame in two: it waits until the step under way is done."""

from __future__ import annotations

import threading
from types import TracebackType

__all__ = ["SHIELD", "Shield"]


class Shield(threading.local):
    """Within `with SHIELD`, what the same thread throws is kept; it is raised at the end.

    Handlers of signals run in the main thread, between any two of its steps, so they `throw` in place of raising.
    """

    _inside = False
    _kept: BaseException | None = None

    def throw(self, error: BaseException) -> None:
        """Raise it now, or as soon as it does no harm."""
        if not self._inside:
            raise error
        self._kept = error

    def __enter__(self) -> None:
        self._inside = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._inside = False
        kept, self._kept = self._kept, None
        if kept is not None:
            raise kept


SHIELD = Shield()
