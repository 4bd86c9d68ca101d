"""The vocabulary of engines and transport: parcels, settings, receipts, states of links."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, PeerError
from .schemas import OLDEST, VERSION

__all__ = [
    "Body",
    "Channel",
    "Event",
    "Gap",
    "LinkState",
    "Mode",
    "OutboxFullError",
    "Parcel",
    "Receipt",
    "RefusedError",
    "RunIdentity",
    "Settings",
    "Skipped",
    "StopRequested",
    "Tally",
    "Wanted",
]

Mode = Literal["ordered", "latest"]
Outcome = Literal["pending", "acked", "superseded", "refused"]
Body = NDArray[np.uint8]  # one-dimensional, read-only
Check = Callable[[memoryview], None]


class OutboxFullError(PeerError):
    """`Settings.outbox` parcels already wait for this peer; nothing was queued."""


class StopRequested(BaseException):
    """Raised between two frames by every call that waits, once `request_stop` was called.

    A BaseException, so that no `except Exception` catches it by accident.
    """


class RefusedError(PeerError):
    """A frame of a known peer was refused; `why` is one of the words in `reasons`."""

    def __init__(self, why: str) -> None:
        super().__init__(f"A frame of a known peer was refused: {why}.")
        self.why = why


@dataclass(frozen=True)
class Channel:
    """What one numbered channel carries: bodies of up to `longest` bytes.

    A longer body is refused before memory is allocated for it. `check` judges a whole body before
    it is acknowledged: it returns, or raises `RefusedError` with a reason. `form` describes the
    bodies in a few words; peers whose forms differ do not talk to each other.

    `mix_index` is the mixing of a round whose ordered parcels this channel carries, so that a
    parcel cannot escape the check of its own channel by travelling on another. None stands for any
    mixing, -1 for a channel without ordered parcels.
    """

    longest: int
    check: Check | None = field(compare=False)
    form: str
    mix_index: int | None = None

    def __post_init__(self) -> None:
        if self.longest < 0:
            raise ConfigError(
                f"A channel carries bodies of 0 bytes or more, not of {self.longest}."
            )


@dataclass(frozen=True)
class RunIdentity:
    """Which run this is. Two peers talk to each other only if all of it is equal.

    `run_id` names the run, `spec_hash` is a hash of what defines model and experiment (the engine
    decides what that is), `channels` says what may travel.
    """

    run_id: str
    spec_hash: str
    channels: Mapping[int, Channel]

    def __post_init__(self) -> None:
        for name, text in (("run_id", self.run_id), ("spec_hash", self.spec_hash)):
            if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", text):
                raise ConfigError(
                    f"{name} is '{text}'; "
                    "use 1 to 128 letters, digits, dots, dashes and underscores."
                )
        if not self.channels or any(not 0 <= number < 2**16 for number in self.channels):
            raise ConfigError("A run needs at least one channel, numbered 0 to 65535.")

    @property
    def agreement(self) -> str:
        """One hash of specification and channels, which HELLO compares."""
        channels = {
            str(number): [channel.longest, channel.form]
            for number, channel in self.channels.items()
        }
        text = json.dumps([self.spec_hash, channels], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Parcel:
    """One body on one channel of one link, in one mixing of one round.

    A read-only body is sent as it is, a writeable one is copied first. The last four fields are
    set in parcels that arrive: the sender, the epoch, and the pair (incarnation, seq), which only
    grows on one link.
    """

    channel: int
    round: int
    mix_index: int
    body: Body
    peer: str = ""
    epoch: int = 0
    incarnation: int = 0
    seq: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        """(epoch, incarnation, seq): a later parcel of the same link compares greater."""
        return self.epoch, self.incarnation, self.seq

    def frozen(self) -> Parcel:
        """The same parcel over a contiguous, read-only array. Refuses a body that is not bytes."""
        body = self.body
        if body.ndim != 1 or body.dtype != np.uint8:
            raise ConfigError(
                "A parcel carries bytes (uint8, one dimension), "
                f"not {body.dtype} of shape {body.shape}."
            )
        if body.flags.c_contiguous and not body.flags.writeable:
            return self
        body = body.copy()
        body.flags.writeable = False
        return replace(self, body=body)


class Skipped(NamedTuple):
    """Nothing comes for this round any more."""

    round: int
    promised: bool = False  # the peer said so; else it sent something later in place of it


class Wanted(NamedTuple):
    """A parcel that a synchronous round waits for."""

    peer: str
    round: int
    mix_index: int


class Gap(NamedTuple):
    """Places from `first` up to `end`, not included, for which a peer was not waited.

    What comes for them is late, except what came already: of mixing m, rounds up to `settled[m]`.
    """

    first: tuple[int, int]
    end: tuple[int, int]
    settled: Mapping[int, int] = {}

    def holds(self, place: tuple[int, int]) -> bool:
        """Whether what comes for a place is late."""
        return self.first <= place < self.end and place[0] > self.settled.get(place[1], -1)


@dataclass(eq=False)
class Receipt:
    """What became of one parcel; `reason` is the receiver's, if it was refused.

    'acked' means that the receiver checked the parcel and holds it in memory, not on disk.
    """

    peer: str
    outcome: Outcome = "pending"
    reason: str = ""


@dataclass(frozen=True)
class Tally:
    """The parcels of one outgoing link, counted by what became of them.

    At every moment created = acked + superseded + refused + pending.
    """

    created: int = 0
    acked: int = 0
    superseded: int = 0
    refused: int = 0
    pending: int = 0

    @property
    def balanced(self) -> bool:
        """Whether that equation holds."""
        return self.created == self.acked + self.superseded + self.refused + self.pending


@dataclass(frozen=True)
class LinkState:
    """One directed link as it is now.

    `frames` and `bytes` count by result. Outgoing: sent, acked, refused_WHY. Incoming: applied,
    duplicate, stale, refused_WHY. `reconnects` counts lost connections by reason. `rtt` and
    `unacked_age` are in seconds. `congestion` is TCP's congestion control on an outgoing link,
    `version` that of the protocol on the last connection. While it is up, `way` is how it goes:
    'direct', or 'relay:NAME'.
    """

    peer: str
    name: str
    direction: Literal["in", "out"]
    up: bool
    since: float
    rtt: float | None = None
    unacked_age: float = 0.0
    frames: Mapping[str, int] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    reconnects: Mapping[str, int] = field(default_factory=dict)
    tally: Tally = Tally()
    congestion: str = ""
    version: int = 0
    way: str = ""


@dataclass(frozen=True)
class Event:
    """Something that happened on a link, as one line of a log.

    `kind` is up, down, late, refused, alarm, roster or relay.
    """

    kind: str
    peer: str
    text: str
    way: str = ""


@dataclass(frozen=True)
class Settings:
    """Times (in seconds) and limits of one endpoint. The defaults suit links between sites."""

    heartbeat: float = 1.0
    """Time between heartbeats on an idle link."""
    dead: float = 10.0
    """Silence after which a connection is given up: 3 suits a LAN, 30 lossy links.

    At least ten round trips.
    """
    backoff: tuple[float, float] = (0.1, 2.0)
    """First and longest pause before dialling again; half of each pause is random."""
    wait: float = 60.0
    """Time for which a peer whose link is down is still waited for."""
    late: float = 2.0
    """Waiting time after which the log says which peer is late."""
    outbox: int = 64
    """Ordered parcels that may wait for one peer."""
    window: int = 4
    """Small ordered parcels under way to one peer at most; the last asks for an answer."""
    inbox: int = 16
    """Parcels of one peer that may lie untaken; the peer is told how many more it may send."""
    unsaved: int = 16
    """The same, together with parcels that came late and that are not yet `cover`ed."""
    keeps_late: bool = True
    """Whether what comes after it was given up is kept for `late`; else it is stale."""
    mapped: int = 1 << 26
    """Bytes from which on a parcel that comes lies in a file of the state folder, not in memory."""
    last_round: int | None = None
    """The last round of which parcels and promises are taken; None: of any."""
    retain: int = 0
    """Acknowledged parcels kept per link, to be sent again to a peer that was restarted."""
    handshake: float = 10.0
    """Longest time from accepting a connection to HELLO_OK."""
    handshakes: int = 32
    """Unfinished handshakes at one time, of all addresses except those of members; through each
    relay twice as many. One more takes the place of another (see `Unfinished`)."""
    handshakes_per_address: int = 16
    """Unfinished handshakes at one time from one address, or through one relay of one caller."""
    congestion: Literal["auto", "off"] = "auto"
    """'auto' uses BBR where the kernel has it, which helps on lossy links."""
    versions: tuple[int, int] = (OLDEST, VERSION)
    """Lowest and highest version of the link protocol to speak."""
    relay_after: float = 0.3
    """Head start of a direct connection before a relay is tried as well."""
    direct_again: float = 600.0
    """Time after which a link that goes through a relay tries the direct way again."""
    large: int = 1 << 18
    """Longest parcel, in bytes, for which one loop serves all links.

    The thread that waits drives it. Above this size there are several loops, each with a thread.
    """
