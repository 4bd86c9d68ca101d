"""A link through a relay beside a direct one, in turns; sender, receiver and relay share a machine.

The relay is a process as sites run it, so its processor time is that of the real thing.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from ..experiment import Experiment
from ..graphs import ring
from ..peers.federation import found_on_this_machine
from ..peers.relay_process import RelayProcess
from ..problems import Classification, blobs
from ..rules import DGD
from ..transport import Home
from ..transport.outbound import Outbound
from .links import Send, Sizes, body_of, sending, timed

__all__ = ["RELAY_SIZES", "WAYS", "Crossing", "through_relays"]

RELAY_SIZES: Sizes = {"40 KB": (10_000, 200), "50 MB": (12_500_000, 12)}
WAYS = ("direct", "bare", "wrapped")
_WARM = 3


@dataclass
class Crossing:
    """What was measured of one way: milliseconds per frame by size, and the relay's share."""

    ms: dict[str, float] = field(default_factory=dict)
    relay_cpu_per_gb: float | None = None  # seconds, at the largest size
    relay_bytes: int = 0  # of memory, at the end


def through_relays(sizes: Sizes = RELAY_SIZES) -> dict[str, Crossing]:
    """Measure every way; frames alternate, so that the machine's moods affect all alike."""
    found = {way: Crossing() for way in WAYS}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        relays: dict[str, RelayProcess] = {}
        sends: dict[str, Send] = {}
        for way in WAYS:
            place = Path(folder) / way
            if way == "direct":
                ours, theirs = found_on_this_machine(_pair(), place)
            else:
                (ours, theirs), relay = _founded(place)
                relays[way] = stack.enter_context(relay)
            outbound = Outbound(wrapped=way == "wrapped")
            sends[way] = stack.enter_context(sending(ours, theirs, sizes, outbound))
        for channel, (size, (many, frames)) in enumerate(sizes.items()):
            body = body_of(many)
            spent: dict[str, list[float]] = {way: [] for way in WAYS}
            cpu = dict.fromkeys(relays, 0.0)
            for round in range(frames + _WARM):
                for way, send in sends.items():
                    before = relays[way].cpu_seconds() if way in relays else 0.0
                    spent[way].append(timed(send, channel, round, body))
                    if way in relays and round >= _WARM:
                        cpu[way] += relays[way].cpu_seconds() - before
            for way in WAYS:
                found[way].ms[size] = 1000 * statistics.median(spent[way][_WARM:])
            for way in relays:
                found[way].relay_cpu_per_gb = cpu[way] / (frames * many * 4 / 1e9)
                found[way].relay_bytes = relays[way].resident_bytes()
    return found


def _pair() -> Experiment:
    problem = Classification("softmax", blobs(samples=20))
    return Experiment(ring(2), problem, DGD(lr=0.1), rounds=1)


def _founded(folder: Path) -> tuple[list[Home], RelayProcess]:
    """Two peers without an address, and their relay, which does not run yet."""
    homes = found_on_this_machine(_pair(), folder, addresses=["", ""])
    founder = homes[0].identity
    relay = RelayProcess(folder / "relay", founder.id)
    roster = homes[0].roster.amended(founder, relays=(relay.entry,))
    return [home.trust(roster) for home in homes], relay
