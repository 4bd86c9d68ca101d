"""A founder that waits for newcomers at a relay, because nobody can dial it."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ...errors import PeerError
from ..identity import Identity
from ..invitations import Invitation
from ..join_server import JoinServer
from ..members import Relay
from ..outbound import Outbound
from ..roster import Roster
from ..tls_stream import Carrier
from .client import RelayClient

__all__ = ["RelayHost"]

_PATIENCE = 10.0  # seconds to reach the relay, and to bring it the roster


class RelayHost:
    """Passes newcomers on from a relay to a join server, within a `with`.

    Refuses to begin if the relay is not reached.
    """

    def __init__(
        self,
        relay: Relay,
        identity: Identity,
        outbound: Outbound,
        server: JoinServer,
        roster: Callable[[], Roster],
    ) -> None:
        self.roster, self._server = roster, server
        self._client = RelayClient(relay, identity, outbound, self, takes_calls=False)

    def __enter__(self) -> Self:
        client = self._client
        client.start()
        if not client.reached(time.monotonic() + _PATIENCE):
            client.stop()
            raise PeerError(
                f"Relay {client.relay.name} is not reached ({client.why}). Does it run, and may "
                "this site dial it?"
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.stop()

    def expect(self, invitation: Invitation) -> None:
        """Let whoever proves this invitation come through the relay."""
        self._client.expect(invitation.visit)

    def bring_roster(self) -> bool:
        """Bring the relay the newest roster, so that it lets the newcomer in; whether it has it."""
        return self._client.brought(time.monotonic() + _PATIENCE)

    # -- for the client of the relay

    def shown(self, document: bytes, relay: Relay) -> None:
        """The relay is not reached, which says enough."""

    def knows(self, caller: str) -> bool:
        """Nobody: newcomers have no id."""
        return False

    def called(self, carrier: Carrier, caller: str, relay: Relay) -> None:
        """Hear a newcomer."""
        self._server.admit(carrier)

    def present(self, peer: str) -> None:
        """A founder that waits for newcomers has no use for neighbours."""

    def tell(self, text: str) -> None:
        """What happens is told by the exceptions of this class."""
