"""The receiving ends: one socket that listens, one thread per connection, no word read before a key is proved."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from typing import Any

import numpy as np

from ..errors import PeerError
from .board import Board
from .failpoints import hit
from .frames import VERSION, FrameError, Kind
from .inbox import Inbox, RefusedError, judge_values
from .link import Credentials
from .stream import Stream, Waiting, tune
from .tls import peer_of, reason_of
from .types import Parcel

__all__ = ["Listener"]

_SWEEP = 0.25  # seconds between two looks at handshakes that take too long
_BACKLOG = 256


class Listener:
    """Answers connections; guards against floods; keeps one connection per incoming link, the newest."""

    def __init__(self, board: Board, credentials: Credentials, listen: tuple[str, int]) -> None:
        self._board, self._credentials = board, credentials
        try:
            family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
            self._socket = socket.create_server(listen, family=family, backlog=_BACKLOG)
        except OSError as error:
            raise PeerError(f"Cannot listen on {listen[0]}:{listen[1]} ({error}). Choose another address or port.") from None
        self._socket.settimeout(_SWEEP)
        self.port: int = self._socket.getsockname()[1]
        self._guard = threading.Lock()
        self._unfinished: dict[socket.socket, tuple[float, str]] = {}
        self._current: dict[str, tuple[Stream, int]] = {}
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
            self._board.room.notify_all()
        for thread in list(self._threads):
            thread.join(self._board.settings.dead)

    def rewire(self) -> None:
        """Close the connections of peers that have no link to us any more."""
        with self._board.lock, self._guard:
            for peer, (stream, _) in list(self._current.items()):
                if peer not in self._board.inboxes or self._board.barred(peer):
                    stream.close()

    # -- connections that are not yet links

    def _accept(self) -> None:
        while not self._stopping.is_set():
            self._sweep()
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
        settings = self._board.settings
        with self._guard:
            per_address = Counter(where for _, where in self._unfinished.values())
            return len(self._unfinished) >= settings.handshakes or per_address[address] >= settings.handshakes_per_address

    def _sweep(self) -> None:
        """A handshake that drips byte by byte never times out by itself; its time as a whole is limited here."""
        oldest = time.monotonic() - self._board.settings.handshake
        with self._guard:
            for sock, (since, _) in self._unfinished.items():
                if since < oldest:
                    _cut(sock)

    def _finished(self, sock: socket.socket) -> None:
        with self._guard:
            self._unfinished.pop(sock, None)

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
                    self._finished(sock)
                    threading.current_thread().name = f"from-{board.name(peer)}"
                    _Incoming(board, stream, peer, incarnation).run(self)
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
        frame = stream.read()
        if frame.kind is not Kind.HELLO:
            raise FrameError("out_of_turn", frame.kind.name)
        why = self._objection(peer, frame.header)
        if why:
            stream.send(Kind.REFUSE, {"seq": 0, "why": why})
            if why in ("roster_fork", "old_incarnation"):
                board.tell("alarm", peer, f"{board.name(peer)} was refused: {why.replace('_', ' ')}")
            raise RefusedError(why)
        incarnation: int = frame.header["incarnation"]
        with board.lock, self._guard:
            old = self._current.pop(peer, None)
            self._current[peer] = (stream, incarnation)
            inbox = board.inboxes[peer]
            last, want = list(inbox.last), inbox.floor[0]
        if old is not None:
            old[0].close()
            if old[1] != incarnation:
                board.tell("alarm", peer, f"{board.name(peer)} was started a second time while its first link was open")
        version = (board.offered or board.roster).version
        stream.send(Kind.HELLO_OK, {"incarnation": board.incarnation, "last": last, "want": want, "roster_version": version})
        return incarnation

    def _objection(self, peer: str, hello: dict[str, Any]) -> str:
        board = self._board
        lowest, highest = hello["versions"]
        with board.lock:
            known = board.roster
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
            return "old_incarnation" if hello["incarnation"] < board.inboxes[peer].last[0] else ""

    def dismiss(self, peer: str, stream: Stream) -> bool:
        """Forget a connection that ended; whether it was the link's current one."""
        with self._guard:
            mine = peer in self._current and self._current[peer][0] is stream
            if mine:
                del self._current[peer]
            return mine


