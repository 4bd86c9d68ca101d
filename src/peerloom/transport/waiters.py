"""Those who wait for something to change: who they are, and when they are woken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Waiters"]


class Waiters:
    """Threads that wait, each with what wakes it and whether arrivals are worth it. The table's lock guards all of it."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], None], Callable[[], bool]]] = []
        self.version = 0  # it grows with whatever those who wait may want to see

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @contextmanager
    def waiting(self, wake: Callable[[], None], ripe: Callable[[], bool]) -> Iterator[None]:
        """While somebody waits: `wake` is called on any change, or on arrivals once it is `ripe`."""
        entry = (wake, ripe)
        self._waiting.append(entry)
        try:
            yield
        finally:
            self._waiting.remove(entry)

    def wake_all(self) -> None:
        """Something changed that anybody who waits must see."""
        self.version += 1
        for wake, _ in self._waiting:
            wake()

    def arrived(self) -> None:
        """Something came, or something that was sent is settled: who waits for more than this is left asleep."""
        self.version += 1
        for wake, ripe in self._waiting:
            if ripe():
                wake()
