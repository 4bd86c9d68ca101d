"""Bytes that are not what was sent: flipped, cut, replayed, invented; and a copy of a peer."""

from __future__ import annotations

import contextlib
import random
import resource
import shutil
import socket
import time
from dataclasses import replace

from peerloom.transport import Endpoint
from peerloom.transport.frames import FrameError, decode, encode
from peerloom.transport.schemas import Kind

from ..ends import (
    QUICK,
    RUN,
    endpoint,
    federation,
    free_ports,
    identity,
    incoming,
    outgoing,
    parcel,
    through,
    until,
)
from ..figures import Figure, Stage, at_least, at_most, exactly, told
from ..middle import Middle
from ..speaker import FIRST, GOOD, Speaker

__all__ = ["flipped_and_cut", "fuzzed", "replayed_and_copied"]


def flipped_and_cut(stage: Stage) -> list[Figure]:
    """Flip bits and cut connections: every parcel must arrive once, in order, unchanged."""
    count = 80 if stage.quick else 400
    middle, a, b = _through_middle(stage, flip=0.06, cut=0.06)
    with contextlib.closing(middle), a, b:
        right, tally = through(a, b, range(1, count + 1), 120)
        return [
            at_least("faults: flipped bytes and cuts", middle.flips + middle.cuts, count // 20),
            exactly("parcels that arrived whole, once and in order", right, count),
            exactly(
                "acknowledged of those sent",
                f"{tally.acked} of {tally.created}",
                f"{count} of {count}",
            ),
            exactly("applied", incoming(b).frames.get("applied", 0), count),
            told("connections made anew", sum(outgoing(a).reconnects.values())),
        ]


def replayed_and_copied(stage: Stage) -> list[Figure]:
    """Replay a recorded session; then start a copy of a peer, key and state included."""
    middle, a, b = _through_middle(stage)
    with contextlib.closing(middle), a, b:
        right, _ = through(a, b, range(1, 21), 30)
        before = dict(incoming(b).frames)
        for _attempt in range(5):
            with (
                socket.create_connection(("127.0.0.1", b.port), timeout=5) as thief,
                contextlib.suppress(OSError),
            ):
                # The other side may hang up before it has heard all.
                for data in list(middle.recorded):
                    thief.sendall(data)
                thief.recv(100)
        until(lambda: sum(b.refusals().values()) >= 5)
        replayed = sum(incoming(b).frames.values()) - sum(before.values())
        refused = sum(b.refusals().values())
        copied = stage.folder / "copy"
        shutil.copytree(stage.folder / "state-0", copied)
        # As it was before the peer was started: both now count from there.
        (copied / "incarnation").write_text("0\n")
        with Endpoint(identity(0), a.roster, RUN, copied, ("127.0.0.1", 0), QUICK) as copy:
            receipt = copy.send(b.me, parcel(99))
            until(lambda: copy.refusals(), 10.0)
            why = " ".join(copy.refusals())
            outcome = receipt.outcome
        still, _ = through(a, b, range(21, 41), 30)
    return [
        exactly("parcels of the true peer, before and after", right + still, 40),
        exactly("replayed sessions refused", refused, 5),
        exactly("applied of the replays", replayed, 0),
        exactly(
            "a copy of the peer is refused, with an alarm, as", why, "by_peer_identity_conflict"
        ),
        exactly("its parcel is", outcome, "pending"),
    ]


def fuzzed(stage: Stage) -> list[Figure]:
    """Change, cut and insert bytes of frames, for the decoder and over TLS to a running peer."""
    count, live = 10_000, 50 if stage.quick else 400
    draws = random.Random(5)
    originals = [
        encode(Kind.DATA, {**FIRST, "length": 400}, GOOD[:400]),
        encode(Kind.PING, {"stamp": 7}),
        encode(Kind.SKIP, {"round": 3, "epoch": 0, "incarnation": 5, "seq": 7}),
        encode(Kind.ROSTER, {}, b"{}"),
        encode(Kind.BYE, {"why": "stopped"}),
    ]
    begin, memory, surprises, passed = time.monotonic(), _peak(), 0, 0
    for _ in range(count):
        try:
            decode(_spoilt(draws, draws.choice(originals)))
            passed += 1
        except FrameError:
            pass
        except Exception:  # noqa: BLE001  (the very thing that is counted)
            surprises += 1
    seconds = time.monotonic() - begin
    stage.say("over TLS")
    roster = federation(3, [(0, 1), (2, 1)], [f"127.0.0.1:{port}" for port in free_ports(3)])
    lenient = replace(QUICK, handshakes_per_address=32)
    with (
        endpoint(1, roster, stage.folder, settings=lenient) as b,
        endpoint(2, roster, stage.folder) as honest,
    ):
        for _ in range(live):
            with Speaker(0, roster, b.port) as liar, contextlib.suppress(OSError, FrameError):
                liar.greet()
                liar.sock.sendall(_spoilt(draws, draws.choice(originals)))
                liar.sock.settimeout(0.05)
                liar.sock.recv(100)
        right, _ = through(honest, b, range(1, 21), 30)
        applied = next(
            link for link in b.links() if link.direction == "in" and link.peer == identity(0).id
        )
    return [
        exactly(f"unexpected exceptions in {count} frames", surprises, 0),
        at_most("changed frames that were read as true ones", passed, count // 100),
        at_most("time", seconds, 10.0, "s"),
        at_most("growth of memory", (_peak() - memory) / 1024, 50.0, "MB"),
        exactly(f"parcels of an honest link beside {live} hostile connections", right, 20),
        exactly("hostile parcels applied", applied.frames.get("applied", 0), 0),
    ]


def _through_middle(
    stage: Stage, flip: float = 0.0, cut: float = 0.0
) -> tuple[Middle, Endpoint, Endpoint]:
    """peer-0 reaches peer-1 through a `Middle` that changes bytes and cuts connections."""
    ports = free_ports(2)  # nobody listens at the first: peer-1 must not reach peer-0 past it
    middle = Middle(ports[1], flip, cut, seed=2)
    settings = replace(QUICK, backoff=(0.02, 0.1))
    roster = federation(2, [(0, 1)], [f"127.0.0.1:{ports[0]}", f"127.0.0.1:{middle.port}"])
    listen = ("127.0.0.1", ports[1])
    a = endpoint(0, roster, stage.folder, settings=settings, listen=("127.0.0.1", 0))
    return middle, a, endpoint(1, roster, stage.folder, settings=settings, listen=listen)


def _spoilt(draws: random.Random, frame: bytes) -> bytes:
    data = bytearray(frame)
    for _ in range(draws.randrange(1, 6)):
        place = draws.randrange(len(data))
        match draws.randrange(4):
            case 0:
                data[place] ^= 1 << draws.randrange(8)
            case 1:
                del data[max(place, 1) :]
            case 2:
                data[place:place] = draws.randbytes(draws.randrange(1, 40))
            case _:
                data[place : place + 8] = draws.randbytes(8)
    return bytes(data)


def _peak() -> int:
    """Kilobytes that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
