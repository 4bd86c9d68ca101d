"""A relay in a thread of the test, which can look inside it; and rosters without an address."""

import asyncio
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

from chaos import ends
from peerloom.transport import Endpoint, Identity
from peerloom.transport.members import Relay
from peerloom.transport.outbound import Outbound
from peerloom.transport.relay.server import RelayServer
from tests.federation import QUICK, RUN, identity, until

__all__ = ["PATIENT", "RelayThread", "relay_key", "relayed", "roster_with", "without_port"]

PATIENT = replace(QUICK, wait=20.0)
"""A busy machine may take more than a second until both peers are at a relay."""


def relay_key(number):
    """The key of a relay, the same every time."""
    return identity(100 + number)


def roster_with(count, pairs, relays, **changes):
    """A signed roster whose members have no address, with these relays."""
    return ends.federation(count, pairs, [""] * count, relays=tuple(relays), **changes)


class RelayThread:
    """A relay that serves on loopback within a `with`."""

    def __init__(self, number=0, host="127.0.0.1", port=0, kind=RelayServer, roster=None, **more):
        self.identity: Identity = relay_key(number)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=256)
        self.port = self._listener.getsockname()[1]
        where = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.entry = Relay(f"relay-{number}", self.identity.certificate.decode(), (where,))
        self.server = kind(self.identity, identity(0).id, roster, **more)
        self.failure = None
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)

    def _run(self):
        try:
            asyncio.run(self.server.serve([self._listener]))
        except BaseException as error:
            self.failure = error
            raise

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *ignored):
        self.stop()

    def stop(self):
        assert until(lambda: self.server._loop is not None)
        if self._thread.is_alive():
            self.server.stop()
        self._thread.join(10)
        assert not self._thread.is_alive()
        assert self.failure is None


def without_port(number, roster, folder, settings=PATIENT, outbound=None, run=RUN, **more):
    """The endpoint of a member that listens nowhere."""
    return Endpoint(
        identity(number), roster, run, folder / f"state-{number}", None, settings,
        outbound=outbound or Outbound(), **more,
    )  # fmt: skip


@contextmanager
def relayed(folder, relay, pairs=((0, 1), (1, 0)), outbounds=(None, None), **more):
    """Two peers without a port, and a relay between them."""
    roster = roster_with(2, pairs, [relay.entry])
    with (
        without_port(0, roster, folder, outbound=outbounds[0], **more) as a,
        without_port(1, roster, folder, outbound=outbounds[1], **more) as b,
    ):
        yield a, b
