"""A whole federation of real processes on one machine, with real TLS, to try out and test."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import socket
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..config import spec_hash
from ..core import Activity, Checkpoint, CheckpointError, DataError, Ledger, judged_fields
from ..core.tensor_file import Array
from ..errors import ConfigError, PeerError
from ..experiment import Experiment
from ..measures import measure
from ..runs import RunFolder
from ..runtime import Snapshot, build_port, prepare_process
from ..schedules import Record
from ..transport import Home, Link, Member, Roster
from .decisions import CLOSING, Decision, Journal
from .experiments import check_enough, run_folder
from .folder import PeerFolder
from .peer import check_stop
from .processes import start_row
from .resources import restore_resources
from .samples import leaves_data_to_sites
from .site import Site
from .status import read_status

__all__ = ["Federation", "found_on_this_machine", "free_ports"]

_LOOK = 0.2  # seconds between two looks at the processes,
_LOOK_EACH = 0.01  # and for each of them: who watches many must not take their processors
_PORTS = range(20000, 32000)
_founded = itertools.count()  # federations of this process


class Federation:
    """One process per row of an experiment, each with a key and a folder below `out / peers`."""

    def __init__(
        self,
        exp: Experiment,
        out: Path,
        deadline: float | None = None,
        free: bool = False,
        begin: Checkpoint | None = None,
        samples: dict[int, tuple[str, str]] | None = None,
        addresses: Sequence[str] | None = None,
        enough: float | None = None,
        device: str = "cpu",
    ) -> None:
        """With `begin`, the peers go on with a run that others began: see `checkpoint`.

        `samples` are the sources of rows that bring their own, with the label's column.
        `addresses` are those of the rows, as in `found_on_this_machine`. Gradients are computed on
        `device`.
        """
        if leaves_data_to_sites(exp) and samples is None:
            raise ConfigError(
                "The file leaves the data to every site (data 'own'), but here all rows start on "
                "one machine. Name data in the file, or start each peer by itself: peerloom peer "
                "start FILE --data SAMPLES"
            )
        check_stop(exp)
        check_enough(enough, deadline, free)
        prepared = prepare_process(keep_memory=False)  # rows' processes inherit the environment
        folder = RunFolder.create(out, exp, process=prepared._asdict())
        homes = found_on_this_machine(exp, out / "peers", folder.config, addresses)
        self._set(folder, homes, deadline, free, enough)
        self._device = device
        self.samples.update(samples or {})
        if begin is not None:
            for row, peer in enumerate(self.peer_folders()):
                peer.begin_with(begin, row, exp.graph)

    @classmethod
    def adopt(cls, exp: Experiment, out: Path) -> Federation:
        """A federation whose folder is there already."""
        homes = [Home.open(out / "peers" / name) for name in _names(exp)]
        federation = cls.__new__(cls)
        federation._set(RunFolder(out), homes, None, False)
        return federation

    def _set(
        self,
        folder: RunFolder,
        homes: list[Home],
        deadline: float | None,
        free: bool,
        enough: float | None = None,
    ) -> None:
        # As every peer reads it: what the file says is what is hashed.
        self.exp, self.folder, self.homes = folder.experiment(), folder, homes
        self._deadline, self._free, self._enough = deadline, free, enough
        self._pause: int | None = None
        self._device = "cpu"
        self.samples: dict[int, tuple[str, str]] = {}
        self.folders = [run_folder(home, self.exp) for home in homes]  # of this run, by row
        self._running: dict[int, BaseProcess] = {}

    def start(self, row: int) -> None:
        """Start a row's process, or start it again."""
        folder = self.homes[row].folder
        data, label = self.samples.get(row, ("", ""))
        site = Site(
            data,
            label,
            deadline=self._deadline,
            enough=self._enough,
            free=self._free,
            pause=self._pause,
            judged=None,  # `collect` needs all
            device=self._device,
        )
        self._running[row] = start_row(self.folder.config, folder, folder / "log.txt", site)

    def kill(self, row: int) -> None:
        """Kill a row's process without warning, as a power cut does."""
        self._running[row].kill()
        self._running[row].join()

    def stop(self, row: int) -> None:
        """Ask a row's process to stop (SIGTERM); one that has ended is left alone."""
        self._running[row].terminate()

    def run(
        self,
        on_status: Callable[[list[dict[str, Any]]], None] | None = None,
        *,
        pause: int | None = None,
    ) -> None:
        """Start all, wait for all; if one fails the others are stopped and what it said is raised.

        With `pause` all stop after that round, and the next `run` goes on from there.
        """
        self._pause = pause
        with self.no_orphans():
            for row in range(len(self.homes)):
                self.start(row)
            self.wait(on_status)

    def wait(self, on_status: Callable[[list[dict[str, Any]]], None] | None = None) -> None:
        """Wait until every process has ended well; raise what a failed one said."""
        running, pause = True, max(_LOOK, _LOOK_EACH * len(self.homes))
        while running:
            running = any(process.exitcode is None for process in self._running.values())
            for row, process in self._running.items():
                if process.exitcode not in (None, 0):
                    raise PeerError(
                        f"{self.homes[row].name} failed with exit code {process.exitcode}: "
                        f"{self.said(row)}"
                    )
            if on_status is not None:
                on_status(self.status())
            if running:
                alive = [each for each in self._running.values() if each.exitcode is None]
                connection.wait([process.sentinel for process in alive], pause)

    def status(self) -> list[dict[str, Any]]:
        """Return the last status of every row that has written one."""
        found = []
        for home, folder in zip(self.homes, self.folders, strict=True):
            if (folder / "status.json").exists():
                found.append({"name": home.name, **read_status(folder)})
        return found

    def peer_folders(self) -> list[PeerFolder]:
        """What every row keeps on disk."""
        spec = spec_hash(self.exp)
        return [PeerFolder(folder, spec) for folder in self.folders]

    @contextlib.contextmanager
    def no_orphans(self) -> Iterator[None]:
        """End all processes on the way out, whatever happens."""
        try:
            yield
        finally:
            for row in self._running:
                self.stop(row)
            for process in self._running.values():
                process.join(10)
                if process.exitcode is None:
                    process.kill()
                    process.join()

    def exit_code(self, row: int) -> int | None:
        """The exit code of a row's process; None while it runs."""
        return self._running[row].exitcode

    def said(self, row: int) -> str:
        """Return the last line of a row's log."""
        log = self.homes[row].folder / "log.txt"
        text = log.read_text(encoding="utf-8", errors="replace").strip()
        return text.rpartition("\n")[2] or "nothing"

    # -- what came of it

    def collect(self) -> None:
        """Merge the rows' evaluations and models into one run folder, as `simulate` leaves one."""
        folders = self.peer_folders()
        exp, rows = restore_resources(self.exp, folders[0].path), self.evaluations()
        ends = [replace(at, wire={}) for folder in folders if (at := folder.newest()) is not None]
        whole = Checkpoint.merge(ends)
        self.folder.save_metrics(rows)
        self.folder.save(whole)
        if not self._free:  # where nobody waits, links do not fire round by round
            port = build_port(exp)
            record = Record(exp.graph, port.resources if self.exp.measures else None)
            _note_fired(
                record, exp, port.activity, whole.t, [folder.journal() for folder in folders]
            )
            self.folder.save_fired(record)
        self.folder.save_network(exp)
        estimates = {status["name"]: status["agreement"]["consensus"] for status in self.status()}
        self.folder.mark("done", rounds=whole.t, engine="peers", consensus_estimates=estimates)

    @torch.no_grad()
    def evaluations(self) -> list[dict[str, Any]]:
        """What the rows measured, put together to one row per evaluated round."""
        folders = self.peer_folders()
        exp, found = restore_resources(self.exp, folders[0].path), []
        port = build_port(exp)
        lines = {line["round"]: line["seconds"] for line in folders[0].measurements()}
        for round, spent in sorted(lines.items()):
            judged = [folder.judged(round) for folder in folders]
            state = _judged_state(exp, judged)
            account = Ledger.total(exp.graph, [Ledger.of(exp.graph, entry) for entry in judged])
            snapshot = Snapshot(round, state, port, exp.algorithm, ledger=account)
            trained = exp.algorithm if exp.evaluate.train else None
            found.append(measure(snapshot, spent, trained=trained))
        return found

    def checkpoint(self) -> Checkpoint:
        """Return all rows after the newest round that every peer has a checkpoint of.

        Any engine can go on with it. Begun in the simulator, continued by peers, and back:

            folder = RunFolder(Path("runs/one"))  # of a run that was interrupted
            exp, out = folder.experiment(), Path("runs/peers")
            federation = Federation(exp, out, begin=folder.checkpoint())
            federation.run(pause=60)  # all stop after round 60
            folder.save(federation.checkpoint())
            simulate(folder.experiment(), out=folder.path, path="links", resume=True)
        """
        parts = [{at.t: at for at in folder.delivered()} for folder in self.peer_folders()]
        common = set.intersection(*(set(each) for each in parts))
        if not common:
            raise CheckpointError(
                "There is no round after which every peer has a checkpoint with nothing under way. "
                "Let all go on to the same round, without a deadline: `run(pause=ROUND)`."
            )
        return Checkpoint.merge([each[max(common)] for each in parts])


