"""The listening socket: one thread per handshake; nothing is read before a key is proved."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable

from ..errors import PeerError
from .connection import Connection, tune
from .conversation import Conversation
from .frames import FrameError
from .links import LinkTable
from .roster import parse_address
from .tls import Credentials, peer_of, reason_of
from .tls_stream import TlsStream, cut
from .types import RefusedError

__all__ = ["Listener"]

_SWEEP = 0.25  # seconds between two checks for handshakes that take too long
_QUIET = 2.0  # the same while there is no handshake
_BACKLOG = 256


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
        listen: tuple[str, int],
    ) -> None:
        self._table, self._credentials, self._add, self._lost = table, credentials, add, lost
        try:
            family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
            self._socket = socket.create_server(listen, family=family, backlog=_BACKLOG)
        except OSError as error:
            where = f"{listen[0]}:{listen[1]}"
            raise PeerError(
                f"Cannot listen on {where} ({error}). Choose another address or port."
            ) from None
        self.port: int = self._socket.getsockname()[1]
        self._guard = threading.Lock()
        self._unfinished: dict[socket.socket, tuple[float, str]] = {}
        self._proven: set[str] = set()  # addresses from which a neighbour has come
        self._stopping = threading.Event()
        self._threads: set[threading.Thread] = set()
        self._thread = threading.Thread(target=self._accept, name="listener", daemon=True)

    def start(self) -> None:
        """Start to accept connections."""
        self._thread.start()

    def stop(self) -> None:
        """Stop accepting, and end all handshakes."""
        self._stopping.set()
        cut(self._socket)  # wakes the thread that accepts
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()
        with self._guard:
            for sock in self._unfinished:
                cut(sock)
        for thread in list(self._threads):
            thread.join(self._table.settings.dead)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            self._socket.settimeout(_SWEEP if self._sweep() else _QUIET)
            try:
                sock, address = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._stopping.is_set():
                    return
                time.sleep(_SWEEP)  # for example: no file descriptor free
                continue
            if self._flooded(address[0]):
                self._table.refuse("", "handshake_flood")
                sock.close()
                continue
            with self._guard:
                self._unfinished[sock] = (time.monotonic(), address[0])
            thread = threading.Thread(
                target=self._serve, args=(sock,), name="from-unknown", daemon=True
            )
            self._threads.add(thread)
            thread.start()

    def _flooded(self, address: str) -> bool:
        """Whether there is no room for one more handshake.

        Addresses of members and proven neighbours have room that strangers cannot take.
        """
        settings = self._table.settings
        members = {
            parse_address(place)[0]
            for member in self._table.roster.members
            for place in member.addresses
        }
        with self._guard:
            per_address = Counter(where for _, where in self._unfinished.values())
            known = members | self._proven
            strangers = sum(count for where, count in per_address.items() if where not in known)
        full = address not in known and strangers >= settings.handshakes
        return full or per_address[address] >= settings.handshakes_per_address

    def _sweep(self) -> int:
        """Cut handshakes that take too long as a whole; how many are under way.

        One that drips byte by byte would never run into the socket's timeout.
        """
        oldest = time.monotonic() - self._table.settings.handshake
        with self._guard:
            for sock, (since, _) in self._unfinished.items():
                if since < oldest:
                    cut(sock)
            return len(self._unfinished)

    def _finished(self, sock: socket.socket, proven: bool = False) -> None:
        with self._guard:
            found = self._unfinished.pop(sock, None)
            if found is not None and proven:
                self._proven.add(found[1])

    def _serve(self, sock: socket.socket) -> None:
        table, settings = self._table, self._table.settings
        peer, late = "", time.monotonic() + settings.handshake
        try:
            congestion = tune(sock, settings.dead, settings.congestion)
            roster = table.roster
            stream = TlsStream(sock, self._credentials.server(roster), server_side=True)
            stream.handshake(late)
            peer = peer_of(stream, roster)
            talk = Conversation(table, peer, dialled=False, now=time.monotonic())
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
            if not isinstance(error, (OSError, PeerError)):
                raise
        else:
            self._finished(sock, proven=True)
            self._add(connection)
        finally:
            self._finished(sock)
            self._threads.discard(threading.current_thread())

    def _refuse(self, peer: str, sock: socket.socket, error: BaseException, late: float) -> None:
        table = self._table
        if isinstance(error, FrameError):
            table.refuse(peer, error.reason)
        elif isinstance(error, RefusedError):
            if error.why != "crossed":
                table.refuse(peer, error.why)
        elif isinstance(error, PeerError):
            table.refuse(peer, "roster", str(error))
        elif (
            isinstance(error, OSError) and not self._stopping.is_set() and sock in self._unfinished
        ):
            why = "handshake_timeout" if time.monotonic() >= late else reason_of(error)
            # A member may have been reached by another connection meanwhile.
            if not peer or why != "closed":
                table.refuse(peer, why)
