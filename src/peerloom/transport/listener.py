"""The listening socket: one thread per handshake; nothing is read before a key is proved."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from ..errors import PeerError
from .connection import Connection, tune
from .conversation import Conversation
from .frames import FrameError
from .known_addresses import KnownAddresses, same_form
from .links import LinkTable
from .tls import Credentials, greeting_of, peer_of, reason_of
from .tls_stream import Carrier, TlsStream, cut
from .types import RefusedError
from .unfinished import Unfinished

__all__ = ["Listener"]

_SWEEP = 0.25  # seconds between two checks for handshakes that take too long
_QUIET = 2.0  # the same while there is no handshake
_BACKLOG = 256
_ADDRESSES = 16  # of one neighbour that are remembered


class Listener:
    """Accepts connections, limits floods, and hands every greeted connection to `add`.

    `lost` is called with a peer whose greeting failed, so that it is dialled.
    """

    def __init__(
        self,
        table: LinkTable,
        credentials: Credentials,
        add: Callable[[Connection], None],
        lost: Callable[[str], None],
        listen: tuple[str, int] | None,
    ) -> None:
        self._table, self._credentials, self._add, self._lost = table, credentials, add, lost
        self._socket = None if listen is None else _listening(listen)
        self.port: int = 0 if self._socket is None else self._socket.getsockname()[1]
        self._guard = threading.Lock()
        self._direct = self._room(table.settings.handshakes, self._knows)
        # The same through each relay, with the caller that it names in place of an address.
        self._called: dict[str, Unfinished[Carrier]] = {}
        self._proven: dict[str, deque[str]] = {}  # by neighbour, from where it came last
        self._members = KnownAddresses(lambda: table.roster)
        self._stopping = threading.Event()
        self._threads: set[threading.Thread] = set()
        self._thread = threading.Thread(target=self._accept, name="listener", daemon=True)

    def start(self) -> None:
        """Start to accept connections."""
        self._members.start()
        self._thread.start()

    def admit(self, carrier: Carrier, caller: str, way: str) -> None:
        """Serve a stream on which a relay says that this member calls.

        Room is counted by relay and caller: all streams of a relay have its address, and it may
        name anybody, but no relay takes the room of another.
        """
        with self._guard:
            room = self._called.setdefault(way, self._room(2 * self._table.settings.handshakes))
        self._take_in(room, carrier, caller, caller, way)

    def stop(self) -> None:
        """Stop accepting, and end all handshakes."""
        self._stopping.set()
        self._members.stop()
        if self._socket is not None:
            cut(self._socket)  # wakes the thread that accepts
        if self._thread.ident is not None:
            self._thread.join()
        if self._socket is not None:
            self._socket.close()
        with self._guard:
            for room in self._rooms():
                for carrier in room:
                    cut(carrier)
        for thread in list(self._threads):
            thread.join(self._table.settings.dead)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            pause = _SWEEP if self._sweep() else _QUIET
            if self._socket is None:
                self._stopping.wait(_SWEEP)
                continue
            self._socket.settimeout(pause)
            try:
                sock, address = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._stopping.is_set():
                    return
                time.sleep(_SWEEP)  # for example: no file descriptor free
                continue
            self._take_in(self._direct, sock, same_form(address[0]))

    def _room(
        self, most: int, known: Callable[[str], bool] = lambda address: False
    ) -> Unfinished[Carrier]:
        settings = self._table.settings
        return Unfinished(most, settings.handshakes_per_address, settings.handshake / 10, known)

    def _rooms(self) -> list[Unfinished[Carrier]]:
        return [self._direct, *self._called.values()]

    def _take_in(
        self,
        room: Unfinished[Carrier],
        carrier: Carrier,
        where: str,
        caller: str = "",
        way: str = "direct",
    ) -> None:
        """Serve a connection, in place of another one if there is no room."""
        with self._guard:
            stopping = self._stopping.is_set()
            out = carrier if stopping else room.enter(carrier, where, time.monotonic())
            if out is not None and out is not carrier:
                cut(out)
        if out is not None and not stopping:
            self._table.refuse("", "handshake_flood")
        if out is carrier:
            carrier.close()
            return
        thread = threading.Thread(
            target=self._serve, args=(carrier, caller, way), name="from-unknown", daemon=True
        )
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # no thread is free: whoever it was comes again
            self._threads.discard(thread)
            self._finished(carrier)
            carrier.close()

    def _knows(self, address: str) -> bool:
        came = any(address in addresses for addresses in self._proven.values())
        return came or address in self._members

    def _sweep(self) -> int:
        """Cut handshakes that take too long as a whole; how many are under way.

        One that drips byte by byte would never run into the socket's timeout.
        """
        oldest = time.monotonic() - self._table.settings.handshake
        with self._guard:
            for room in self._rooms():
                for carrier in room.older(oldest):
                    cut(carrier)
            return sum(map(len, self._rooms()))

    def _finished(self, carrier: Carrier, proven: str = "") -> None:
        with self._guard:
            for room in self._called.values():
                room.leave(carrier)
            found = self._direct.leave(carrier)
            if found is not None and proven:
                addresses = self._proven.setdefault(proven, deque(maxlen=_ADDRESSES))
                if found not in addresses:
                    addresses.append(found)

    def _serve(self, sock: Carrier, caller: str, way: str) -> None:
        table, settings = self._table, self._table.settings
        roster = table.roster
        peer = caller if roster.has(caller) else ""  # a relay may name anybody
        late = time.monotonic() + settings.handshake
        try:
            stream = TlsStream(sock, self._credentials.server(roster), server_side=True)
            congestion = tune(stream.socket, settings.dead, settings.congestion)
            stream.handshake(late)
            peer = peer_of(stream, roster, caller or None)
            talk = Conversation(table, peer, False, time.monotonic(), greeting_of(stream))
            talk.way = way
            connection = Connection(stream, talk, congestion)
            try:
                connection.greet(late)
            except BaseException as error:
                table.ended(connection.conversation, reason_of(error))
                # It may have been current for a moment, so that no thread dialled the peer.
                self._lost(peer)
                raise
        except BaseException as error:
            self._refuse(peer, sock, error, late)
            sock.close()
            if not isinstance(error, Exception):
                raise
        else:
            self._finished(sock, proven=peer)
            self._add(connection)
        finally:
            self._finished(sock)
            self._threads.discard(threading.current_thread())

    def _refuse(self, peer: str, sock: Carrier, error: BaseException, late: float) -> None:
        table = self._table
        if isinstance(error, FrameError):
            table.refuse(peer, error.reason)
        elif isinstance(error, RefusedError):
            if error.why != "crossed":
                table.refuse(peer, error.why)
        elif isinstance(error, PeerError):
            table.refuse(peer, "roster", str(error))
        elif isinstance(error, OSError) and not self._stopping.is_set() and self._served(sock):
            why = "handshake_timeout" if time.monotonic() >= late else reason_of(error)
            # A member may have been reached by another connection meanwhile.
            if not peer or why != "closed":
                table.refuse(peer, why)
        elif not isinstance(error, OSError):
            table.fault(peer, error)

    def _served(self, carrier: Carrier) -> bool:
        with self._guard:
            return any(carrier in room for room in self._rooms())


def _listening(listen: tuple[str, int]) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        return socket.create_server(listen, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise PeerError(
            f"Cannot listen on {listen[0]}:{listen[1]} ({error}). Choose another address or port."
        ) from None
