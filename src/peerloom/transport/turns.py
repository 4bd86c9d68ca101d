"""Conversations as generators that say what they wait for, so that one thread can carry those of all links in turns.

A thread for each link is easier to read, but where many peers share a machine they wake each other all the time: every
frame finds the caches cold. Carried in turns, what has come meanwhile on all links is dealt with in one go; and best by
the very thread that waits for it.
"""

from __future__ import annotations

import select
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from .shield import SHIELD

__all__ = ["READ", "WRITE", "Alone", "Carry", "InTurns", "Talk", "Turn", "Wait", "carried_alone"]

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_Result = TypeVar("_Result")
_LOOK = 10.0  # seconds after which who waits for a turn looks whether it is still carried
_AWAY = 0.25  # seconds after which a guest who did not come again is no longer counted on


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

    def claim(self) -> None:
        """Nobody else is needed."""

    def resign(self) -> None:
        """Nobody is counted on."""

    def stop(self) -> None:
        """Nothing to end."""

    def push(self) -> None:
        """Whoever is woken goes on by itself."""

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
    """One thread for all talks: this one, or in its place a guest that has to wait for what they bring.

    A peer's engine sends, waits for its neighbours and computes, round after round. While it waits it may as well carry the
    talks itself (`wait`), and what it sends it may send at once (`push`): then nobody has to be woken, and what has come is
    still in the cache when it is used. This thread stands aside meanwhile, and comes back when the guest stays away.
    """

    def __init__(self) -> None:
        super().__init__(name="links", daemon=True)
        self._turns: set[Turn] = set()
        self._woken: deque[Turn] = deque()
        self._rung = self._stopping = False
        # Who carries holds the baton. A turn is queued before `_holder` and `_claimed` are read, and the guest clears
        # `_claimed` before it looks at the queue for the last time: so one of the two sees it.
        self._baton = threading.Lock()
        self._holder = 0  # the thread that has the baton
        self._guest = 0  # the thread that carries whenever it waits
        self._claimed = self._over = False  # whether the guest carries now, or is about to; whether it need not wait longer
        self._stints = 0  # how often a guest has waited
        self._needed = threading.Event()

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
        if self._holder == self.ident or threading.get_ident() != self._guest:  # a guest will see it by itself
            self._ring()
            if not self._claimed:
                self._needed.set()

    def stop(self) -> None:
        """End once the last talk has."""
        if self.ident is not None:
            self._stopping = self._over = True
            self._ring()
            self._needed.set()
            self.join()

    # -- guests

    def claim(self) -> InTurns | None:
        """Be the guest, who must then `wait`; None if another one is, or nobody is left to come back."""
        if self._claimed or self._stopping or not self.is_alive():
            return None
        self._guest, self._claimed, self._over = threading.get_ident(), True, False
        return self

    def wait(self, seconds: float) -> None:
        """As the guest, carry for so long, or until `notify`."""
        end = time.monotonic() + seconds
        try:
            self._take_over()
            while not self._over and (left := end - time.monotonic()) > 0:
                self._go(left)
        finally:
            self._stints += 1
            self._give_back()

    def notify(self) -> None:
        """The guest need not wait any longer."""
        self._over = True
        if threading.get_ident() != self._guest:
            self._ring()

    def push(self) -> None:
        """Let turns that the guest woke go on now: it may be long before it waits again."""
        if self._woken and not self._holder and not self._claimed and threading.get_ident() == self._guest:
            try:
                self._claimed = True
                self._take_over()
                with SHIELD:
                    self._stir_all()
            finally:
                self._give_back()

    def resign(self) -> None:
        """Not to be the guest any more, if the calling thread is; nothing that a signal interrupted is left behind."""
        if threading.get_ident() == self._guest:
            self._give_back()
            self._guest = 0
            self._needed.set()

    def _take_over(self) -> None:
        with SHIELD:
            if not self._baton.acquire(blocking=False):
                self._ring()
                self._baton.acquire()
            self._holder = threading.get_ident()

    def _give_back(self) -> None:
        with SHIELD:
            self._claimed = False
            if self._holder == threading.get_ident():
                self._holder = 0
                self._baton.release()
        if self._woken:  # by somebody who thought that the guest would see it
            self._needed.set()

    def _stand_aside(self) -> None:
        """While a guest carries: until it stays away, or is away when something is to be done."""
        seen = -1
        while not self._stopping and (self._claimed or self._stints != seen):
            seen = self._stints
            if self._needed.wait(_AWAY):
                self._needed.clear()
                if not self._claimed:
                    return

    # -- carrying

    def run(self) -> None:
        """Turn after turn."""
        try:
            while not self._stopping or self._turns or self._woken:
                stints = self._stints
                with self._baton:
                    self._holder = threading.get_ident()
                    self._go(None)
                    self._holder = 0
                if self._claimed or self._stints != stints:
                    self._stand_aside()
        finally:
            with self._baton:
                self._rung = True  # nobody rings any more
                for turn in [*self._turns, *self._woken]:
                    self._leave(turn, ConnectionError("stopped"))
                for end in (self._selector, self._bell, self._rope):
                    end.close()

    def _go(self, longest: float | None) -> None:
        """Wait until a talk can go on, and let all go on that can."""
        ready = self._selector.select(0.0 if self._woken else self._patience(longest))
        with SHIELD:
            for key, _ in ready:
                turn: Turn | None = key.data
                if turn is None:
                    self._bell.recv(64)
                    self._rung = False  # before looking: who rings from here on rings again
                elif turn.wait.events:
                    self._go_on(turn, partial(turn.talk.send, False))
                else:
                    self._sip(turn)
            self._stir_all()
            now = time.monotonic()
            for turn in [turn for turn in self._turns if turn.until <= now]:
                self._time_is_up(turn)

    def _ring(self) -> None:
        if not self._rung:
            self._rung = True
            self._rope.send(b"!")

    def _patience(self, longest: float | None) -> float | None:
        """Seconds until something is too late, or `longest` are over."""
        if not self._turns:
            return longest
        left = max(0.0, min(turn.until for turn in self._turns) - time.monotonic())
        return left if longest is None else min(left, longest)

    def _stir_all(self) -> None:
        while self._woken:
            self._stir(self._woken.popleft())

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
        except BaseException as raised:
            self._leave(turn, raised)
            if not isinstance(raised, Exception):  # meant for whoever carries, and not for the talk
                raise
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


def _silence(wait: Wait) -> TimeoutError:
    return TimeoutError(f"nothing moved for {wait.seconds:.1f} s")