class _Incoming:
    """One connection of one known peer, answered frame by frame."""

    def __init__(self, board: Board, stream: Stream, peer: str, incarnation: int) -> None:
        self._board, self._stream, self._peer, self._incarnation = board, stream, peer, incarnation
        self._edge = board.edges["in", peer]
        self._largest = max(size for channel in board.run.channels.values() for size in channel.sizes)

    def run(self, listener: Listener) -> None:
        board, why = self._board, "closed"
        self._stream.set_patience(board.settings.dead)
        board.went_up(self._edge)
        try:
            while self._answer(self._stream.read()):
                pass
            why = "goodbye"
        except FrameError as error:
            why = error.reason
            raise
        except OSError as error:
            why = reason_of(error)
            raise
        finally:
            current = listener.dismiss(self._peer, self._stream)
            if current:
                board.went_down(self._edge, "removed" if board.barred(self._peer) else why)
            else:
                self._edge.reconnects["replaced"] += 1

    def _answer(self, frame: Waiting) -> bool:
        if frame.kind is Kind.DATA:
            self._settle(frame, self._data)
        elif frame.kind is Kind.SKIP:
            self._settle(frame, self._skip)
        elif frame.kind is Kind.PING:
            self._stream.send(Kind.PONG, frame.header)
        elif frame.kind is Kind.ROSTER:
            self._roster(frame)
        elif frame.kind is Kind.BYE:
            return False
        else:
            raise FrameError("out_of_turn", frame.kind.name)
        return True

    def _settle(self, frame: Waiting, apply: Any) -> None:
        """Apply a numbered frame and say what became of it."""
        seq, size = frame.header["seq"], frame.head.body_length
        if frame.header["incarnation"] != self._incarnation:
            raise FrameError("out_of_turn", "another incarnation than HELLO's")
        try:
            result = apply(frame)
        except RefusedError as refusal:
            with self._board.lock:
                self._edge.frames[f"refused_{refusal.why}"] += 1
                self._edge.bytes["refused"] += size
            self._board.refuse(self._peer, refusal.why)
            self._stream.send(Kind.REFUSE, {"seq": seq, "why": refusal.why})
            return
        with self._board.lock:
            self._edge.frames[result] += 1
            self._edge.bytes[result] += size
        try:
            hit("after_apply_before_ack")
            self._stream.send(Kind.ACK, {"seq": seq, "result": result})
        finally:  # the engine is woken last: it would compete with the acknowledgement for the interpreter
            with self._board.lock:
                self._board.touch()

    def _data(self, frame: Waiting) -> str:
        board, header, size = self._board, frame.header, frame.head.body_length
        if size > self._largest:
            raise FrameError("oversized", f"{size} bytes")  # ends the connection: so much is not even read past
        try:
            channel = board.run.channels.get(header["channel"])
            if channel is None or header["dtype"] != channel.dtype or size not in channel.sizes:
                raise RefusedError("wrong_shape")
            with board.lock:
                new = self._inbox().admit(header["epoch"], (header["incarnation"], header["seq"]), board.roster.epoch)
        except RefusedError:
            self._stream.discard(frame)
            raise
        if not new:
            self._stream.discard(frame)
            return "duplicate"
        body = np.empty(size // np.dtype(channel.dtype).itemsize, np.dtype(channel.dtype).newbyteorder("<"))
        self._stream.body(frame, body.data.cast("B"), tell_progress=True)
        judge_values(body, board.settings.largest_norm)
        body.flags.writeable = False
        order = {key: header[key] for key in ("epoch", "incarnation", "seq")}
        parcel = Parcel(header["channel"], header["round"], header["turn"], body, self._peer, **order)
        hit("before_apply")
        if header["keep"] == "every":
            self._wait_for_room(parcel)
        with board.lock:
            result = self._inbox().deliver(parcel, header["keep"], board.roster.epoch)
            place = {"round": parcel.round, "turn": parcel.turn, "channel": parcel.channel, "keep": header["keep"]}
            board.record("apply", **{"from": self._peer}, result=result, life=board.incarnation, **order, **place)
            board.news += 1
        return result

    def _skip(self, frame: Waiting) -> str:
        board, header = self._board, frame.header
        with board.lock:
            order = (header["incarnation"], header["seq"])
            result = self._inbox().skip(header["round"], header["epoch"], order, board.roster.epoch)
            place = {"round": header["round"], "turn": 0, "channel": -1, "keep": "newest"}
            order_ = {key: header[key] for key in ("epoch", "incarnation", "seq")}
            board.record("apply", **{"from": self._peer}, result=result, life=board.incarnation, **order_, **place)
            board.news += 1
        return result

    def _wait_for_room(self, parcel: Parcel) -> None:
        """A peer that runs ahead waits for its acknowledgement, and hears every second that this one is alive."""
        board, place = self._board, (parcel.round, parcel.turn)
        while True:
            with board.lock:
                inbox = self._inbox()
                if len(inbox) < board.settings.inbox or place < inbox.floor:
                    return
                board.room.wait(board.settings.heartbeat)
                if len(self._inbox()) < board.settings.inbox:
                    return
            self._stream.send(Kind.PROGRESS, {"received": 0})

    def _roster(self, frame: Waiting) -> None:
        board = self._board
        if frame.header["want"]:
            self._stream.send(Kind.ROSTER, {"want": False}, (board.offered or board.roster).to_bytes())
            return
        data = bytearray(frame.head.body_length)
        self._stream.body(frame, memoryview(data))
        self._stream.send(Kind.ROSTER, {"want": False})
        board.consider(bytes(data))

    def _inbox(self) -> Inbox:
        inbox = self._board.inboxes.get(self._peer)
        if inbox is None:
            raise ConnectionError("the link was removed")
        return inbox


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
