"""The receiving half of a link over one connection: frames to the inbox, and answers.

    idle ---- DATA whose body is longer than a segment ----> filling
    idle <--- the last MORE of it ------------------------- filling

Each answer tells how many more ordered parcels the sender may send. If it may send none and there
is room again, it is told without having asked.

A parcel that was filling when its connection was lost stays with the link. The next greeting says
how much of it is there, and the sender goes on with MORE, or begins anew with DATA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .edge import Arrival
from .frames import FrameError, Head, encode
from .inbox import Inbox
from .parser import Frame
from .schemas import SEGMENT, VERSION, Kind
from .types import Body, Channel, Parcel, RefusedError

if TYPE_CHECKING:
    from .links import LinkTable

__all__ = ["Outcome", "Receiver"]

Outcome = Literal["useful", "latest", "useless", "refused"]


class Receiver:
    """Takes the frames of one process of a peer."""

    def __init__(self, table: LinkTable, peer: str) -> None:
        self._table, self._peer = table, peer
        self._edge = table.edges["in", peer]
        self._incarnation = 0
        self._version = VERSION  # of the frames
        self._coming: Arrival | None = None  # a parcel of which parts are still missing
        self._resumed = False  # whether it began over an earlier connection, and nothing came since
        self._granted = 0  # ordered parcels that the sender may still send
        self._seen = 0  # the number of the last frame that was dealt with
        self.outcome: Outcome = "useless"  # of the last parcel or promise
        # Whether a parcel was dropped unanswered because its link is gone. The connection ends with
        # the link; until then nothing is taken or answered, since an answer speaks for all before.
        self.dropped = False

    def greeted(self, incarnation: int, version: int, offered: list[int]) -> None:
        """Note the incarnation of the process at the other end, and the version agreed on.

        `offered` is what our greeting said of a parcel that has come in part.
        """
        self._incarnation, self._version = incarnation, version
        part, self._edge.part = self._edge.part, None
        if version < 7 or not offered[2]:  # the other side begins it anew
            return
        if part is None or part.place[:2] != offered[:2] or part.filled < offered[2]:
            raise ConnectionError("another connection went on with what this one offered")
        if part.header["incarnation"] == incarnation:
            part.filled, self._coming, self._resumed = offered[2], part, True

    def release(self) -> None:
        """Leave a parcel that is filling to the next connection; call it when none reads here."""
        coming, self._coming = self._coming, None
        if coming is not None and coming.body is not None and coming.filled:
            self._edge.part = coming

    def room(self) -> int:
        """Grant the sender as many ordered parcels as there is room for, and return how many."""
        inbox = self._table.inboxes.get(self._peer)
        self._granted = self._free(inbox)
        return self._granted

    def _free(self, inbox: Inbox | None) -> int:
        """How many ordered parcels more may come: the sender keeps no more for a crash here."""
        settings = self._table.settings
        if inbox is None:
            return settings.inbox
        return max(0, min(settings.inbox, settings.unsaved - inbox.uncovered) - len(inbox))

    # -- bodies, outside the lock

    def admit(self, head: Head, header: dict[str, Any]) -> memoryview | None:
        """Memory for a frame's part of a body; None if the body is to be read past."""
        if head.kind is Kind.DATA:
            self._begin(header)
        coming = self._expected(head.kind, header, head.body_length)
        if coming.body is None:
            return None
        return coming.body.data[coming.filled : coming.filled + head.body_length]

    def gathered(self, frame: Frame) -> Arrival | None:
        """The parcel that this frame completes, with its body checked; None if parts miss."""
        if frame.kind is Kind.DATA and not frame.size:
            self._begin(frame.header)
        coming = self._expected(frame.kind, frame.header, frame.size)
        coming.filled += frame.size
        self._resumed = False
        if coming.filled < coming.length:
            return None
        self._coming = None
        if coming.body is not None:
            self._judge(coming, coming.body)
        return coming

    def _begin(self, header: dict[str, Any]) -> None:
        """Begin a parcel: refuse it before memory is allocated, or allocate if it is wanted."""
        if self._coming is not None and not self._resumed:
            raise FrameError("out_of_turn", "a parcel within another")
        self._resumed = False
        table, self._coming = self._table, Arrival(header)
        if header["length"] > table.longest:  # so many bytes are not even read past
            raise FrameError("oversized", f"{header['length']} bytes")
        if header["incarnation"] != self._incarnation:
            raise FrameError("out_of_turn", "another incarnation than the greeting's")
        if header["mode"] == "latest" and not header["ask"]:  # room does not bound these
            raise FrameError("too_fast", "a parcel of which the newest counts, and no question")
        channel = table.run.channels.get(header["channel"])
        try:
            if channel is None or header["length"] > channel.longest or _misplaced(channel, header):
                raise RefusedError("wrong_shape")
            self._check_round(header)
            with table.lock:
                order = (header["incarnation"], header["seq"])
                new = self._inbox().admit(header["epoch"], order, table.roster.epoch)
        except RefusedError as refusal:
            self._coming.why = refusal.why
            return
        if new:
            self._coming.body = self._memory(header["length"])

    def _check_round(self, header: dict[str, Any]) -> None:
        last = self._table.settings.last_round
        if last is not None and header["round"] > last:
            raise RefusedError("too_far_ahead")

    def _memory(self, size: int) -> Body:
        try:
            return self._table.allocate(size)
        except OSError as error:
            name = self._table.name(self._peer)
            text = f"no room for {size} bytes from {name} ({error.strerror}); it is asked again"
            self._table.alarm(self._peer, "no_room_here", text)
            raise ConnectionError(text) from error

    def _expected(self, kind: Kind, header: dict[str, Any], size: int) -> Arrival:
        coming = self._coming
        if coming is None or header["seq"] != coming.header["seq"]:
            raise FrameError("out_of_turn", f"{kind.name} of no parcel")
        part = min(SEGMENT, coming.length - coming.filled)
        if header.get("at", 0) != coming.filled or size != part:
            raise FrameError("out_of_turn", f"{kind.name} of another part")
        return coming

    def _judge(self, coming: Arrival, body: Body) -> None:
        check = self._table.run.channels[coming.header["channel"]].check
        body.flags.writeable = False
        try:
            if check is not None:
                check(body.data)
        except RefusedError as refusal:
            coming.why = refusal.why

    # -- applying, with the lock held

    def apply(self, coming: Arrival) -> bytes:
        """Put a parcel into the inbox and return the answer, empty if none is asked for."""
        header, size = coming.header, coming.length
        if header["mode"] == "ordered":
            if not self._granted:
                raise FrameError("no_room")
            self._granted -= 1
        try:
            if coming.why:
                raise RefusedError(coming.why)
            result = self._deliver(coming)
        except RefusedError as refusal:
            return self._refuse(header, size, refusal.why)
        self._edge.count(result, size)
        if result == "applied" and header["mode"] == "latest":
            self.outcome = "latest"
        return self._answer(header, result)

    def _deliver(self, coming: Arrival) -> str:
        self.outcome = "useless"
        header, inbox = coming.header, self._inbox()
        if coming.body is None:
            return "duplicate"
        order = header["epoch"], header["incarnation"], header["seq"]
        place = header["channel"], header["round"], header["mix_index"]
        parcel = Parcel(*place, coming.body, self._peer, *order)
        result = inbox.deliver(parcel, header["mode"], self._table.roster.epoch, self._table.news)
        if result == "applied":
            self.outcome = "useful"
        self._record(result, header, parcel.mix_index, parcel.channel, header["mode"])
        self._table.news += 1
        return result

    def skip(self, header: dict[str, Any]) -> bytes:
        """Note a promise to send nothing for some rounds, and return the answer."""
        if header["incarnation"] != self._incarnation:
            raise FrameError("out_of_turn", "another incarnation than the greeting's")
        order = (header["incarnation"], header["seq"])
        try:
            self._check_round(header)
            result = self._inbox().skip(
                header["round"], header["epoch"], order, self._table.roster.epoch
            )
        except RefusedError as refusal:
            return self._refuse(header, 0, refusal.why)
        self.outcome = "latest"
        self._record(result, header, 0, -1, "latest")
        self._table.news += 1
        self._edge.count(result, 0)
        return self._answer(header, result)

    def grant(self) -> bytes:
        """An ACK that tells the room without having been asked."""
        return self._ack(self._seen, "room")

    def blocks_sender(self) -> bool:
        """Whether the sender may send nothing although there is room again."""
        if self._granted:
            return False
        return self._free(self._table.inboxes.get(self._peer)) > 0

    def _refuse(self, header: dict[str, Any], size: int, why: str) -> bytes:
        self.outcome = "refused"
        asks = header.get("ask", True)
        if self.dropped or (why == "no_link" and not asks):
            self.dropped = True
            return b""
        if not asks:
            # What follows must not overtake it: over a new connection it is sent again, and asks.
            raise ConnectionError(f"refused unasked: {why}")
        self._edge.frames[f"refused_{why}"] += 1
        self._edge.bytes["refused"] += size
        self._table.refuse(self._peer, why)
        self._seen = header["seq"] - 1  # it may come again under its number
        said = {"seq": header["seq"], "why": why, "room": self.room()}
        return encode(Kind.REFUSE, said, version=self._version)

    def _answer(self, header: dict[str, Any], result: str) -> bytes:
        self._seen = header["seq"]
        if not header.get("ask", True):
            return b""
        return self._ack(header["seq"], result)

    def _ack(self, seq: int, result: str) -> bytes:
        said = {"seq": seq, "result": result, "room": self.room()}
        return encode(Kind.ACK, said, version=self._version)

    def _record(
        self, result: str, header: dict[str, Any], mix_index: int, channel: int, mode: str
    ) -> None:
        table = self._table
        if table.history is not None and result != "duplicate":
            order = {key: header[key] for key in ("epoch", "incarnation", "seq", "round")}
            what = {"mix_index": mix_index, "channel": channel, "mode": mode}
            ends = {"from": self._peer, "life": table.incarnation}
            table.record("apply", result=result, **ends, **what, **order)

    def _inbox(self) -> Inbox:
        inbox = self._table.inboxes.get(self._peer)
        # A newer roster removed the link, and the other side does not know yet.
        if inbox is None or self.dropped:
            raise RefusedError("no_link")
        return inbox


def _misplaced(channel: Channel, header: dict[str, Any]) -> bool:
    """Whether an ordered parcel names another mixing than that of its channel."""
    return header["mode"] == "ordered" and channel.mix_index not in (None, header["mix_index"])
