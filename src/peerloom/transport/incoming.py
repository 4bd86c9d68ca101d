"""The receiving end of one link over one connection: frames are judged, applied and answered, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .board import Board
from .failpoints import hit
from .frames import FrameError, Kind
from .inbox import Inbox
from .reasons import FAREWELLS
from .stream import Stream, Waiting
from .tls import reason_of
from .turns import Carry, Talk, Turn, Wait
from .types import Parcel, RefusedError

__all__ = ["Incoming"]


class Incoming:
    """One connection of one known peer, answered frame by frame."""

    def __init__(self, board: Board, stream: Stream, peer: str, incarnation: int) -> None:
        self._board, self._stream, self._peer, self._incarnation = board, stream, peer, incarnation
        self._turn = Turn(self._listening(), stream)
        self._edge = board.edges["in", peer]
        self._largest = max(channel.longest for channel in board.run.channels.values())

    def run(self, carry: Carry, dismiss: Callable[[str, Stream], bool]) -> None:
        """Answer until the other side says goodbye or the connection breaks; then `dismiss` it."""
        board, why = self._board, "closed"
        self._stream.set_patience(board.settings.dead)
        board.went_up(self._edge)
        try:
            carry(self._turn)
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

    def _listening(self) -> Talk[None]:
        going = True
        while going:
            frame = yield from self._stream.reading()
            going = yield from self._answering(frame)

    def _answering(self, frame: Waiting) -> Talk[bool]:
        if frame.kind in (Kind.DATA, Kind.SKIP):
            yield from self._settling(frame)
        elif frame.kind is Kind.PING:
            yield from self._stream.sending(Kind.PONG, {**frame.header, "roster_version": self._board.newest.version})
        elif frame.kind is Kind.ROSTER:
            yield from self._evening(frame)
        elif frame.kind is Kind.BYE:
            if frame.header["why"] in FAREWELLS:
                self._board.refuse(self._peer, f"by_peer_{frame.header['why']}")
            return False
        else:
            raise FrameError("out_of_turn", frame.kind.name)
        return True

    def _settling(self, frame: Waiting) -> Talk[None]:
        """Apply a numbered frame and say what became of it, if it asks."""
        seq, size = frame.header["seq"], frame.head.body_length
        asks = frame.header.get("ask", True)
        if frame.header["incarnation"] != self._incarnation:
            raise FrameError("out_of_turn", "another incarnation than HELLO's")
        try:
            result = (yield from self._applying(frame)) if frame.kind is Kind.DATA else self._skip(frame)
        except RefusedError as refusal:
            if not asks:  # what follows must not overtake it: over a new connection it is sent again, asks, and is counted
                raise ConnectionError(f"refused unasked: {refusal.why}") from None
            with self._board.lock:
                self._edge.frames[f"refused_{refusal.why}"] += 1
                self._edge.bytes["refused"] += size
            self._board.refuse(self._peer, refusal.why)
            yield from self._stream.sending(Kind.REFUSE, {"seq": seq, "why": refusal.why})
            return
        with self._board.lock:
            self._edge.frames[result] += 1
            self._edge.bytes[result] += size
        try:
            hit("after_apply_before_ack")
            if asks:
                answer = {"seq": seq, "result": result, "roster_version": self._board.newest.version}
                yield from self._stream.sending(Kind.ACK, answer)
        finally:  # the engine is woken last: it would compete with the acknowledgement for the interpreter
            with self._board.lock:
                self._board.arrived()

    def _applying(self, frame: Waiting) -> Talk[str]:
        board, header, size = self._board, frame.header, frame.head.body_length
        if size > self._largest:
            raise FrameError("oversized", f"{size} bytes")  # ends the connection: so much is not even read past
        try:
            channel = board.run.channels.get(header["channel"])
            if channel is None or size > channel.longest:
                raise RefusedError("wrong_shape")
            with board.lock:
                new = self._inbox().admit(header["epoch"], (header["incarnation"], header["seq"]), board.roster.epoch)
        except RefusedError:
            yield from self._stream.skipping(frame)
            raise
        if not new:
            yield from self._stream.skipping(frame)
            return "duplicate"
        body = np.empty(size, np.uint8)
        yield from self._stream.filling(frame, body.data, board.settings.heartbeat)
        body.flags.writeable = False
        if channel.check is not None:
            channel.check(body.data)
        order = header["epoch"], header["incarnation"], header["seq"]
        parcel = Parcel(header["channel"], header["round"], header["turn"], body, self._peer, *order)
        hit("before_apply")
        if header["keep"] == "every":
            yield from self._waiting_for_room(parcel)
        with board.lock:
            result = self._inbox().deliver(parcel, header["keep"], board.roster.epoch)
            self._record(result, header, parcel.turn, parcel.channel, header["keep"])
            board.news += 1
        return result

    def _skip(self, frame: Waiting) -> str:
        board, header = self._board, frame.header
        with board.lock:
            order = (header["incarnation"], header["seq"])
            result = self._inbox().skip(header["round"], header["epoch"], order, board.roster.epoch)
            self._record(result, header, 0, -1, "newest")
            board.news += 1
        return result

    def _record(self, result: str, header: dict[str, Any], turn: int, channel: int, keep: str) -> None:
        board = self._board
        if board.history is not None:
            order = {key: header[key] for key in ("epoch", "incarnation", "seq", "round")}
            facts = {"from": self._peer, "life": board.incarnation, "turn": turn, "channel": channel, "keep": keep}
            board.record("apply", result=result, **facts, **order)

    def _waiting_for_room(self, parcel: Parcel) -> Talk[None]:
        """A peer that runs ahead waits for its acknowledgement, and hears every second that this one is alive."""
        board, limit = self._board, self._board.settings.inbox
        while len(self._inbox()) >= limit:  # a first look without the lock: only this talk adds to the inbox
            with board.lock:
                if len(self._inbox()) < limit or (parcel.round, parcel.turn) < self._inbox().floor:
                    return
                board.crowded.add(self._turn)  # whoever takes something from now on ends the pause
            try:
                if (yield Wait(0, board.settings.heartbeat)):
                    yield from self._stream.sending(Kind.PROGRESS, {"received": 0})
            finally:
                with board.lock:
                    board.crowded.discard(self._turn)

    def _evening(self, frame: Waiting) -> Talk[None]:
        board = self._board
        if frame.header["want"]:
            yield from self._stream.sending(Kind.ROSTER, {"want": False}, board.newest.to_bytes())
            return
        data = bytearray(frame.head.body_length)
        yield from self._stream.filling(frame, memoryview(data))
        yield from self._stream.sending(Kind.ROSTER, {"want": False})
        board.brought(bytes(data))

    def _inbox(self) -> Inbox:
        inbox = self._board.inboxes.get(self._peer)
        if inbox is None:
            raise ConnectionError("the link was removed")
        return inbox
