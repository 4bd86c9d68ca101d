"""Turning control round: a rule asks for gradients, a loop that somebody else wrote tells them.

The rule runs in a thread of its own, the loop keeps the one it has, and one of the two always
waits. So engines and sessions stay as they are.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from torch import Tensor

__all__ = ["Asked", "Left", "Question", "Seam"]

_PATIENCE = 10.0  # seconds in which a rule's thread may end once the loop has left


class Question(NamedTuple):
    """What a gradient is wanted for. Two questions that are equal want the same samples."""

    client: int
    round: int
    """Round 0 is the rule's start; -1 where all samples are asked for, in whatever round."""
    batch: int | Literal["all"]
    """Which batch of the round, from 0; "all" are all samples of the client."""


class Asked(NamedTuple):
    """A question about a model: its gradient, or, without a question, what it is worth."""

    x: Tensor
    question: Question | None


class Left(BaseException):
    """The loop has gone; raised in the rule's thread, so that it ends."""


class _End(NamedTuple):
    """How the rule's thread ended."""

    error: BaseException | None


class _Done(NamedTuple):
    """What came of a piece of work that the loop's thread gave to the rule's."""

    error: BaseException | None


class _Work(NamedTuple):
    """Something to do in the rule's thread, which has the links and files."""

    call: Callable[[], None]

    def done(self) -> _Done:
        """Do it."""
        try:
            self.call()
        except Exception as error:  # noqa: BLE001  (raised again in the loop's thread)
            return _Done(error)
        return _Done(None)


class Seam:
    """Two queues between a rule's thread and a loop's."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[Asked | _Done | _End] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._end: _End | None = None
        self.left = False  # whether the loop has gone
        self._thread: threading.Thread | None = None

    def start(self, run: Callable[[], object]) -> None:
        """Run the rule until it is done; what it raises comes out of `next`."""

        def work() -> None:
            error: BaseException | None = None
            try:
                run()
            except BaseException as raised:  # noqa: BLE001  (raised again in the loop's thread)
                error = raised
            self._asked.put(_End(error))

        self._thread = threading.Thread(target=work, daemon=True, name="peerloom-rule")
        self._thread.start()

    def ask(self, what: Asked) -> Any:
        """From the rule: ask, and wait for the answer."""
        if self.left:
            raise Left
        self._asked.put(what)
        while isinstance(answer := self._answers.get(), _Work):
            self._asked.put(answer.done())
        if answer is Left:
            raise Left
        return answer

    def next(self) -> Asked | None:
        """From the loop: what is asked next, or None when the rule is done."""
        if self._end is None:
            found = self._asked.get()
            if isinstance(found, Asked):
                return found
            assert isinstance(found, _End)
            self._end = found
        if self._end.error is not None:
            raise self._end.error
        return None

    def tell(self, answer: Any) -> None:
        """From the loop: answer what was asked."""
        self._answers.put(answer)

    def have_done(self, work: Callable[[], None]) -> None:
        """From the loop, while a question is open: have the rule's thread do something."""
        self._answers.put(_Work(work))
        found = self._asked.get()
        assert isinstance(found, _Done)
        if found.error is not None:
            raise found.error

    def leave(self) -> None:
        """From the loop: answer nothing any more, and let the rule's thread end."""
        self.left = True
        self._answers.put(Left)
        if self._thread is not None:
            self._thread.join(_PATIENCE)
