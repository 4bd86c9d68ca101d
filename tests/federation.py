"""Small federations for the tests of the transport: identities, rosters, endpoints on loopback, and a man in the middle."""

import atexit
import functools
import random
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from peerloom.transport import Channel, Endpoint, Identity, Link, Member, Parcel, Roster, RunIdentity, Settings
from peerloom.transport.identity import self_signed

LENGTH = 10
RUN = RunIdentity("run-1", "spec-1", {0: Channel("float64", (LENGTH,)), 1: Channel("float32", (LENGTH, 20_000))})
QUICK = Settings(heartbeat=0.1, dead=1.5, backoff=(0.02, 0.1), wait=1.0, late=0.3, handshake=1.0)


@functools.cache
def identity(number):
    """Made once for all tests, and always the same key: ids decide the order of peers, so failures can be repeated."""
    folder = Path(tempfile.mkdtemp(prefix="peerloom-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    key = ec.derive_private_key(1000 + number, ec.SECP256R1())
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "identity.key").touch(0o600)
    (folder / "identity.key").write_bytes(secret)
    (folder / "identity.crt").write_bytes(self_signed(key))
    return Identity.load(folder)


def free_ports(count):
    socks = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in socks]
    for sock in socks:
        sock.close()
    return ports


def federation(count, pairs, ports=None, **changes):
    """A roster of `count` members with these directed links (source, target)."""
    ports = ports or [1 + number for number in range(count)]
    ids = [identity(number) for number in range(count)]
    members = tuple(
        Member(f"peer-{number}", ids[number].certificate.decode(), (f"127.0.0.1:{ports[number]}",))
        for number in range(count)
    )
    links = tuple(Link(ids[a].id, ids[b].id, 0.25, 0.25) for a, b in pairs)
    roster = Roster(ids[0].id, 1, 0, members, links, **changes)
    return roster.signed(ids[0])


def endpoint(number, roster, folder, port, run=RUN, settings=QUICK, **more):
    return Endpoint(identity(number), roster, run, folder / f"state-{number}", ("127.0.0.1", port), settings, **more)


def parcel(round, turn=0, channel=0, value=None):
    length = LENGTH if channel == 0 else 20_000
    dtype = np.float64 if channel == 0 else np.float32
    return Parcel(channel, round, turn, np.full(length, round if value is None else value, dtype))


def until(condition, seconds=5.0):
    """Wait for what another thread does; False if it does not happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return bool(condition())


class Middle:
    """Passes bytes on between two sides, and now and then flips one or cuts the connection."""

    def __init__(self, target, flip=0.0, cut=0.0, seed=0):
        self.target, self.flip, self.cut, self.random = target, flip, cut, random.Random(seed)
        self.flips = self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open, self.blocked, self.recorded = [], False, []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            self.open += [near, far]
            threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source, sink, forward):
        passed = 0
        try:
            while data := bytearray(source.recv(65536)):
                while self.blocked:
                    time.sleep(0.01)
                if forward:
                    self.recorded.append(bytes(data))
                if forward and passed > 2000 and self.random.random() < self.cut:
                    self.cuts += 1
                    sink.sendall(data[: len(data) // 2])
                    break
                if forward and passed > 2000 and self.random.random() < self.flip:
                    self.flips += 1
                    data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
                passed += len(data)
                sink.sendall(data)
        except OSError:
            pass
        for sock in (source, sink):
            sock.close()

    def close(self):
        self.listener.close()
        for sock in self.open:
            sock.close()
