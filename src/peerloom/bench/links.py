"""What a link costs beside a bare TLS socket: the same bytes to the same machine, acknowledged one by one, in one run."""

from __future__ import annotations

import socket
import ssl
import statistics
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np

from ..algorithms import DGD
from ..experiment import Experiment
from ..graphs import ring
from ..peers.federation import found_on_this_machine
from ..peers.processes import context
from ..problems import Classification, blobs
from ..transport import Channel, Endpoint, Home, Parcel, RunIdentity, Settings
from ..transport.roster import parse_address
from ..transport.tls import client_context, server_context

__all__ = ["SIZES", "links"]

Sizes = Mapping[str, tuple[int, int]]  # numbers of four bytes, and how many frames of them

SIZES: Sizes = {"40 KB": (10_000, 400), "50 MB": (12_500_000, 12)}
_WARM = 3
_CHUNK = 65536
_ANSWER = 16  # bytes


def links(sizes: Sizes = SIZES) -> dict[str, tuple[float, float]]:
    """Milliseconds per frame, median: over a link with all its checks, and over a bare TLS socket. By size."""
    pair = Experiment(ring(2), Classification("softmax", blobs(samples=20)), DGD(lr=0.1), rounds=1)
    with tempfile.TemporaryDirectory() as place:
        ours, theirs = found_on_this_machine(pair, Path(place))
        bare = _bare(ours, theirs, sizes)
        with_checks = _checked(ours, theirs, sizes)
    return {size: (with_checks[size], bare[size]) for size in sizes}


def _checked(ours: Home, theirs: Home, sizes: Sizes) -> dict[str, float]:
    end = context().Event()
    receiver = context().Process(target=_take, args=(str(theirs.folder), sizes, end), daemon=True)
    receiver.start()
    peer, found = theirs.identity.id, {}
    try:
        with _endpoint(ours, sizes) as post:
            for channel, (size, (many, frames)) in enumerate(sizes.items()):
                body, spent = np.ones(many, np.float32), list[float]()
                body.flags.writeable = False  # as engines do it, so that the link need not copy it
                for round in range(frames + _WARM):
                    begin = time.perf_counter()
                    receipt = post.send(peer, Parcel(channel, round, 0, body), keep="newest")
                    post.settle([receipt], 60.0)
                    spent.append(time.perf_counter() - begin)
                found[size] = 1000 * statistics.median(spent[_WARM:])
    finally:
        end.set()
        receiver.join()
    return found


def _endpoint(home: Home, sizes: Sizes) -> Endpoint:
    run = RunIdentity("bench", "links", {k: Channel("float32", (many,)) for k, (many, _) in enumerate(sizes.values())})
    return Endpoint(home.identity, home.roster, run, home.state, parse_address(home.addresses[0]), Settings())


def _take(folder: str, sizes: Sizes, end: Event) -> None:
    with _endpoint(Home.open(Path(folder)), sizes):
        end.wait()


def _bare(ours: Home, theirs: Home, sizes: Sizes) -> dict[str, float]:
    answering = context().Process(target=_answer, args=(str(theirs.folder), sizes), daemon=True)
    answering.start()
    found = {}
    with _dial(parse_address(theirs.addresses[0])) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client_context(ours.identity, ours.roster).wrap_socket(raw, server_hostname="peer") as sock:
            for size, (many, frames) in sizes.items():
                body, spent = np.ones(many, np.float32).data.cast("B"), []
                for _ in range(frames + _WARM):
                    begin = time.perf_counter()
                    for at in range(0, len(body), _CHUNK):
                        sock.sendall(body[at : at + _CHUNK])
                    _fill(sock, memoryview(bytearray(_ANSWER)))
                    spent.append(time.perf_counter() - begin)
                found[size] = 1000 * statistics.median(spent[_WARM:])
    answering.join()
    return found


def _answer(folder: str, sizes: Sizes) -> None:
    home = Home.open(Path(folder))
    with socket.create_server(parse_address(home.addresses[0])) as listener:
        raw, _ = listener.accept()
    with raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with server_context(home.identity, home.roster).wrap_socket(raw, server_side=True) as sock:
            for many, frames in sizes.values():
                for _ in range(frames + _WARM):
                    _fill(sock, np.empty(many, np.float32).data.cast("B"))
                    sock.sendall(bytes(_ANSWER))


def _dial(where: tuple[str, int]) -> socket.socket:
    """The other process needs a moment to listen."""
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
