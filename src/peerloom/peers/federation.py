"""A whole federation of real processes on one machine, with real TLS: for trying out, and for tests."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import socket
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core import Activity, Ledger
from ..engines import Checkpoint, Snapshot, build_net
from ..errors import ConfigError, PeerError
from ..experiment import Experiment
from ..measures import measure
from ..runs import RunFolder
from ..runtime import prepare_process, trace
from ..schedules import Record
from ..transport import Home, Link, Member, Roster
from .decisions import CLOSING, Journal
from .keep import Keep
from .measuring import known
from .processes import start_row
from .row import spec_hash
from .samples import leaves_data_to_sites
from .start import run_folder
from .status import read_status

__all__ = ["Federation", "found_on_this_machine"]

_LOOK = 0.2  # seconds between two looks at the processes,
_LOOK_EACH = 0.01  # and for each of them: who watches many must not take their processors
_PORTS = range(20000, 32000)
_founded = itertools.count()  # federations of this process


class _Models(NamedTuple):
    x: Tensor


class Federation:
    """One process per row of an experiment, each with its own key and folder below `out / peers`."""

    def __init__(self, exp: Experiment, out: Path, deadline: float | None = None, free: bool = False) -> None:
        if leaves_data_to_sites(exp):
            raise ConfigError(
                "The file leaves the data to every site (data 'own'), but here all rows start on one machine. Name data in "
                "the file, or start each peer by itself: peerloom peer start FILE --data SAMPLES"
            )
        prepared = prepare_process(keep_memory=False)  # the processes of rows inherit the environment
        folder = RunFolder.create(out, exp, process=prepared._asdict())
        self._set(folder, found_on_this_machine(exp, out / "peers", folder.config), deadline, free)

    @classmethod
    def adopt(cls, exp: Experiment, out: Path) -> Federation:
        """A federation whose folder is there already."""
        homes = [Home.open(out / "peers" / name) for name in _names(exp)]
        federation = cls.__new__(cls)
        federation._set(RunFolder(out), homes, None, False)
        return federation

    def _set(self, folder: RunFolder, homes: list[Home], deadline: float | None, free: bool) -> None:
        # As every peer reads it: what the file says is what is hashed.
        self.exp, self.folder, self.homes = folder.experiment(), folder, homes
        self._deadline, self._free = deadline, free
        self.folders = [run_folder(home, self.exp) for home in homes]  # where each row keeps this run
        self._running: dict[int, BaseProcess] = {}

    def start(self, row: int) -> None:
        """Start a row's process, or start it again."""
        place = self.homes[row].folder
        self._running[row] = start_row(self.folder.config, place, place / "log.txt", self._deadline, self._free)

    def kill(self, row: int) -> None:
        """Without a word, as a power cut does."""
        self._running[row].kill()
        self._running[row].join()

    def run(self, on_look: Callable[[list[dict[str, Any]]], None] | None = None) -> None:
        """Start all, wait for all; if one fails the others are stopped and what it said is raised."""
        with self.no_orphans():
            for row in range(len(self.homes)):
                self.start(row)
            self.wait(on_look)

    def wait(self, on_look: Callable[[list[dict[str, Any]]], None] | None = None) -> None:
        """Until every process has ended well."""
        running, pause = True, max(_LOOK, _LOOK_EACH * len(self.homes))
        while running:
            running = any(process.exitcode is None for process in self._running.values())
            for row, process in self._running.items():
                if process.exitcode not in (None, 0):
                    raise PeerError(f"{self.homes[row].name} failed with exit code {process.exitcode}: {self._said(row)}")
            if on_look is not None:
                on_look(self.status())
            if running:
                connection.wait([process.sentinel for process in self._running.values() if process.exitcode is None], pause)

    def status(self) -> list[dict[str, Any]]:
        """What every row last told of itself; rows that have told nothing yet are left out."""
        found = []
        for home, place in zip(self.homes, self.folders, strict=True):
            if (place / "status.json").exists():
                found.append({"name": home.name, **read_status(place)})
        return found

    def keeps(self) -> list[Keep]:
        """What every row keeps on disk."""
        spec = spec_hash(self.exp)
        return [Keep(folder, spec) for folder in self.folders]

    @contextlib.contextmanager
    def no_orphans(self) -> Iterator[None]:
        """Whatever happens here, no process stays behind."""
        try:
            yield
        finally:
            for process in self._running.values():
                if process.exitcode is None:
                    process.terminate()
            for process in self._running.values():
                process.join(10)
                if process.exitcode is None:
                    process.kill()
                    process.join()

    def _said(self, row: int) -> str:
        text = (self.homes[row].folder / "log.txt").read_text(encoding="utf-8", errors="replace").strip()
        return text.rpartition("\n")[2] or "nothing"

    # -- what came of it

    @torch.no_grad()
    def collect(self) -> None:
        """Put the rows' own measurements and models together into one run folder, as `simulate` leaves one."""
        keeps = self.keeps()
        exp = known(self.exp, keeps[0].folder)
        net = build_net(exp)
        state_type = trace(exp.algorithm).state
        rows = []
        seconds = {line["round"]: line["seconds"] for line in keeps[0].measurements()}
        for round, spent in sorted(seconds.items()):
            judged = [keep.judged(round) for keep in keeps]
            net.t, net.ledger = round, _together(exp, judged)
            x = torch.from_numpy(np.stack([entry["x"] for entry in judged]))
            rows.append(measure(Snapshot(round, _Models(x), net), spent))
        last = [keep.load(exp.graph, state_type) for keep in keeps]
        ends = [point for point in last if point is not None]
        state = state_type(*(torch.cat(parts) for parts in zip(*(point.state for point in ends), strict=True)))
        ledger = _together(exp, [point.ledger.arrays() for point in ends])
        self.folder.save_metrics(rows)
        self.folder.save(Checkpoint(ends[0].t, state, ledger))
        if not self._free:  # where nobody waits, links do not fire round by round
            record = Record(exp.graph, net.resources if self.exp.measures else None)
            _note_fired(record, exp, net.activity, ends[0].t, [keep.journal() for keep in keeps])
            self.folder.save_fired(record)
        self.folder.save_network(exp)
        estimates = {status["name"]: status["agreement"]["consensus"] for status in self.status()}
        self.folder.mark("done", rounds=ends[0].t, engine="peers", consensus_estimates=estimates)


