"""Attempts to exhaust a peer: half-open handshakes, dripping greetings, huge lengths, frames."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import socket
import ssl
import statistics
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from peerloom.errors import PeerError
from peerloom.transport import Endpoint, Identity, LinkState, Roster
from peerloom.transport.frames import FrameError, begin
from peerloom.transport.schemas import Kind

from ..ends import QUICK, RUN, endpoint, federation, free_ports, identity, outgoing, parcel, until
from ..figures import Figure, Stage, at_least, at_most, exactly, told
from ..member_floods import FLOODS, Words
from ..speaker import FIRST, Speaker, open_context

__all__ = ["flooded"]

_HALF_OPEN = 1000
_WINDOW = 4.0  # seconds of each measurement,
_FLOODED = 12.0  # and beside a member's flood: longer than it is held off after the first cut
_ENDS = ("too_fast", "no_room", "out_of_turn")
_QUICK = ("latest, answered", "SKIP, answered", "duplicates")


def flooded(stage: Stage) -> list[Figure]:
    """Two honest peers exchange with and without the flood, in turns; then a new one joins in."""
    context = multiprocessing.get_context("spawn")
    kinds = _QUICK if stage.quick else tuple(FLOODS)
    count = 4 + len(kinds)  # who floods with another kind is another member: budgets are full
    roster = federation(
        count,
        [(number, 1) for number in range(count) if number != 1],
        [f"127.0.0.1:{port}" for port in free_ports(4)] + [""] * len(kinds),
    )
    with (
        endpoint(1, roster, stage.folder) as b,
        _process(context.Process(target=_honest, args=(identity(0), roster, stage.folder))),
    ):
        if not until(lambda: _link(b, roster, 0).frames.get("applied", 0) > 100, 60.0):
            raise RuntimeError("the honest peers did not come to exchange")
        memory, calm, under_attack = _resident(), list[float](), list[float]()
        shares = dict[str, float]()  # beside a member's flood, by its kind
        dialled = sum(_link(b, roster, 0).reconnects.values())  # before the other process was there
        _lie(roster, b.port)
        for turn in range(2 if stage.quick else 6):
            stage.say(f"without the flood, then with it; turn {turn + 1}")
            calm.append(_rate(b, roster))
            with _process(context.Process(target=_attack, args=(b.port,))):
                if not until(lambda: b.refusals().get("handshake_flood", 0) > 0, 30.0):
                    raise RuntimeError("the flood did not begin")
                under_attack.append(_rate(b, roster))
        for number, kind in enumerate(kinds, 4):
            stage.say(f"a member's flood: {kind}")
            before, greeted = _rate(b, roster), context.Event()
            flood = (identity(number), roster, b.port, kind, greeted)
            with _process(context.Process(target=_member_floods, args=flood)):
                if not greeted.wait(60.0):
                    raise RuntimeError(f"who floods with {kind} was not let in")
                beside = _rate(b, roster, _FLOODED)
            shares[kind] = 200 * beside / (before + _rate(b, roster))
        grown = (_resident() - memory) / 1024
        stage.say("somebody comes during the flood")
        with _process(context.Process(target=_attack, args=(b.port,))):
            time.sleep(2.0)
            begin = time.monotonic()
            with endpoint(2, roster, stage.folder) as late:
                came = until(lambda: outgoing(late).up, 60.0)
                admitted = time.monotonic() - begin if came else float("inf")
        refusals = b.refusals()
        lost = sum(_link(b, roster, 0).reconnects.values()) - dialled
    share = 100 * statistics.median(
        with_ / without for with_, without in zip(under_attack, calm, strict=True)
    )
    return [
        told("honest parcels of 40 KB without the flood", statistics.median(calm), "per s"),
        at_least("share of that rate during the flood", share, 80.0, "%"),
        at_least(
            f"the same in the first {_FLOODED:.0f} s of a member's flood, "
            f"the least of {len(kinds)} kinds of frames",
            min(shares.values()),
            80.0,
            "%",
        ),
        told(
            "by kind",
            "; ".join(f"{kind}: {share:.0f} %" for kind, share in shares.items()),
        ),
        told(
            f"connections of members ended or refused: {', '.join(_ENDS)}",
            ", ".join(str(refusals.get(word, 0)) for word in _ENDS),
        ),
        exactly("honest links that were lost", lost, 0),
        at_most("growth of the receiver's memory", grown, 50.0, "MB"),
        told(
            f"connections refused, to one who tries to hold {_HALF_OPEN}",
            refusals.get("handshake_flood", 0),
        ),
        exactly("bodies of 2^62 bytes and more refused, of 3", refusals.get("oversized", 0), 3),
        at_most("a member that comes during the flood gets in after", admitted, 3.0, "s"),
    ]


def _honest(whose: Identity, roster: Roster, folder: Path) -> None:
    """In a process of its own: send as fast as acknowledgements come."""
    host, port = roster.members[0].addresses[0].split(":")
    with Endpoint(whose, roster, RUN, folder / "state-0", (host, int(port)), QUICK) as a:
        for round in itertools.count(1):
            receipt = a.send(roster.members[1].id, parcel(round), mode="latest")
            a.settle([receipt], 60.0)


def _attack(port: int) -> None:
    """Open connections from fifty addresses that never finish; reopen what was closed.

    Runs in a process of its own.
    """
    held: dict[int, socket.socket] = {}
    hello, said = _client_hello(), 0
    for place in itertools.cycle(range(_HALF_OPEN)):
        time.sleep(0.01)
        try:
            if place in held:  # a byte now and then, as slowloris does
                held[place].sendall(hello[said % len(hello) :][:1])
                said += 1
            else:
                held[place] = socket.create_connection(
                    ("127.0.0.1", port), 1.0, (f"127.0.{place % 50}.2", 0)
                )
        except OSError:
            if place in held:
                held.pop(place).close()


def _member_floods(whose: Identity, roster: Roster, port: int, kind: str, greeted: Event) -> None:
    """A member comes as often as it may and floods with frames of one kind each time.

    Runs in a process of its own.
    """
    words = Words.of(roster)
    while True:
        with (
            contextlib.suppress(OSError, PeerError, FrameError),
            Speaker(whose, roster, port) as member,
        ):
            if member.greet(attempt=time.monotonic_ns()) == "accepted":  # later than before
                greeted.set()
                FLOODS[kind].pour(member, words, 60.0)
        time.sleep(0.05)


def _client_hello() -> bytes:
    """How a true handshake begins."""
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        open_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="peer").do_handshake()
    return out.read()


def _lie(roster: Roster, port: int) -> None:
    """A member says that more bytes follow than any memory has."""
    for length in (2**62, 2**63, 2**64 - 1):
        with Speaker(3, roster, port) as liar:
            liar.greet()
            liar.sock.sendall(begin(Kind.DATA, FIRST, length)[0])
            with contextlib.suppress(OSError):
                liar.sock.recv(100)


@contextlib.contextmanager
def _process(process: BaseProcess) -> Iterator[None]:
    """Run a process, and end it in any case."""
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _rate(b: Endpoint, roster: Roster, seconds: float = _WINDOW) -> float:
    """Parcels of the honest peer that are applied in a second."""
    before, begin = _link(b, roster, 0).frames.get("applied", 0), time.monotonic()
    time.sleep(seconds)
    return (_link(b, roster, 0).frames.get("applied", 0) - before) / (time.monotonic() - begin)


def _link(b: Endpoint, roster: Roster, number: int) -> LinkState:
    return next(
        link
        for link in b.links()
        if link.direction == "in" and link.peer == roster.members[number].id
    )


def _resident() -> int:
    """Kilobytes that this process holds now."""
    return next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if "VmRSS" in line
    )
