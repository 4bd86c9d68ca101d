"""Many peers for a long time, to see that none of them grows."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from pathlib import Path

from rich.console import Console

from peerloom.peers.federation import Federation
from peerloom.peers.processes import start_row
from peerloom.peers.site import Site
from peerloom.transport import Settings

from ..ends import until
from ..scenarios.crowds import crowd_experiment
from ..table import machine
from .memory import Samples, growth_per_hour, resident

__all__ = ["Crowd", "run_crowd"]

_EVERY = 10.0  # seconds between two samples
_WARM = 0.25  # the part of the time that does not count: buffers fill, rounds settle
BOUNDS = 1.0, 4.0
"""Megabytes per hour by which the median peer, and any peer, may grow."""


@dataclass
class Crowd:
    """What was seen."""

    peers: int
    seconds: float = 0.0
    samples: list[Samples] = field(default_factory=list)  # by row
    rounds: tuple[int, int] = (0, 0)  # of the slowest, when the samples begin to count and at last
    ended: list[str] = field(default_factory=list)  # who ended by itself

    def growth(self) -> list[float]:
        """Megabytes per hour of every peer, once it is warm."""
        found = []
        for samples in self.samples:
            begin = samples[0][0] + _WARM * (samples[-1][0] - samples[0][0])
            found.append(growth_per_hour([each for each in samples if each[0] >= begin]))
        return found

    @property
    def failed(self) -> bool:
        """Whether somebody grew or ended."""
        growth = self.growth()
        return bool(self.ended) or statistics.median(growth) > BOUNDS[0] or max(growth) > BOUNDS[1]

    def figures(self) -> list[tuple[str, str]]:
        """What to tell."""
        growth, last = self.growth(), [samples[-1][1] for samples in self.samples]
        usual, most = BOUNDS
        middle = f"{statistics.median(growth):+.2f} MB per hour in the median (bound {usual:g})"
        spread = f"{min(growth):+.2f} to {max(growth):+.2f} (bound {most:g})"
        size = f"{statistics.median(last):.1f} MB, at most {max(last):.1f}"
        return [
            ("peers, time", f"{self.peers}, {self.seconds / 60:.0f} minutes"),
            ("rounds of the slowest", f"{self.rounds[1]}"),
            ("memory of a peer at the end", size),
            ("growth after the first quarter", f"{middle}, {spread}"),
            ("peers that ended by themselves", ", ".join(self.ended) or "none"),
            ("verdict", "**grows**" if self.failed else "no growth"),
        ]

    def markdown(self) -> str:
        """For the document."""
        lines = [
            f"Measured on {datetime.now(UTC):%Y-%m-%d}: {machine()}.",
            "",
            "| | |",
            "|---|---|",
        ]
        return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in self.figures())])


def run_crowd(peers: int, minutes: float, console: Console) -> Crowd:
    """Train for a while with the lowest priority, so that other work goes on beside it."""
    os.nice(19)
    found = Crowd(peers, samples=[[] for _ in range(peers)])
    with tempfile.TemporaryDirectory(prefix="peerloom-crowd-") as folder:
        federation = Federation(crowd_experiment(peers, 10**6), Path(folder) / "run")
        site = Site(settings=Settings(dead=120.0, wait=3600.0))
        processes = list[BaseProcess]()
        try:
            for home in federation.homes:
                log = home.folder / "log.txt"
                processes.append(start_row(federation.folder.config, home.folder, log, site))
            if not until(lambda: _slowest(federation, peers) > 0, 1200.0, every=1.0):
                raise RuntimeError("not all peers came to train within twenty minutes")
            _watch(found, federation, processes, 60 * minutes, lambda text: console.print(text))
        except KeyboardInterrupt:
            console.print("ended early, by hand")
        finally:
            for process in processes:
                process.kill()
                process.join()
    return found


def _watch(
    found: Crowd,
    federation: Federation,
    processes: list[BaseProcess],
    seconds: float,
    say: Callable[[str], None],
) -> None:
    begin = told = time.monotonic()
    first = _slowest(federation, found.peers)
    while found.seconds < seconds and not found.ended:
        time.sleep(_EVERY)
        now = time.monotonic()
        for row, process in enumerate(processes):
            if process.exitcode is not None:
                found.ended.append(f"row-{row} ({process.exitcode})")
            elif (size := resident(process.pid or 0)) is not None:
                found.samples[row].append((now, size))
        found.seconds = now - begin
        found.rounds = (first, _slowest(federation, found.peers))
        if now > told + 60:
            told = now
            sizes = [samples[-1][1] for samples in found.samples]
            say(
                f"{found.seconds / 60:.0f} min: round {found.rounds[1]}, "
                f"{statistics.median(sizes):.1f} MB, at most {max(sizes):.1f}"
            )


def _slowest(federation: Federation, peers: int) -> int:
    """The round that everybody has told of."""
    status = federation.status()
    return min(int(each["round"]) for each in status) if len(status) == peers else -1
