"""Work that goes on beside a training peer, again and again, in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Background"]


class Background(ABC):
    """Calls `work` after a first pause, then after each pause it asks for, within a `with`."""

    def __init__(self, name: str, pause: float) -> None:
        self._first, self._over = pause, threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def work(self) -> float | None:
        """Work once; return the seconds until the next call, None to end."""

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
