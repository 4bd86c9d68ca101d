"""Endpoints to try faults on: keys, a roster, and real TLS links on this machine."""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from peerloom.peers.floats import float_channel, from_body, to_body
from peerloom.transport import (
    Endpoint,
    Identity,
    Link,
    LinkState,
    Member,
    Parcel,
    Roster,
    RunIdentity,
    Settings,
    Tally,
)
from peerloom.transport.certificate import self_signed

__all__ = [
    "FLOATS",
    "QUICK",
    "RUN",
    "endpoint",
    "federation",
    "free_ports",
    "holds",
    "identity",
    "incoming",
    "outgoing",
    "parcel",
    "through",
    "until",
]

FLOATS = 10_000  # 40 KB, a small model
RUN = RunIdentity("chaos", "spec", {0: float_channel("float32", [FLOATS])})
QUICK = Settings(heartbeat=0.2, dead=3.0, backoff=(0.1, 2.0))
"""A LAN's patience: silence for three seconds means that nobody is there."""


@functools.cache
def identity(number: int) -> Identity:
    """The same key for a number every time.

    Ids decide the order of peers, so a failure can be repeated.
    """
    folder = Path(tempfile.mkdtemp(prefix="peerloom-key-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    key = ec.derive_private_key(1000 + number, ec.SECP256R1())
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "identity.key").touch(0o600)
    (folder / "identity.key").write_bytes(secret)
    (folder / "identity.crt").write_bytes(self_signed(key))
    return Identity.load(folder)


def free_ports(count: int) -> list[int]:
    """Ports that are free now, all held at once so that none is given twice."""
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in sockets]


def federation(
    count: int, pairs: Iterable[tuple[int, int]], addresses: Sequence[str], **changes: Any
) -> Roster:
    """A signed roster of `count` members with these directed links (source, target).

    A member without an address only dials.
    """
    ids = [identity(number) for number in range(count)]
    places = [(address,) if address else () for address in addresses]
    members = tuple(
        Member(f"peer-{k}", ids[k].certificate.decode(), places[k]) for k in range(count)
    )
    links = tuple(Link(ids[a].id, ids[b].id, 0.25, 0.25) for a, b in pairs)
    return Roster(ids[0].id, 1, 0, members, links, **changes).signed(ids[0])


def endpoint(
    number: int,
    roster: Roster,
    folder: Path,
    run: RunIdentity = RUN,
    settings: Settings = QUICK,
    **more: Any,
) -> Endpoint:
    """The end of one member, listening where the roster says unless `listen` says otherwise."""
    if "listen" not in more:
        host, _, port = roster.members[number].addresses[0].rpartition(":")
        more["listen"] = (host, int(port))
    listen = more.pop("listen")
    return Endpoint(
        identity(number), roster, run, folder / f"state-{number}", listen, settings, **more
    )


def outgoing(post: Endpoint) -> LinkState:
    """The first link on which it sends."""
    return next(link for link in post.links() if link.direction == "out")


def incoming(post: Endpoint) -> LinkState:
    """The first link on which it hears."""
    return next(link for link in post.links() if link.direction == "in")


def parcel(round: int, length: int = FLOATS) -> Parcel:
    """A vector whose every number is the round, so that the receiver can check it."""
    return Parcel(0, round, 0, to_body(np.full(length, round, np.float32)))


def holds(got: object, round: int) -> bool:
    """Whether this is the parcel of that round, whole."""
    return (
        isinstance(got, Parcel)
        and got.round == round
        and bool((from_body(got.body, "float32") == round).all())
    )


def until(condition: Callable[[], object], seconds: float = 30.0, every: float = 0.005) -> bool:
    """Wait for what another thread or process does; False if it does not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(every)
    return bool(condition())


def through(
    a: Endpoint, b: Endpoint, rounds: Iterable[int], seconds: float, ahead: int = 8
) -> tuple[int, Tally]:
    """Send rounds from a to b and receive each.

    Returns how many arrived whole and in order, and the sender's account.
    """
    rounds, right = list(rounds), 0
    end = time.monotonic() + seconds
    for place in range(len(rounds) + ahead):
        if place < len(rounds):
            a.send(b.me, parcel(rounds[place]))
        if place >= ahead:
            wanted = rounds[place - ahead]
            got = b.take(a.me, wanted, 0, max(0.0, end - time.monotonic()))
            right += holds(got, wanted)
    a.settle(None, 5.0)
    return right, outgoing(a).tally
