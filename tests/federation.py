"""Small federations on loopback for tests of the transport: rosters, endpoints, parcels."""

import socket
import threading

import numpy as np

from chaos import ends
from chaos.ends import free_ports, identity, incoming, outgoing, until
from chaos.middle import Middle
from peerloom.peers.floats import float_channel, from_body, to_body
from peerloom.transport import Endpoint, Parcel, RunIdentity, Settings
from peerloom.transport.tls import client_context, server_context

__all__ = [
    "LENGTH",
    "QUICK",
    "RUN",
    "Middle",
    "admitted",
    "endpoint",
    "federation",
    "free_ports",
    "identity",
    "incoming",
    "numbers",
    "outgoing",
    "parcel",
    "until",
]

LENGTH = 10
RUN = RunIdentity(
    "run-1",
    "spec-1",
    {0: float_channel("float64", [LENGTH]), 1: float_channel("float32", [LENGTH, 20_000])},
)
QUICK = Settings(heartbeat=0.1, dead=1.5, backoff=(0.02, 0.1), wait=1.0, late=0.3, handshake=1.0)


def federation(count, pairs, ports=None, **changes):
    """A roster of `count` members with these directed links (source, target)."""
    ports = ports or range(1, 1 + count)
    return ends.federation(count, pairs, [f"127.0.0.1:{port}" for port in ports], **changes)


def endpoint(number, roster, folder, port, run=RUN, settings=QUICK, **more):
    """The endpoint of a member, listening on a port of this machine."""
    state = folder / f"state-{number}"
    return Endpoint(identity(number), roster, run, state, ("127.0.0.1", port), settings, **more)


def admitted(roster, key, by=None):
    """Whether a member, the first by default, takes a connection of this key, by TLS alone."""
    ours, theirs = socket.socketpair()
    server, client = server_context(by or identity(0), roster), client_context(key, roster)
    found = []

    def serve():
        try:
            with server.wrap_socket(ours, server_side=True) as sock:
                found.append(sock.recv(1))
        except OSError:
            found.append(b"")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(theirs) as sock:
            sock.sendall(b"x")
    except OSError:
        found.append(b"")
    thread.join(10.0)
    return b"x" in found


def parcel(round, mix_index=0, channel=0, value=None):
    length = LENGTH if channel == 0 else 20_000
    dtype = np.float64 if channel == 0 else np.float32
    return Parcel(
        channel,
        round,
        mix_index,
        to_body(np.full(length, round if value is None else value, dtype)),
    )


def numbers(letter):
    """The numbers of a parcel that `parcel` made."""
    return from_body(letter.body, "float64" if letter.channel == 0 else "float32")
