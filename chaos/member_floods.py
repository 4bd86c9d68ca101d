"""Frames without end, by a member with its true key: any kind, with or without reading answers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from peerloom.transport import Roster
from peerloom.transport.frames import encode
from peerloom.transport.schemas import Kind

from .speaker import FIRST, GOOD, Speaker

__all__ = ["FLOODS", "Flood", "Words"]

_BURST = 64  # frames that are written at once by who does not wait for answers


@dataclass(frozen=True)
class Words:
    """What a flooder says: its roster, and the header and body of a parcel that is right."""

    roster: Roster
    header: Mapping[str, Any]
    body: bytes

    @classmethod
    def of(cls, roster: Roster, channel: int = 0, body: bytes = GOOD) -> Words:
        """The words of a first parcel with this body."""
        return cls(roster, {**FIRST, "channel": channel, "length": len(body)}, body)

    def data(self, seq: int, **changes: Any) -> bytes:
        """A parcel with this number."""
        return encode(Kind.DATA, {**self.header, "seq": seq, **changes}, self.body)

    def new(self, seq: int) -> bytes:
        """An ordered parcel for a round of its own, which the run has."""
        return self.data(seq, mode="ordered", round=1 + seq % 100_000, ask=False)

    def skip(self, seq: int) -> bytes:
        """A promise with this number."""
        order = {name: self.header[name] for name in ("epoch", "incarnation")}
        return encode(Kind.SKIP, {"round": 1, "seq": seq, **order})


@dataclass(frozen=True)
class Flood:
    """One kind: how its frame of a number is made, and whether the flooder reads each answer."""

    frame: Callable[[Words, int], bytes]
    listens: bool = False

    def pour(self, member: Speaker, words: Words, seconds: float) -> None:
        """Send frames for so long; ends with an error when the other side has had enough."""
        # A later process of the flooder goes on with higher numbers.
        numbers, end = itertools.count(time.monotonic_ns()), time.monotonic() + seconds
        while time.monotonic() < end:
            frames = itertools.islice(numbers, 1 if self.listens else _BURST)
            member.sock.sendall(b"".join(self.frame(words, number) for number in frames))
            if self.listens:
                _await_answer(member)


def _await_answer(member: Speaker) -> None:
    """Read up to the answer to the last frame, and answer PINGs as a neighbour does."""
    while True:
        frame = member.answer(Kind.ACK, Kind.REFUSE, Kind.PONG, Kind.PING)
        if frame.kind is Kind.PING:
            member.frames.send(Kind.PONG, {"stamp": frame.header["stamp"], "room": 0})
        elif frame.header.get("result") != "room":  # which nobody has asked for
            return


FLOODS = {
    "PING": Flood(lambda words, seq: encode(Kind.PING, {"stamp": seq})),
    "PING, answered": Flood(lambda words, seq: encode(Kind.PING, {"stamp": seq}), listens=True),
    "ACK": Flood(lambda words, seq: encode(Kind.ACK, {"seq": 0, "result": "room", "room": 3})),
    "ROSTER": Flood(lambda words, seq: encode(Kind.ROSTER, {}, words.roster.to_bytes())),
    "CARDS": Flood(lambda words, seq: encode(Kind.CARDS, {}, b"[]")),
    "SKIP": Flood(lambda words, seq: words.skip(seq)),
    "SKIP, answered": Flood(lambda words, seq: words.skip(seq), listens=True),
    "latest": Flood(lambda words, seq: words.data(seq, ask=False)),
    "latest, answered": Flood(lambda words, seq: words.data(seq), listens=True),
    "ordered": Flood(lambda words, seq: words.new(seq)),
    "duplicates": Flood(lambda words, seq: words.data(1, mode="ordered", ask=False)),
    "duplicates, answered": Flood(lambda words, seq: words.data(1), listens=True),
    "refused, answered": Flood(lambda words, seq: words.data(seq, channel=99), listens=True),
}
"""Every kind, as the table names it."""
