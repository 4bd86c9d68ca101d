"""The receiving ends: one socket that listens, one thread per connection, no word read before a key is proved."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from typing import Any

from ..errors import PeerError
from .board import Board
from .frames import VERSION, FrameError, Kind
from .incoming import Incoming
from .link import Credentials
from .roster import parse_address
from .stream import Stream, tune
from .tls import peer_of, reason_of
from .turns import Carry
from .types import RefusedError

__all__ = ["Listener"]

_SWEEP = 0.25  # seconds between two looks at handshakes that take too long,
_QUIET = 2.0  # and where there are none, until the next look at all
_BACKLOG = 256


class Listener:
    """Answers connections; guards against floods; keeps one connection per incoming link, the newest."""

    def __init__(self, board: Board, credentials: Credentials, carry: Carry, listen: tuple[str, int]) -> None:
        self._board, self._credentials, self._carry = board, credentials, carry
        try:
            family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
            self._socket = socket.create_server(listen, family=family, backlog=_BACKLOG)
        except OSError as error:
            raise PeerError(f"Cannot listen on {listen[0]}:{listen[1]} ({error}). Choose another address or port.") from None
        self.port: int = self._socket.getsockname()[1]
        self._guard = threading.Lock()
        self._unfinished: dict[socket.socket, tuple[float, str]] = {}
        self._current: dict[str, tuple[Stream, int]] = {}
        self._proven: set[str] = set()  # addresses from which a neighbour has come
        self._lives: dict[str, tuple[int, int]] = {}  # incarnation and life of whom we last greeted under this name
        self._stopping = threading.Event()
        self._threads: set[threading.Thread] = set()
        self._thread = threading.Thread(target=self._accept, name="listener", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """End every connection and thread."""
        self._stopping.set()
        _cut(self._socket)  # wakes the thread that accepts
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()
        with self._guard:
            for sock in self._unfinished:
                _cut(sock)
            for stream, _ in self._current.values():
                stream.close()
        with self._board.lock:
            self._board.make_room()
        for thread in list(self._threads):
            thread.join(self._board.settings.dead)

    def rewire(self) -> None:
        """Close the connections of peers that have no link to us any more."""
        with self._board.lock, self._guard:
            for peer, (stream, _) in list(self._current.items()):
                if self._board.closed("in", peer):
                    stream.close()
            # Who was removed and comes back comes as new.
            self._lives = {peer: life for peer, life in self._lives.items() if not self._board.closed("in", peer)}

    # -- connections that are not yet links

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
                self._board.refuse("", "handshake_flood")
                sock.close()
                continue
            with self._guard:
                self._unfinished[sock] = (time.monotonic(), address[0])
            thread = threading.Thread(target=self._serve, args=(sock,), name="from-unknown", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _flooded(self, address: str) -> bool:
        """Whether there is no room for one more. Members' addresses have room of their own, which strangers cannot take."""
        settings = self._board.settings
        members = {parse_address(place)[0] for member in self._board.roster.members for place in member.addresses}
        with self._guard:
            per_address = Counter(where for _, where in self._unfinished.values())
            known = members | self._proven
            strangers = sum(count for where, count in per_address.items() if where not in known)
        full = address not in known and strangers >= settings.handshakes
        return full or per_address[address] >= settings.handshakes_per_address

    def _sweep(self) -> int:
        """A handshake that drips byte by byte never times out by itself; its time as a whole is limited here. How many are
        under way.
        """
        oldest = time.monotonic() - self._board.settings.handshake
        with self._guard:
            for sock, (since, _) in self._unfinished.items():
                if since < oldest:
                    _cut(sock)
            return len(self._unfinished)

    def _finished(self, sock: socket.socket, proven: bool = False) -> None:
        with self._guard:
            found = self._unfinished.pop(sock, None)
            if found is not None and proven:
                self._proven.add(found[1])

    def _serve(self, raw: socket.socket) -> None:
        board, settings = self._board, self._board.settings
        peer, late = "", time.monotonic() + settings.handshake
        try:
            with raw:
                tune(raw, settings.dead, settings.congestion)
                raw.settimeout(settings.handshake)
                roster = board.roster
                with self._credentials.server(roster).wrap_socket(
                    raw, server_side=True, do_handshake_on_connect=False
                ) as sock:
                    with self._guard:  # wrapping moves the descriptor to a new object
                        self._unfinished[sock] = self._unfinished.pop(raw)
                    raw = sock
                    sock.do_handshake()
                    peer = peer_of(sock, roster)
                    stream = Stream(sock, settings.handshake)
                    incarnation = self._greet(stream, peer)
                    self._finished(sock, proven=True)
                    threading.current_thread().name = f"from-{board.name(peer)}"
                    Incoming(board, stream, peer, incarnation).run(self._carry, self.dismiss)
        except FrameError as error:
            board.refuse(peer, error.reason)
        except RefusedError as error:
            board.refuse(peer, error.why)
        except PeerError as error:
            board.refuse(peer, "roster", str(error))
        except OSError as error:
            if not self._stopping.is_set() and raw in self._unfinished:  # a link that went down has told so itself
                board.refuse(peer, "handshake_timeout" if time.monotonic() >= late else reason_of(error))
        finally:
            self._finished(raw)
            self._threads.discard(threading.current_thread())

    def _greet(self, stream: Stream, peer: str) -> int:
        board = self._board
        try:
            frame = stream.read()
        except FrameError as error:
            if error.reason == "protocol_version":  # a later version may still read this answer, and tell its people
                stream.send(Kind.REFUSE, {"seq": 0, "why": error.reason})
            raise
        if frame.kind is not Kind.HELLO:
            raise FrameError("out_of_turn", frame.kind.name)
        why = self._objection(peer, frame.header)
        if why:
            stream.send(Kind.REFUSE, {"seq": 0, "why": why})
            raise RefusedError(why)
        incarnation: int = frame.header["incarnation"]
        with board.lock, self._guard:
            if self._stopping.is_set():  # what `stop` closed did not include it, and nobody would ever end it
                raise ConnectionError("stopped")
            old = self._current.pop(peer, None)
            self._current[peer] = (stream, incarnation)
            self._lives[peer] = (incarnation, frame.header["life"])
            inbox = board.inboxes[peer]
            last, want = list(inbox.last), inbox.want
        if old is not None:
            old[0].close()
            if old[1] != incarnation:
                board.tell("alarm", peer, f"{board.name(peer)} was started a second time while its first link was open")
        mine = {"incarnation": board.incarnation, "roster_version": board.newest.version}
        stream.send(Kind.HELLO_OK, {"last": last, "want": want, **mine})
        return incarnation

    def _objection(self, peer: str, hello: dict[str, Any]) -> str:
        board = self._board
        lowest, highest = hello["versions"]
        with board.lock:
            known = board.newest
            if not lowest <= VERSION <= highest:
                return "protocol_version"
            if hello["run"] != board.run.run_id:
                return "wrong_run"
            if hello["agreement"] != board.run.agreement:
                return "wrong_spec"
            if peer not in board.inboxes or board.barred(peer):
                return "not_a_neighbour"
            if hello["roster_version"] == known.version and hello["roster"] != known.hash:
                return "roster_fork"
            incarnation, life = self._lives.get(peer, (0, 0))
            if hello["incarnation"] == incarnation and hello["life"] != life:
                return "identity_conflict"
            return "old_incarnation" if hello["incarnation"] < max(incarnation, board.inboxes[peer].last[0]) else ""

    def dismiss(self, peer: str, stream: Stream) -> bool:
        """Forget a connection that ended; whether it was the link's current one."""
        with self._guard:
            mine = peer in self._current and self._current[peer][0] is stream
            if mine:
                del self._current[peer]
            return mine


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
