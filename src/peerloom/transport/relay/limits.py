"""What a relay lets others cost."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """Times (in seconds) and limits of one relay."""

    handshake: float = 10.0
    """Longest time from accepting a connection to a proved key, or to a token."""
    token_life: float = 10.0
    """Time in which both halves of a stream must come."""
    silence: float = 60.0
    """A control connection or a stream without a byte for so long is closed."""
    unfinished: int = 256
    """Connections that have proved nothing yet, in all; members' addresses have room of their own.
    One more takes the place of another (see `Unfinished`)."""
    per_address: int = 64
    """The same from one address."""
    streams_per_pair: int = 4
    """Streams of one pair, joined or half open: one carries the link, others may replace it."""
    dials: float = 2.0
    """Dials a second of one member, and one more per neighbour, after a burst that grows so."""
    rate: float | None = None
    """Bytes a second that one member may send through; more waits. None: as fast as it goes."""
    messages: float = 20.0
    """Messages a second of one control connection, and two more per neighbour, after a burst of ten
    times as many."""
    unread: int = 1 << 16
    """Bytes of messages that may wait for a member that does not read."""
    visits: int = 8
    """Streams of newcomers to one invitation at a time."""
    chunk: int = 1 << 18
    """Memory of one direction of one stream."""
