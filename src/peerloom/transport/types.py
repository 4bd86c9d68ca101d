"""The words that the engine and the transport share: parcels, settings, receipts, the state of links."""

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

__all__ = [
    "Body",
    "Channel",
    "Event",
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
    """More parcels wait for one peer than `Settings.outbox` allows; nothing was queued."""


class StopRequested(BaseException):
    """Raised by whatever waits after `request_stop`, between two frames. No `except Exception` catches it by the way."""


class RefusedError(PeerError):
    """A frame of a known peer that is not taken; `why` is one of a few fixed words."""

    def __init__(self, why: str) -> None:
        super().__init__(f"A frame of a known peer was refused: {why}.")
        self.why = why


@dataclass(frozen=True)
class Channel:
    """What one numbered channel carries: bodies of up to `longest` bytes.

    A longer body is refused before memory is allocated for it. `check` judges a whole body before it is
    acknowledged: it returns, or raises `RefusedError` with a reason. `form` describes the bodies in a few
    words; peers whose forms differ do not talk to each other. Ordered parcels on a channel are those of one
    mixing of a round, `mix_index`, so that none is taken for what another channel's check has judged: -1
    for a channel that carries no ordered parcels, None for one that carries those of any mixing.
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
    """Which run this is. Two peers talk only if all of it is equal: run, model specification, channels.

    `run_id` names the run, `spec_hash` is the hash of whatever defines model and experiment (the engine decides),
    `channels` says what may travel.
    """

    run_id: str
    spec_hash: str
    channels: Mapping[int, Channel]

    def __post_init__(self) -> None:
        for name, text in (("run_id", self.run_id), ("spec_hash", self.spec_hash)):
            if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", text):
                raise ConfigError(
                    f"{name} is '{text}'; use 1 to 128 letters, digits, dots, dashes and underscores."
                )
        if not self.channels or any(not 0 <= number < 2**16 for number in self.channels):
            raise ConfigError("A run needs at least one channel, numbered 0 to 65535.")

    @property
    def agreement(self) -> str:
        """One hash of the specification and the channels: what HELLO compares."""
        channels = {
            str(number): [channel.longest, channel.form]
            for number, channel in self.channels.items()
        }
        text = json.dumps([self.spec_hash, channels], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Parcel:
    """One body on one channel of one link, in one mixing of one round.

    `body` is a one-dimensional array of bytes. A read-only one is sent as it is, a writeable one is copied first.
    The last four fields are filled in for parcels that arrive: who sent it, in which epoch, and its place in the order
    (incarnation, seq), which only ever grows on one link.
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
        """The same parcel over a contiguous array of bytes that nobody can change."""
        body = self.body
        if body.ndim != 1 or body.dtype != np.uint8:
            raise ConfigError(
                f"A parcel carries bytes (uint8, one dimension), not {body.dtype} of shape {body.shape}."
            )
        if body.flags.c_contiguous and not body.flags.writeable:
            return self
        body = body.copy()
        body.flags.writeable = False
        return replace(self, body=body)


class Skipped(NamedTuple):
    """The peer said that it sends nothing for rounds up to this one."""

    round: int


class Wanted(NamedTuple):
    """What a synchronous round waits for."""

    peer: str
    round: int
    mix_index: int


@dataclass(eq=False)
class Receipt:
    """What became of one parcel: 'pending', then 'acked', 'superseded' or 'refused' (with the receiver's reason).

    Acked means: validated and put into the receiver's memory. It does not mean durable.
    """

    peer: str
    outcome: Outcome = "pending"
    reason: str = ""


@dataclass(frozen=True)
class Tally:
    """The account of one outgoing link, in parcels. At every moment created = acked + superseded + refused + pending."""

    created: int = 0
    acked: int = 0
    superseded: int = 0
    refused: int = 0
    pending: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every parcel is accounted for."""
        return self.created == self.acked + self.superseded + self.refused + self.pending


@dataclass(frozen=True)
class LinkState:
    """One directed link as it is now.

    `frames` and `bytes` count by result. Outgoing: sent, acked, refused_WHY. Incoming: applied, duplicate, stale,
    refused_WHY. `reconnects` counts lost connections by reason. `rtt` and `unacked_age` are in seconds;
    `congestion` is how TCP reacts to loss on an outgoing link ('bbr' where the kernel has it).
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


@dataclass(frozen=True)
class Event:
    """One line for a person, with the peer and a word for machines: up, down, late, refused, alarm, roster."""

    kind: str
    peer: str
    text: str


@dataclass(frozen=True)
class Settings:
    """Times in seconds and limits of one endpoint. The defaults suit links between sites."""

    heartbeat: float = 1.0
    """An idle link says so this often."""
    dead: float = 10.0
    """Nothing heard for this long: the connection is given up. Ten round trips at least. 3 suits a LAN, 30 lossy links."""
    backoff: tuple[float, float] = (0.1, 2.0)
    """First and longest pause before dialling again; half of it is random."""
    wait: float = 60.0
    """A peer whose link is down for this long is no longer waited for."""
    late: float = 2.0
    """After this long in `take` the log says who is late."""
    outbox: int = 64
    """Parcels that may wait for one peer with mode='ordered'."""
    window: int = 4
    """Of small parcels with mode='ordered', how many may be under way to one peer; the last of them asks for an answer."""
    inbox: int = 16
    """Parcels of one peer that may lie untaken; it is told how much room there is, and sends no more."""
    retain: int = 0
    """Acked parcels kept per link to be sent again to a peer that was restarted."""
    handshake: float = 10.0
    """From accepting a connection to HELLO_OK, at most."""
    handshakes: int = 32
    """Unfinished handshakes at one time, all addresses together but those of members."""
    handshakes_per_address: int = 16
    """The same, for any one address."""
    congestion: Literal["auto", "off"] = "auto"
    """'auto' uses BBR where the kernel has it; it is worth a lot on lossy links."""
    large: int = 1 << 18
    """Up to so many bytes a parcel, one loop serves all links, driven by whoever waits; above, several in threads."""
