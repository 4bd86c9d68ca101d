"""Ways to a peer: dialled directly, or joined by a relay.

Where there are several, the direct one has a head start, then each relay before the next, and the
first whose key is proved is used. A port that is open and silent, a proxy that accepts everything,
or a relay that joins and passes nothing on, therefore delays nothing.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .connection import tune
from .frames import FrameError
from .links import LinkTable
from .members import Relay
from .outbound import Outbound, WayError
from .relay.client import RelayClient
from .roster import Roster
from .tls import Credentials, peer_of
from .tls_stream import Carrier, TlsStream, cut

__all__ = ["Admit", "Reached", "Ways"]

Admit = Callable[[Carrier, str, str], None]  # a stream, who called, which way


class Reached(NamedTuple):
    """A connection with a peer whose key is proved."""

    stream: TlsStream
    way: str
    congestion: str


class Ways:
    """Reaches peers, and keeps connections with all relays of the roster.

    `admit` takes a stream on which another member calls; `present` hears of a neighbour that has
    come to a relay.
    """

    def __init__(
        self,
        table: LinkTable,
        credentials: Credentials,
        outbound: Outbound,
        admit: Admit,
        present: Callable[[str], None],
    ) -> None:
        self._table, self._credentials, self._outbound = table, credentials, outbound
        self._admit, self.present = admit, present
        self._guard = threading.Lock()
        self._clients: dict[Relay, RelayClient] = {}
        self._open: set[Carrier] = set()  # whose keys are being proved
        self._used: dict[str, str] = {}  # by peer, the relay that joined us last
        self._stopping = False

    def follow(self) -> None:
        """Use the relays of the newest roster, and bring it to them."""
        roster = self._table.newest
        wanted = roster.relays if roster.has(self._table.me) else ()
        with self._guard:
            if self._stopping:
                return
            old = [c for relay, c in self._clients.items() if relay not in wanted]
            new = [relay for relay in wanted if relay not in self._clients]
            kept = {relay: c for relay, c in self._clients.items() if relay in wanted}
            made = {
                relay: RelayClient(relay, self._credentials.identity, self._outbound, self)
                for relay in new
            }
            self._clients = {relay: (kept | made)[relay] for relay in wanted}
        for client in kept.values():
            client.follow()
        for client in made.values():
            client.start()
        if old:  # ending one takes a moment, and the caller may hold the table's lock
            threading.Thread(target=_stop_all, args=(old,), name="relays", daemon=True).start()

    def stop(self) -> None:
        """End all connections with relays, and all attempts."""
        with self._guard:
            self._stopping = True
            clients, self._clients = list(self._clients.values()), {}
            for carrier in self._open:
                cut(carrier)
        _stop_all(clients)

    # -- for the clients of relays

    def roster(self) -> Roster:
        """The newest roster known."""
        return self._table.newest

    def shown(self, document: bytes, relay: Relay) -> None:
        """Judge a roster which, as a relay says, this peer is not in, as one of a neighbour."""
        try:
            self._table.brought(document)
        except FrameError as error:
            self._table.refuse(relay.id, error.reason, f"from relay {relay.name}: {error}")
            raise

    def knows(self, caller: str) -> bool:
        """Whether there is a link with this member."""
        with self._table.lock:
            return self._table.linked(caller)

    def called(self, carrier: Carrier, caller: str, relay: Relay) -> None:
        """Take a stream that another member opened through a relay."""
        self._admit(carrier, caller, f"relay:{relay.name}")

    def tell(self, text: str) -> None:
        """Report that a relay was reached or lost."""
        self._table.tell("relay", "", text)

    # -- reaching a peer

    def reach(self, peer: str, late: float) -> Reached:
        """A connection with this peer, by the first way that works. Raises why there is none."""

        def used(client: RelayClient) -> bool:
            return self._used.get(peer) == client.relay.id

        ways = list[Callable[[], Reached]]()
        if self._table.roster.member(peer).addresses or not self._clients:
            ways.append(lambda: self.direct(peer, late))
        ways += [
            functools.partial(self._by_relay, client, peer, late)
            # The one whose connection was lost comes last: it may pass on greetings, and no more.
            for client in sorted(self._clients.values(), key=used)
            if client.up
        ]
        if not ways:
            raise WayError("no_relay")
        if len(ways) == 1:
            return ways[0]()
        race = _Race()
        for number, way in enumerate(ways, 1):
            race.start(way)
            if race.wait(number, time.monotonic() + self._table.settings.relay_after):
                break
        return race.result(late)

    def is_called_directly(self, peer: str) -> bool:
        """Whether this peer can dial us, and we can reach it through a relay only."""
        roster = self._table.roster
        if not self._clients or not (roster.has(peer) and roster.has(self._table.me)):
            return False
        return not roster.member(peer).addresses and bool(roster.member(self._table.me).addresses)

    def direct(self, peer: str, late: float) -> Reached:
        """A connection with an address of this peer."""
        sock = self._outbound.connect(self._table.roster.member(peer).addresses, late)
        return self._prove(sock, peer, "direct", late)

    def _by_relay(self, client: RelayClient, peer: str, late: float) -> Reached:
        carrier = client.dial(peer, late)
        reached = self._prove(carrier, peer, f"relay:{client.relay.name}", late)
        self._used[peer] = client.relay.id
        return reached

    def _prove(self, carrier: Carrier, peer: str, way: str, late: float) -> Reached:
        settings, roster = self._table.settings, self._table.roster
        with self._guard:
            if self._stopping:
                carrier.close()
                raise WayError("closed", "stopped")
            self._open.add(carrier)
        try:
            stream = TlsStream(carrier, self._credentials.client(roster), server_side=False)
            congestion = tune(stream.socket, settings.dead, settings.congestion)
            stream.handshake(late)
            peer_of(stream, roster, peer)
        except BaseException:
            carrier.close()
            raise
        finally:
            with self._guard:
                self._open.discard(carrier)
        return Reached(stream, way, congestion)


class _Race:
    """Attempts in threads of their own; the first that succeeds counts, others are closed."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._winner: Reached | None = None
        self._failures: list[Exception] = []
        self._started, self._over = 0, False

    def start(self, attempt: Callable[[], Reached]) -> None:
        """Begin an attempt."""
        self._started += 1
        threading.Thread(target=self._run, args=(attempt,), name="way", daemon=True).start()

    def _run(self, attempt: Callable[[], Reached]) -> None:
        try:
            found = attempt()
        except Exception as error:  # noqa: BLE001  (raised again by `result`)
            with self._change:
                self._failures.append(error)
                self._change.notify_all()
            return
        with self._change:
            if self._over or self._winner is not None:
                found.stream.close()
            else:
                self._winner = found
                self._change.notify_all()

    def wait(self, failures: int, late: float) -> bool:
        """Wait for a winner, so many failures or the end; whether there is a winner."""
        with self._change:
            while self._winner is None and len(self._failures) < failures:
                if (left := late - time.monotonic()) <= 0:
                    break
                self._change.wait(left)
            return self._winner is not None

    def result(self, late: float) -> Reached:
        """The winner; raises the last failure if there is none."""
        self.wait(self._started, late)
        with self._change:
            self._over = True
            if self._winner is not None:
                return self._winner
            raise self._failures[-1] if self._failures else TimeoutError("no way led there in time")


def _stop_all(clients: Iterable[RelayClient]) -> None:
    for client in clients:
        client.stop()
