"""A link against a bare TLS socket: the same bytes, acknowledged one by one, in one run."""

from __future__ import annotations

import contextlib
import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import PeerError
from ..experiment import Experiment
from ..graphs import ring
from ..peers.federation import found_on_this_machine
from ..peers.floats import float_channel, to_body
from ..peers.processes import context
from ..problems import Classification, blobs
from ..rules import DGD
from ..transport import Endpoint, Home, Parcel, RunIdentity, Settings
from ..transport.outbound import Outbound
from ..transport.roster import parse_address
from ..transport.tls import client_context, server_context

__all__ = ["SIZES", "Send", "Sizes", "body_of", "links", "sending", "timed"]

Sizes = Mapping[str, tuple[int, int]]  # numbers of four bytes, and how many frames of them
Send = Callable[[int, int, NDArray[np.float32]], None]  # over which channel, in which round, what

SIZES: Sizes = {"40 KB": (10_000, 400), "50 MB": (12_500_000, 24)}
_WARM = 3
_PATIENCE = 60.0  # seconds
_CHUNK = 65536
_ANSWER = 16  # bytes


def links(sizes: Sizes = SIZES) -> dict[str, tuple[float, float]]:
    """Return median milliseconds per frame, by size: over a link, and over a bare TLS socket.

    Frames alternate between the two, so that changes of the machine's speed affect both alike.
    """
    pair = Experiment(ring(2), Classification("softmax", blobs(samples=20)), DGD(lr=0.1), rounds=1)
    found = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        ours, theirs = found_on_this_machine(pair, Path(folder))
        bare = stack.enter_context(_bare(ours, theirs, sizes))
        checked = stack.enter_context(sending(ours, theirs, sizes))
        for channel, (size, (many, frames)) in enumerate(sizes.items()):
            body = body_of(many)
            spent = [
                (timed(checked, channel, round, body), timed(bare, channel, round, body))
                for round in range(frames + _WARM)
            ]
            first, second = zip(*spent[_WARM:], strict=True)
            found[size] = (1000 * statistics.median(first), 1000 * statistics.median(second))
    return found


def body_of(many: int) -> NDArray[np.float32]:
    """A vector to send, read-only as engines make it, so that the link need not copy it."""
    body = np.ones(many, np.float32)
    body.flags.writeable = False
    return body


def timed(send: Send, channel: int, round: int, body: NDArray[np.float32]) -> float:
    """Seconds until a frame is sent and acknowledged."""
    begin = time.perf_counter()
    send(channel, round, body)
    return time.perf_counter() - begin


@contextlib.contextmanager
def sending(
    ours: Home, theirs: Home, sizes: Sizes, outbound: Outbound | None = None
) -> Iterator[Send]:
    """Send over a link to another process."""
    end, way = context().Event(), outbound or Outbound()
    receiver = context().Process(
        target=_take, args=(str(theirs.folder), sizes, way, end), daemon=True
    )
    receiver.start()
    try:
        with _endpoint(ours, sizes, way) as transport:

            def send(channel: int, round: int, body: NDArray[np.float32]) -> None:
                receipt = transport.send(
                    theirs.identity.id, Parcel(channel, round, 0, to_body(body)), mode="latest"
                )
                if not transport.settle([receipt], _PATIENCE):
                    raise PeerError(
                        f"The other process did not answer within {_PATIENCE:.0f} seconds."
                    )

            yield send
    finally:
        end.set()
        receiver.join()


def _endpoint(home: Home, sizes: Sizes, outbound: Outbound) -> Endpoint:
    run = RunIdentity(
        "bench",
        "links",
        {k: float_channel("float32", [many]) for k, (many, _) in enumerate(sizes.values())},
    )
    where = parse_address(home.addresses[0]) if home.addresses else None
    return Endpoint(
        home.identity, home.roster, run, home.state, where, Settings(), outbound=outbound
    )


def _take(folder: str, sizes: Sizes, outbound: Outbound, end: Event) -> None:
    with _endpoint(Home.open(Path(folder)), sizes, outbound):
        end.wait()


@contextlib.contextmanager
def _bare(ours: Home, theirs: Home, sizes: Sizes) -> Iterator[Send]:
    """Send to another process in the pieces that a link sends, until a short answer comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = listener.getsockname()
    answering = context().Process(
        target=_answer, args=(str(theirs.folder), where, sizes), daemon=True
    )
    answering.start()
    with _dial(where) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client_context(ours.identity, ours.roster).wrap_socket(
            raw, server_hostname="peer"
        ) as sock:
            answer = memoryview(bytearray(_ANSWER))

            def send(channel: int, round: int, body: NDArray[np.float32]) -> None:
                data = body.data.cast("B")
                for at in range(0, len(data), _CHUNK):
                    sock.sendall(data[at : at + _CHUNK])
                _fill(sock, answer)

            yield send
    answering.join()


def _answer(folder: str, where: tuple[str, int], sizes: Sizes) -> None:
    home = Home.open(Path(folder))
    with socket.create_server(where) as listener:
        raw, _ = listener.accept()
    with raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with server_context(home.identity, home.roster).wrap_socket(raw, server_side=True) as sock:
            for many, frames in sizes.values():
                for _ in range(frames + _WARM):
                    _fill(sock, np.empty(many, np.float32).data.cast("B"))
                    sock.sendall(bytes(_ANSWER))


def _dial(where: tuple[str, int]) -> socket.socket:
    """Connect, again and again while the other process does not listen yet."""
    for _ in range(100):
        try:
            return socket.create_connection(where)
        except ConnectionRefusedError:
            time.sleep(0.1)
    return socket.create_connection(where)


def _fill(sock: ssl.SSLSocket, into: memoryview) -> None:
    done = 0
    while done < len(into):
        count = sock.recv_into(into[done:])
        if not count:
            raise ConnectionError("the other process closed the connection")
        done += count
