"""What moves frames between boards: the protocol that an endpoint needs of it, and the one that uses TLS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from .board import Board
from .link import Credentials, OutLink
from .listener import Listener
from .turns import Alone, InTurns

__all__ = ["Carrier", "TlsCarrier"]

_GOODBYE = 0.5  # seconds in which all links together may finish what they are at


class Carrier(Protocol):
    """What moves frames between boards, and passes time."""

    @property
    def port(self) -> int:
        """Where it listens; 0 if nowhere."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End, and leave nothing behind."""

    def wake(self, peer: str) -> None:
        """There is something to send to this peer."""

    def push(self) -> None:
        """Let what was woken go, now, if the calling thread is to see to it; call it without the board's lock."""

    def rest(self, seconds: float, ripe: Callable[[], bool]) -> None:
        """Wait, with the board's lock held, until the board changes or the time is over; arrivals that leave `ripe` false
        may be slept through.
        """


class TlsCarrier:
    """Threads and sockets: a listener for what comes in, an `OutLink` per neighbour."""

    def __init__(self, board: Board, credentials: Credentials, listen: tuple[str, int]) -> None:
        self._board, self._credentials = board, credentials
        largest = max(channel.longest for channel in board.run.channels.values())
        self._carry: InTurns | Alone = InTurns() if largest <= board.settings.turns else Alone()
        self._listener = Listener(board, credentials, self._carry, listen)
        self._links: dict[str, OutLink] = {}
        self._started = self._stopped = False
        self.port = self._listener.port
        board.rewire = self._rewire

    def start(self) -> None:
        """Listen and dial."""
        if not self._started:
            self._started = True
            self._carry.start()
            self._listener.start()
            self._rewire()

    def stop(self) -> None:
        """Say goodbye to all and end every thread."""
        with self._board.lock:
            stopped, self._stopped = self._stopped, True
            links = list(self._links.values())
        if stopped:
            return
        self._carry.resign()  # who calls this will not carry the goodbyes
        for link in links:
            link.stop()
        end = time.monotonic() + _GOODBYE
        for link in links:
            link.end(max(0.0, end - time.monotonic()))
        self._listener.stop()
        self._carry.stop()

    def wake(self, peer: str) -> None:
        """There is something to send to this peer."""
        link = self._links.get(peer)
        if link is not None:
            link.wake()

    def push(self) -> None:
        """Let what was woken go, if this thread carries the links while it waits."""
        self._carry.push()

    def rest(self, seconds: float, ripe: Callable[[], bool]) -> None:
        """Wait, with the lock held, until it is ripe, links or rosters change, or the time is over."""
        self._board.sleep(max(seconds, 0.0), ripe, self._carry.claim())

    def _rewire(self) -> None:
        board = self._board
        with board.lock:
            if not self._started or self._stopped:
                return
            gone = [self._links.pop(peer) for peer in list(self._links) if board.closed("out", peer)]
            for link in gone:
                link.stop()
                late = threading.Timer(_GOODBYE, link.cut)
                late.daemon = True
                late.start()
            for link in self._links.values():
                link.wake()  # a newer roster is to be passed on
            for peer in board.outboxes:
                if peer not in self._links and not board.barred(peer):
                    self._links[peer] = OutLink(board, self._credentials, self._carry, peer)
                    self._links[peer].start()
        self._listener.rewire()
