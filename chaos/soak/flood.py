"""Floods without end of one peer: python -m chaos.soak.flood --guest FOLDER ...

Strangers open connections at a place, say nothing or what is no TLS, and stay for a moment. In
turn with them, since they share its address and would take its room there, a member that has a link
to the victim, the guest with its true key, greets and sends frames of another kind each time, until
it is cut off. A file is made as soon as the victim has refused to greet it because of that. Who
cannot be dialled is reached through its relays.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import socket
import time
from pathlib import Path

from peerloom.errors import PeerError
from peerloom.transport import Home, Identity, Roster
from peerloom.transport.frames import FrameError

from ..at_relay import AtRelay
from ..member_floods import FLOODS, Words
from ..speaker import Speaker

__all__ = ["main"]

_STRANGERS = 0.3  # seconds of their turn
_SECONDS = 2.0  # of one kind of frame, if nobody ends it
_PATIENCE = 5.0  # seconds for a connection


def main() -> None:
    """Flood until killed."""
    asked = _parser().parse_args()
    guest, roster = Home.open(asked.guest).identity, Home.open(asked.founder).roster
    member = _Member(guest, roster, asked.victim, asked.place)
    words = Words.of(roster, asked.channel, bytes(asked.length))
    run = {"run": asked.run, "agreement": asked.agreement}
    for kind in itertools.cycle(FLOODS.values()):
        _strangers(asked.place)
        with contextlib.suppress(OSError, PeerError, FrameError), member.connected() as speaker:
            answer = speaker.greet(**run, attempt=time.monotonic_ns())
            if answer == "accepted":
                kind.pour(speaker, words, _SECONDS)
            elif answer == "too_fast":
                asked.held_off.touch()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos.soak.flood")
    for name in ("guest", "founder"):
        parser.add_argument(f"--{name}", type=Path, required=True, help="its folder")
    parser.add_argument("--held-off", type=Path, required=True, help="the file to make")
    parser.add_argument("--victim", required=True, help="the id of the peer to flood")
    parser.add_argument("--place", required=True, help="the address at which strangers come")
    parser.add_argument("--run", required=True, help="the run's id")
    parser.add_argument("--agreement", required=True, help="the run's agreement")
    parser.add_argument("--channel", type=int, required=True, help="of the parcels")
    parser.add_argument("--length", type=int, required=True, help="bytes of a parcel")
    return parser


def _strangers(place: str) -> None:
    """Open connections as fast as it goes for a while; some are reset by the other side."""
    with contextlib.ExitStack() as stack:
        end = time.monotonic() + _STRANGERS
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                stranger = stack.enter_context(_dialled(place))
                if random.random() < 0.5:
                    stranger.sendall(random.randbytes(200))


def _dialled(place: str) -> socket.socket:
    host, _, port = place.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=_PATIENCE)


class _Member:
    """A member and its way to the victim."""

    def __init__(self, who: Identity, roster: Roster, victim: str, place: str) -> None:
        self._who, self._roster, self._victim, self._place = who, roster, victim, place
        self._relays = [AtRelay(who, roster, relay) for relay in roster.relays]
        for relay in self._relays:
            relay.client.start()

    def connected(self) -> Speaker:
        """A connection with the victim, on which nothing was said."""
        return Speaker(self._who, self._roster, self._reached())

    def _reached(self) -> socket.socket:
        if not self._relays:
            return _dialled(self._place)
        for relay in self._relays:
            with contextlib.suppress(OSError):
                return relay.dial(self._victim)
        raise ConnectionError("no relay has a way")


if __name__ == "__main__":
    main()
