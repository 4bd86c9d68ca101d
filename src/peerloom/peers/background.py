"""Work that goes on beside a training peer, again and again, in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Background"]


class Background(ABC):
    """Does its work after the first pause, and again after those it asks for, as long as a `with` lasts."""

    def __init__(self, name: str, pause: float) -> None:
        self._first, self._over = pause, threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def work(self) -> float | None:
        """Once; the seconds until there is more to do, None if there never will be."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        pause: float | None = self._first
        while pause is not None and not self._over.wait(pause):
            pause = self.work()
