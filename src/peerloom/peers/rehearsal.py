"""A rehearsal: a site's own row from its own file, the others from invented samples, real TLS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, ExcludedError, PeerloomError
from ..experiment import Experiment
from ..problems import Classification, Dataset
from .federation import Federation
from .relay_process import RelayProcess
from .samples import leaves_data_to_sites, with_samples
from .status import read_status
from .wire_plan import WirePlan

__all__ = ["Rehearsal", "invented_samples"]

SAMPLES = 200  # of each invented site: a constant, since even a count would tell about patients
_LOOK, _AWAY = 0.1, 1.0  # seconds between two looks; for which the killed peer is away
_KILLED = 1  # the row that is killed


def invented_samples(place: Dataset, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Samples of the declared form, drawn from `neutral` and `scale` alone, and their labels."""
    draws = np.random.default_rng(seed)
    neutral, scale = place.facts["neutral"], place.facts["scale"]
    x = draws.normal(size=(SAMPLES, *place.x.shape[1:]))
    x = x * (1.0 if scale is None else np.array(scale))
    x = x + (0.0 if neutral is None else np.array(neutral))
    size = SAMPLES
    y = draws.integers(0, place.classes, size) if place.classes else draws.normal(size=size)
    return x, y


@dataclass
class Rehearsal:
    """One run on this machine as `site` would take part: row 0 has its file, others invented ones.

    One peer is killed and started again on the way; then, if the rule can go on without, the
    founder removes another. The site's file is read by its own row's process only, where it lies.
    With `relay` no peer has a port, and all links go through a relay process of this machine.
    """

    exp: Experiment
    out: Path
    site: str
    data: Path
    label: str = ""
    deadline: float | None = None
    enough: float | None = None
    relay: bool = False
    events: list[str] = field(default_factory=list)
    """What was done to the peers, in words."""

    def run(self, say: Callable[[str], None]) -> dict[str, Any]:
        """Do all of it and return the findings. Refuses a file whose data are not the sites'."""
        exp = self.exp
        if not leaves_data_to_sites(exp) or not isinstance(exp.problem, Classification):
            raise ConfigError(
                "A rehearsal needs a file that leaves the data to every site (data 'own'); this "
                "one names data itself. Leave --as and --data out."
            )
        source = str(self.data.resolve())
        with_samples(exp, 0, source, self.label)  # a file that does not fit is refused here
        federation = Federation(
            exp,
            self.out,
            self.deadline,
            samples={0: (source, self.label)},
            addresses=[""] * exp.graph.rows if self.relay else None,
            enough=self.enough,
        )
        for row in range(1, exp.graph.clients):
            file = federation.homes[row].folder / "invented.npz"
            x, y = invented_samples(exp.problem.data, row)
            np.savez(file, x=x, y=y)
            federation.samples[row] = (str(file), "")
        with self._relayed(federation, say):
            removed = self._disturb(federation, say)
        return {
            "site": self.site,
            "events": self.events,
            "peers": [self._peer(federation, row) for row in range(exp.graph.rows)],
            "to_fix": self._to_fix(federation, removed),
        }

    @contextmanager
    def _relayed(self, federation: Federation, say: Callable[[str], None]) -> Iterator[None]:
        """Let a relay run, if there is to be one, and stand in everybody's roster."""
        if not self.relay:
            yield
            return
        founder = federation.homes[0]
        with RelayProcess(self.out / "relay", founder.identity.id) as relay:
            roster = founder.roster.amended(founder.identity, relays=(relay.entry,))
            federation.homes = [home.trust(roster) for home in federation.homes]
            where = ", ".join(relay.entry.addresses)
            self._note(f"no peer has a port: all links go through a relay at {where}", say)
            yield

    def _note(self, text: str, say: Callable[[str], None]) -> None:
        self.events.append(text)
        say(text)

    def _disturb(self, federation: Federation, say: Callable[[str], None]) -> int | None:
        """Run all peers to their end, with a kill and a removal; return the row removed."""
        rows, removed = self.exp.graph.rows, None
        note = partial(self._note, say=say)
        with federation.no_orphans():
            for row in range(rows):
                federation.start(row)
            if _reach(federation, _KILLED, 1):
                at = _round(federation, _KILLED)
                federation.kill(_KILLED)
                time.sleep(_AWAY)
                federation.start(_KILLED)
                begin = time.monotonic()
                went_on = _reach(federation, _KILLED, at + 1)
                took = f"after {time.monotonic() - begin:.1f} s" if went_on else "never"
                note(f"row-{_KILLED} was killed after round {at}; started again, it went on {took}")
            else:
                note("nobody was killed: the run was over before; give it more rounds")
            last = self.exp.graph.clients - 1
            if not WirePlan.of(self.exp).outlasts or last <= _KILLED + 1:
                note("nobody was removed: the rule, or so few peers, cannot go on without one")
            elif federation.exit_code(0) is not None:
                note("nobody was removed: the run was over before; give it more rounds")
            else:
                founder = federation.homes[0]
                founder.trust(founder.roster.without_member(founder.identity, f"row-{last}"))
                removed = last
                note(f"row-{last} was removed by the founder after round {_round(federation, 0)}")
            while any(federation.exit_code(row) is None for row in range(rows)):
                stay = [row for row in range(rows) if row != removed]
                if any(federation.exit_code(row) not in (None, 0) for row in stay):
                    break  # the others would only wait for it
                time.sleep(_LOOK)
        return removed

    def _peer(self, federation: Federation, row: int) -> dict[str, Any]:
        home, folder = federation.homes[row], federation.folders[row]
        status = read_status(folder) if (folder / "status.json").exists() else {}
        running = status.get("seconds", {}).get("running", 0.0)
        size = sum(file.stat().st_size for file in home.folder.rglob("*") if file.is_file())
        hub = row >= self.exp.graph.clients
        return {
            "peer": self.site if row == 0 else home.name,
            "samples": "none (hub)" if hub else "its own" if row == 0 else "invented",
            "address": ", ".join(home.addresses),
            "ways": sorted({link["way"] for link in status.get("links", ()) if link["way"]}),
            "round": status.get("round", 0),
            "rounds_per_second": status.get("round", 0) / running if running else 0.0,
            "disk_bytes": size,
            "peak_bytes": status.get("peak_bytes", 0),
            "exit_code": federation.exit_code(row),
        }

    def _to_fix(self, federation: Federation, removed: int | None) -> list[str]:
        found = []
        for row, home in enumerate(federation.homes):
            code, wanted = federation.exit_code(row), 0
            if row == removed:
                wanted = ExcludedError.exit_code
            if code != wanted:
                said = federation.said(row)
                found.append(f"{home.name} ended with exit code {code}, not {wanted}: {said}")
        return found


def _round(federation: Federation, row: int) -> int:
    try:
        return int(read_status(federation.folders[row])["round"])
    except PeerloomError:
        return 0  # not written yet


def _reach(federation: Federation, row: int, round: int) -> bool:
    """Wait until a row has done a round; False if it ended before."""
    while _round(federation, row) < round:
        if federation.exit_code(row) is not None:
            return False
        time.sleep(_LOOK)
    return federation.exit_code(row) is None
