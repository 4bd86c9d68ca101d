"""Conversations as generators that say what they wait for, so that one thread can carry those of all links in turns.

A thread for each link is easier to read, but where many peers share a machine they wake each other all the time: every
frame finds the caches cold. Carried in turns, what has come meanwhile on all links is dealt with in one go.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

__all__ = ["READ", "WRITE", "Alone", "Carry", "InTurns", "Talk", "Turn", "Wait", "carried_alone"]

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_Result = TypeVar("_Result")
_LOOK = 10.0  # seconds after which who waits for a turn looks whether it is still carried


class Wait(NamedTuple):
    """What a talk waits for, and how long: READ or WRITE, late is too late; 0 for a pause that `Turn.wake` may end."""

    events: int
    seconds: float


Talk = Generator[Wait, bool, _Result]  # it is told whether a pause lasted to its end


class Connection(Protocol):
    """A connection over which a talk goes."""

    def fileno(self) -> int:
        """Of its socket."""

    def sip(self) -> None:
        """Take in what came although nobody waits for it; raises if the connection was closed."""


class Turn:
    """One talk over one connection, while it is carried."""

    def __init__(self, talk: Talk[None], connection: Connection) -> None:
        self.talk, self.connection = talk, connection
        self.wait, self.until, self.events = Wait(0, 0.0), 0.0, READ
        self.error: BaseException | None = None
        self.over = threading.Event()
        self.awake = threading.Event()
        self.carrier: InTurns | None = None

    def wake(self) -> None:
        """End its pause, if it makes one; any thread may."""
        if self.carrier is not None:
            self.carrier.wake(self)
        else:
            self.awake.set()


class Carry(Protocol):
    """Carries turns."""

    def __call__(self, turn: Turn) -> None:
        """Carry it to its end, and return then; raises what it raises."""


class Alone:
    """Every talk in the thread that brings it: for large models, whose bytes then flow on as many cores as there are."""

    def start(self) -> None:
        """Nothing to begin."""

    def stop(self) -> None:
        """Nothing to end."""

    def __call__(self, turn: Turn) -> None:
        """Carry it here."""
        carried_alone(turn.talk, turn.connection, turn.awake)


def carried_alone(talk: Talk[_Result], connection: Connection, awake: threading.Event | None = None) -> _Result:
    """Carry a talk to its end in the calling thread."""
    poll = select.poll()
    try:
        wait = next(talk)
        while True:
            if wait.events:
                poll.register(connection.fileno(), select.POLLIN if wait.events == READ else select.POLLOUT)
                ready = poll.poll(1000 * wait.seconds)
                wait = talk.send(False) if ready else talk.throw(_silence(wait))
            else:
                assert awake is not None  # pauses are made by links only
                over = not awake.wait(wait.seconds)
                awake.clear()
                wait = talk.send(over)
    except StopIteration as end:
        result: _Result = end.value
        return result


class InTurns(threading.Thread):
    """One thread for all talks."""

    def __init__(self) -> None:
        super().__init__(name="links", daemon=True)
        self._turns: set[Turn] = set()
        self._woken: deque[Turn] = deque()
        self._rung = self._stopping = False

    def start(self) -> None:
        """Begin."""
        self._selector = selectors.DefaultSelector()
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._selector.register(self._bell, READ, None)
        super().start()

    def __call__(self, turn: Turn) -> None:
        """Carry a turn; the calling thread sleeps meanwhile."""
        turn.carrier = self
        self.wake(turn)
        while not turn.over.wait(_LOOK):
            if not self.is_alive():
                raise ConnectionError("the thread that carries the links has ended")
        if turn.error is not None:
            raise turn.error

    def wake(self, turn: Turn) -> None:
        """End a turn's pause."""
        self._woken.append(turn)
        self._ring()

    def stop(self) -> None:
        """End once the last talk has."""
        if self.ident is not None:
            self._stopping = True
            self._ring()
            self.join()

    def run(self) -> None:
        """Turn after turn."""
        try:
            while not self._stopping or self._turns or self._woken:
                self._selector.select(self._patience())
                _let_others_go_first()
                for key, _ in self._selector.select(0):
                    turn: Turn | None = key.data
                    if turn is None:
                        self._bell.recv(64)
                    elif turn.wait.events:
                        self._go_on(turn, partial(turn.talk.send, False))
                    else:
                        self._sip(turn)
                self._rung = False  # before looking: who rings from here on rings again
                while self._woken:
                    self._stir(self._woken.popleft())
                now = time.monotonic()
                for turn in [turn for turn in self._turns if turn.until <= now]:
                    self._time_is_up(turn)
        finally:
            self._rung = True  # nobody rings any more
            for turn in [*self._turns, *self._woken]:
                self._leave(turn, ConnectionError("stopped"))
            for end in (self._selector, self._bell, self._rope):
                end.close()

    def _ring(self) -> None:
        if not self._rung:
            self._rung = True
            self._rope.send(b"!")

    def _patience(self) -> float | None:
        if not self._turns:
            return None
        return max(0.0, min(turn.until for turn in self._turns) - time.monotonic())

    def _stir(self, turn: Turn) -> None:
        if turn.over.is_set():
            return
        if turn not in self._turns:
            self._turns.add(turn)
            self._selector.register(turn.connection.fileno(), READ, turn)
            self._go_on(turn, partial(next, turn.talk))
        elif not turn.wait.events:
            self._go_on(turn, partial(turn.talk.send, False))

    def _time_is_up(self, turn: Turn) -> None:
        if turn.wait.events:
            self._go_on(turn, partial(turn.talk.throw, _silence(turn.wait)))
        else:
            self._go_on(turn, partial(turn.talk.send, True))

    def _sip(self, turn: Turn) -> None:
        """Something came in a pause: most likely the end of the connection."""
        try:
            turn.connection.sip()
        except OSError as error:
            self._go_on(turn, partial(turn.talk.throw, error))

    def _go_on(self, turn: Turn, step: Callable[[], Wait]) -> None:
        """Let a talk go on until it waits again."""
        try:
            turn.wait = step()
        except StopIteration:
            self._leave(turn, None)
        except BaseException as raised:  # noqa: BLE001  # raised again where the turn came from
            self._leave(turn, raised)
        else:
            turn.until = time.monotonic() + turn.wait.seconds
            events = turn.wait.events or READ
            if events != turn.events:
                turn.events = events
                self._selector.modify(turn.connection.fileno(), events, turn)

    def _leave(self, turn: Turn, error: BaseException | None) -> None:
        if turn in self._turns:
            self._turns.remove(turn)
            self._selector.unregister(turn.connection.fileno())
        turn.error = error
        turn.over.set()


def _let_others_go_first() -> None:
    """Where the processor is short: what they send meanwhile is dealt with in the same go, which halves the goes."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()


def _silence(wait: Wait) -> TimeoutError:
    return TimeoutError(f"nothing moved for {wait.seconds:.1f} s")
