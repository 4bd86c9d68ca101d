"""Relays of a run whose peers cannot be dialled."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from peerloom.peers.relay_process import RelayProcess

from ..peers import Peers

__all__ = ["Relays"]


class Relays:
    """Relays at some addresses; `launch` starts a command where they live."""

    def __init__(
        self,
        peers: Peers,
        folder: Path,
        addresses: list[str],
        launch: Callable[[list[str]], subprocess.Popen[bytes]],
    ) -> None:
        founder = peers.homes[0]
        self._relays = {
            address: RelayProcess(
                folder / f"relay-{place}",
                founder.identity.id,
                f"relay-{place}",
                address,
                launch,
            )
            for place, address in enumerate(addresses)
        }
        entries = tuple(relay.entry for relay in self._relays.values())
        roster = founder.roster.amended(founder.identity, relays=entries)
        peers.homes = [home.trust(roster) for home in peers.homes]

    @property
    def addresses(self) -> list[str]:
        """Where they listen."""
        return list(self._relays)

    def start(self, address: str) -> None:
        """Start a relay, or start it again."""
        self._relays[address].launch()

    def start_all(self) -> None:
        """Start every relay."""
        for address in self._relays:
            self.start(address)

    def kill(self, address: str) -> None:
        """kill -9."""
        self._relays[address].kill()