def _note_fired(record: Record, exp: Experiment, activity: Activity, rounds: int, journals: list[Journal]) -> None:
    """What really fired: what the schedule says, without what was missed, skipped or held back."""
    silent = [
        (decision, *((row, decision.row) if decision.kind in ("held", "untold") else (decision.row, row)))
        for row, journal in enumerate(journals)
        for decision in journal.every()
        if decision.kind != "late"
    ]
    if exp.algorithm.needs.keeps_mean:  # who sends nothing is deaf, too
        held = [(d, d.row, row) for row, journal in enumerate(journals) for d in journal.every() if d.kind == "held"]
        silent += held
    for t in range(rounds + 1):
        live = {name: activity.links(t, name).copy() for name in exp.graph.layers}
        now = [entry for entry in silent if entry[0].round == t or (entry[0].kind in CLOSING and entry[0].round < t)]
        for _, source, target in now:
            for name, links in exp.graph.layers.items():
                live[name] &= ~((links.src == source) & (links.dst == target))
        record.note(activity.nodes(t), live)


def _together(exp: Experiment, accounts: list[Any]) -> Ledger:
    """Accounts add up: a row computes in one place, a link is charged where it is sent from."""
    ledger = Ledger(exp.graph)
    for name, values in ledger.arrays().items():
        for account in accounts:
            values += account[name]  # type: ignore[misc]  # counts and times alike
    return ledger


def found_on_this_machine(exp: Experiment, folder: Path, file: Path | None = None) -> list[Home]:
    """Keys, addresses and one signed roster with the graph's links and the experiment's file, for every row."""
    ports = _free_ports(exp.graph.rows)
    homes = [
        Home.create(folder / name, name, (f"127.0.0.1:{port}",), found=row == 0)
        for row, (name, port) in enumerate(zip(_names(exp), ports, strict=True))
    ]
    founder = homes[0].identity
    members = tuple(Member(home.name, home.identity.certificate.decode(), home.addresses) for home in homes)
    ids = [member.id for member in members]
    links = tuple(
        Link(ids[source], ids[target], float(a), float(b), layer)
        for layer, part in exp.graph.layers.items()
        for source, target, a, b in zip(part.src, part.dst, part.a, part.b, strict=True)
    )
    signed = hashlib.sha256(file.read_bytes()).hexdigest() if file else ""
    roster: Roster = homes[0].roster.amended(founder, members=members, links=links, file=signed)
    return [home.trust(roster) for home in homes]


def _names(exp: Experiment) -> list[str]:
    clients, rows = exp.graph.clients, exp.graph.rows
    return [f"row-{row}" if row < clients else f"hub-{row - clients}" for row in range(rows)]


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, all held at once so that none is given twice.

    They lie below those that the system gives to whoever dials, and each process begins its search elsewhere: otherwise two
    federations that start at the same time would be given the same, since peers listen only some seconds later.
    """
    first, found = os.getpid() * 251 + next(_founded) * 97, list[int]()
    with contextlib.ExitStack() as stack:
        for step in range(len(_PORTS)):
            port = _PORTS[(first + step) % len(_PORTS)]
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
            if len(found) == count:
                return found
    raise PeerError(f"{count} rows need a port each, but only {len(found)} of {_PORTS[0]} to {_PORTS[-1]} are free here.")
