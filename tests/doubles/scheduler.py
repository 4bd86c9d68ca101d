"""Threads that take turns in an order drawn from a seed, so that interleavings repeat."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from peerloom.transport.links import LinkTable

if TYPE_CHECKING:
    from peerloom.transport import Endpoint

__all__ = ["CrashedError", "Scheduler"]


class CrashedError(BaseException):
    """The test ended this life of the peer; its memory is lost.

    Not an `Exception`, so that nothing catches it by accident.
    """


@dataclass
class _Runner:
    peer: str
    until: float = 0.0  # when it wants to work again at the latest
    table: LinkTable | None = None
    seen: int = -1
    crashed: bool = False
    finished: bool = False
    result: object = None
    error: BaseException | None = None
    thread: threading.Thread | None = field(default=None)


class Scheduler:
    """Runs one function per peer, one at a time; time passes when all of them wait."""

    def __init__(
        self,
        lock: threading.RLock,
        draws: random.Random,
        move: Callable[[float], None],
        clock: Callable[[], float],
    ) -> None:
        self._turn = threading.Condition(lock)
        self._random, self._move, self._clock = draws, move, clock
        self._runners: dict[str, _Runner] = {}
        self._holder: _Runner | None = None
        self.running = False

    def run(
        self, programs: dict[str, Callable[[Endpoint], object]], begin: Callable[[str], Endpoint]
    ) -> dict[str, object]:
        """Run all to their end; raises the first error of any."""
        with self._turn:
            self._runners = {peer: _Runner(peer) for peer in programs}
            self.running = True
            try:
                for peer, runner in self._runners.items():
                    runner.thread = threading.Thread(
                        target=self._work, args=(runner, programs[peer], begin), daemon=True
                    )
                    runner.thread.start()
                self._hand_on()
                while not all(runner.finished for runner in self._runners.values()):
                    self._turn.wait()
            finally:
                self.running = False
        for runner in self._runners.values():
            if runner.error is not None:
                raise runner.error
        return {peer: runner.result for peer, runner in self._runners.items()}

    def park(self, table: LinkTable, until: float) -> None:
        """The peer that works waits for its table to change, or for a moment."""
        runner = self._runners[table.me]
        runner.table, runner.seen, runner.until = table, table.waiters.version, until
        self._hand_on()
        self._await(runner)

    def crash(self, peer: str, until: float) -> None:
        """End the present life of a peer's function; the next begins at this moment."""
        runner = self._runners.get(peer)
        if runner is not None and not runner.finished:
            runner.crashed, runner.until, runner.table = True, until, None

    def _await(self, runner: _Runner) -> None:
        while self._holder is not runner:
            self._turn.wait()
            if runner.finished:
                raise CrashedError("all is over")
        if runner.crashed:
            runner.crashed = False
            raise CrashedError(f"{runner.peer[:7]} crashed")

    def _work(
        self,
        runner: _Runner,
        program: Callable[[Endpoint], object],
        begin: Callable[[str], Endpoint],
    ) -> None:
        with self._turn:
            self._await(runner)
        while True:
            try:
                with begin(runner.peer) as endpoint:
                    runner.result = program(endpoint)
                break
            except CrashedError:
                if runner.finished:
                    return
                continue  # it was handed the turn again when its time to start anew had come
            except Exception as error:  # noqa: BLE001  (handed to the caller of run)
                runner.error = error
                break
        with self._turn:
            runner.finished = True
            self._hand_on()
            self._turn.notify_all()

    def _hand_on(self) -> None:
        """Choose who works next; let the network move until somebody can."""
        self._holder = None
        while True:
            waiting = [runner for runner in self._runners.values() if not runner.finished]
            if not waiting:
                return
            now = self._clock()
            ready = [
                runner
                for runner in waiting
                if runner.until <= now
                or (runner.table is not None and runner.table.waiters.version != runner.seen)
            ]
            if ready:
                self._holder = self._random.choice(ready)
                self._turn.notify_all()
                return
            try:
                self._move(min((runner.until for runner in waiting), default=math.inf))
            except Exception as error:  # noqa: BLE001  (of the test itself: handed to the caller of run)
                for runner in waiting:
                    runner.error, runner.finished = error, True
                self._turn.notify_all()
                return