def _judged_state(exp: Experiment, judged: Sequence[Mapping[str, Array]]) -> Any:
    """What was judged of all rows, as a state."""
    names = judged_fields(exp.algorithm)
    if any(name not in entry for entry in judged for name in names):
        raise DataError(
            f"What peers kept of their evaluations lacks {names[-1]}, by which the models of "
            f"{type(exp.algorithm).__name__} are averaged: an older version kept it. "
            "Run it anew to have it measured."
        )
    columns = (torch.from_numpy(np.stack([entry[name] for entry in judged])) for name in names)
    return namedtuple("Judged", names)(*columns)


def _note_fired(
    record: Record, exp: Experiment, activity: Activity, rounds: int, journals: list[Journal]
) -> None:
    """Record what fired: the schedule, without what was missed, skipped or held back."""
    silent: list[tuple[Decision, int, int]] = []  # with the sender and the receiver
    away: list[tuple[int, int, int, int]] = []  # two rows, first round, first round after it
    for row, journal in enumerate(journals):
        away += [
            (row, other, first[0], end[0] + (end[1] > 1))
            for other, first, end in journal.absences.spans()
        ]
        for decision in journal.every():
            if decision.kind in ("held", "untold"):
                silent.append((decision, row, decision.row))
            elif decision.kind not in ("late", "away", "back"):
                silent.append((decision, decision.row, row))
            if decision.kind == "held" and exp.algorithm.needs.keeps_mean:
                silent.append((decision, decision.row, row))  # a row that holds back is deaf, too
    for t in range(rounds + 1):
        live = {name: activity.links(t, name).copy() for name in exp.graph.layers}
        now = [
            entry
            for entry in silent
            if entry[0].round == t or (entry[0].kind in CLOSING and entry[0].round < t)
        ]
        pairs = [(source, target) for _, source, target in now]
        for row, other, first, end in away:
            if first <= t < end:
                pairs += [(row, other), (other, row)]
        for source, target in pairs:
            for name, links in exp.graph.layers.items():
                live[name] &= ~((links.src == source) & (links.dst == target))
        record.note(activity.nodes(t), live)


def found_on_this_machine(
    exp: Experiment,
    folder: Path,
    file: Path | None = None,
    addresses: Sequence[str] | None = None,
) -> list[Home]:
    """Make a home for every row: keys, one signed roster with the graph's links.

    Without `addresses` every row gets a free port of the loopback device; an empty one says that a
    row cannot be dialled.
    """
    places = addresses or [f"127.0.0.1:{port}" for port in free_ports(exp.graph.rows)]
    homes = [
        Home.create(folder / name, name, (place,) if place else (), found=row == 0)
        for row, (name, place) in enumerate(zip(_names(exp), places, strict=True))
    ]
    founder = homes[0].identity
    members = tuple(
        Member(home.name, home.identity.certificate.decode(), home.addresses) for home in homes
    )
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


def free_ports(count: int) -> list[int]:
    """Ports that are free now, all held at once so that none is given twice.

    They lie below the ephemeral ports of the system, and each process begins its search elsewhere:
    otherwise two federations that start at the same time would get the same ports, since peers
    listen only some seconds later.
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
    raise PeerError(
        f"{count} rows need a port each, but only {len(found)} of {_PORTS[0]} to {_PORTS[-1]} are "
        "free here."
    )
