"""The receiving end of one link over one connection: frames are judged, applied and acknowledged, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .board import Board
from .failpoints import hit
from .frames import FrameError, Kind
from .inbox import Inbox, RefusedError, judge_values
from .reasons import FAREWELLS
from .stream import Stream, Waiting
from .tls import reason_of
from .types import Parcel

__all__ = ["Incoming"]


class Incoming:
    """One connection of one known peer, answered frame by frame."""

    def __init__(self, board: Board, stream: Stream, peer: str, incarnation: int) -> None:
        self._board, self._stream, self._peer, self._incarnation = board, stream, peer, incarnation
        self._edge = board.edges["in", peer]
        self._largest = max(size for channel in board.run.channels.values() for size in channel.sizes)

    def run(self, dismiss: Callable[[str, Stream], bool]) -> None:
        """Answer until the other side says goodbye or the connection breaks; then `dismiss` it."""
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
            current = dismiss(self._peer, self._stream)
            if current:
                board.went_down(self._edge, "removed" if board.closed("in", self._peer) else why)
            else:
                self._edge.reconnects["replaced"] += 1

    def _answer(self, frame: Waiting) -> bool:
        if frame.kind is Kind.DATA:
            self._settle(frame, self._data)
        elif frame.kind is Kind.SKIP:
            self._settle(frame, self._skip)
        elif frame.kind is Kind.PING:
            self._stream.send(Kind.PONG, {**frame.header, "roster_version": self._board.newest.version})
        elif frame.kind is Kind.ROSTER:
            self._roster(frame)
        elif frame.kind is Kind.BYE:
            if frame.header["why"] in FAREWELLS:
                self._board.refuse(self._peer, f"by_peer_{frame.header['why']}")
            return False
        else:
            raise FrameError("out_of_turn", frame.kind.name)
        return True

    def _settle(self, frame: Waiting, apply: Callable[[Waiting], str]) -> None:
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
            self._stream.send(Kind.ACK, {"seq": seq, "result": result, "roster_version": self._board.newest.version})
        finally:  # the engine is woken last: it would compete with the acknowledgement for the interpreter
            with self._board.lock:
                self._board.arrived()

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
        self._stream.body(frame, body.data.cast("B"), board.settings.heartbeat)
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
            self._stream.send(Kind.ROSTER, {"want": False}, board.newest.to_bytes())
            return
        data = bytearray(frame.head.body_length)
        self._stream.body(frame, memoryview(data))
        self._stream.send(Kind.ROSTER, {"want": False})
        board.brought(bytes(data))

    def _inbox(self) -> Inbox:
        inbox = self._board.inboxes.get(self._peer)
        if inbox is None:
            raise ConnectionError("the link was removed")
        return inbox
