"""Work that goes on beside a training peer, again and again, in a thread of its own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

__all__ = ["Background"]


class Background(ABC):
    """Does its work every so many seconds, for as long as a `with` lasts."""

    def __init__(self, name: str, every: float) -> None:
        self._every, self._over = every, threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def work(self) -> bool:
        """Once; False if there is nothing more to do."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every) and self.work():
            pass
