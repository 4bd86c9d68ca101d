"""The peers of one run as the tester sees them: processes, disks, clocks, lines, progress."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from peerloom.peers.start import run_identity
from peerloom.peers.wire_plan import WirePlan
from peerloom.transport import RunIdentity

from ..disk import small_disk
from ..ends import free_ports, until
from ..peers import Peers
from ..switch import Switch
from .memory import Samples, resident
from .plan import Fault, RunPlan
from .relays import Relays
from .shim import Shim

__all__ = ["Cluster", "Machine"]

_DELAY = 0.008  # seconds from anybody to anybody: rounds of peers that wait take no less
_MTU = 9000
_TAIL = 1 << 15  # bytes at the end of a history in which to look for the newest round
_SAMPLE_EVERY = 2.0  # seconds between two looks at the memory of all processes


@dataclass(frozen=True)
class Machine:
    """What the machine permits: reasons why not, empty where it does."""

    network: str = ""
    disk: str = ""
    shim: str = ""
    library: Path | None = None
    without: frozenset[str] = frozenset()

    def forbids(self, kind: str) -> str:
        """Why a kind of fault cannot be brought about here."""
        needs = {
            "partition": self.network, "one_way": self.network, "bad_line": self.network,
            "full_disk": self.disk, "slow_disk": self.shim, "clock": self.shim,
        }  # fmt: skip
        return "left out" if kind in self.without else needs.get(kind, "")


@dataclass
class Lines:
    """The network: what is wrong with each line, by fault, so that faults may overlap."""

    switch: Switch | None
    rows: int
    _wrong: dict[int, Fault] = field(default_factory=dict)

    def spoil(self, fault: Fault) -> None:
        """Let this fault act from now on."""
        self._wrong[fault.number] = fault
        self._set()

    def mend(self, fault: Fault) -> None:
        """Let this fault act no more."""
        del self._wrong[fault.number]
        self._set()

    def _set(self) -> None:
        for (source, target), line in self.switch.lines.items() if self.switch else ():
            loss, delay, down = 0.0, _DELAY, False
            for fault in self._wrong.values():
                leaves, arrives = source == fault.row, target == fault.row
                if fault.kind == "bad_line" and (leaves or arrives):
                    loss, delay = max(loss, fault.amount), delay + fault.amount
                down |= fault.kind == "partition" and (leaves or arrives)
                down |= fault.kind == "one_way" and (leaves if fault.word == "from" else arrives)
            line.loss, line.delay, line.down = loss, delay, down


class Cluster:
    """The processes of a run, each in its namespace; whatever happens, none stays behind."""

    def __init__(self, plan: RunPlan, folder: Path, machine: Machine) -> None:
        self.plan, self.folder, self.machine = plan, folder, machine
        self.rows = list(range(plan.peers))  # those that should run; an expelled one leaves
        self.down = set[int]()  # rows that the tester has taken down, or let fail
        self.memory: defaultdict[int, Samples] = defaultdict(list)  # by process id
        self.disks = dict[int, Path]()
        self._stack, self._others = contextlib.ExitStack(), list[subprocess.Popen[bytes]]()
        self._rounds, self._sampled = defaultdict[int, int](int), 0.0

    def __enter__(self) -> Cluster:
        with contextlib.ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._stack.close()

    def _build(self, stack: contextlib.ExitStack) -> None:
        plan, machine = self.plan, self.machine
        sides = plan.peers + 1  # one for those who do not belong
        self.switch = (
            None if machine.network else stack.enter_context(Switch(sides, plan.seed, mtu=_MTU))
        )
        self.lines = Lines(self.switch, plan.peers)
        self.lines._set()
        options = ["--dead", "3", "--wait", "900", *plan.case.options]
        self.peers = Peers(
            plan.experiment(),
            self.folder,
            *options,
            switch=self.switch,
            listening=not plan.relayed,
        )
        self.relays = (
            Relays(self.peers, self.folder, self._relay_addresses(), self.outside)
            if plan.relayed
            else None
        )
        first = self.peers.homes[0].roster
        self.rosters = {first.version: first}  # every one that was signed
        self.shims = [
            Shim(machine.library, self.folder / f"shim-{row}") if machine.library else None
            for row in self.rows
        ]
        if not machine.disk:
            for row in {fault.row for fault in plan.faults if fault.kind == "full_disk"}:
                self.disks[row] = stack.enter_context(small_disk(self.peers.homes[row].state))
        for row in self.rows:
            self.link_history(self.peers.folder(row), self.history(row))
        stack.callback(self._end)
        if self.relays is not None:
            self.relays.start_all()
        stack.enter_context(self.peers)

    @property
    def run(self) -> RunIdentity:
        """What peers agree on before they talk to each other."""
        case, exp = self.plan.case, self.peers.exp
        return run_identity(exp, WirePlan.of(exp, case.deadline, case.mode == "nobody"))

    def _relay_addresses(self) -> list[str]:
        """Two places where nobody of the federation lives."""
        if self.switch is None:
            return [f"127.0.0.1:{port}" for port in free_ports(2)]
        return [f"{self.switch.address(self.plan.peers)}:{port}" for port in (7443, 7444)]

    def _end(self) -> None:
        for process in self._others:
            process.kill()
            process.wait()

    # -- processes

    def start(self, row: int, failpoints: str = "") -> None:
        """Start a row, or start it again."""
        shim = self.shims[row]
        self.peers.start(row, failpoints, shim.environment if shim else None)
        self.down.discard(row)

    def kill(self, row: int) -> None:
        """kill -9; a frozen process dies, too."""
        self.down.add(row)
        self.peers.kill(row)

    def stop(self, rows: list[int], number: signal.Signals, seconds: float) -> dict[int, int]:
        """Send a signal to some rows and wait for their end; exit codes by row."""
        self.down |= set(rows)
        for row in rows:
            self.peers.signal(row, number)
        return {row: self.peers.code(row, seconds) for row in rows}

    def beside(self, row: int, folder: Path, *options: str) -> subprocess.Popen[bytes]:
        """Start another folder's peer where a row lives."""
        process = self.peers.spawn(row, folder, *options)
        self._others.append(process)
        return process

    def outside(self, words: list[str]) -> subprocess.Popen[bytes]:
        """Start a command where nobody of the federation lives."""
        side = self.switch and self.switch.inside(self.plan.peers)
        with side or contextlib.nullcontext(), (self.folder / "outside.txt").open("ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log)
        self._others.append(process)
        return process

    def failed(self) -> Iterator[tuple[int, int]]:
        """Rows that ended by themselves, with their exit codes."""
        for row in self.rows:
            if row not in self.down and (code := self.peers.process(row).poll()) is not None:
                yield row, code

    # -- what is known of them

    def history(self, row: int) -> Path:
        """Where a row's history lies: not on the disk that is filled."""
        return self.folder / f"history-{row}.jsonl"

    @staticmethod
    def link_history(folder: Path, path: Path) -> None:
        """Let what a peer notes in its run's folder go to another place."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "history.jsonl").unlink(missing_ok=True)
        (folder / "history.jsonl").symlink_to(path)

    def round(self, row: int) -> int:
        """The latest round for which a row sent anything."""
        path = self.history(row)
        if path.exists():
            with path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
                for line in file.read().splitlines()[1:]:
                    if b'"what": "put"' in line:
                        with contextlib.suppress(ValueError):
                            event = json.loads(line)
                            if event["channel"] in range(10):  # neither skips nor gossip
                                self._rounds[row] = max(self._rounds[row], event["round"])
        return self._rounds[row]

    def rounds(self) -> dict[int, int]:
        """The latest round of every row that should run."""
        return {row: self.round(row) for row in self.rows}

    def advanced(self, since: dict[int, int], seconds: float, by: int = 2) -> bool:
        """Wait until every row has got beyond these rounds, or one has ended by itself."""

        def seen() -> bool:
            self.sample()
            return any(self.failed()) or all(
                self.round(row) >= since.get(row, 0) + by for row in self.rows
            )

        return until(seen, seconds, every=0.05) and not any(self.failed())

    def sample(self) -> None:
        """Note how much memory every process holds, if that is due."""
        now = time.monotonic()
        if now < self._sampled + _SAMPLE_EVERY:
            return
        self._sampled = now
        for row in self.rows:
            pid = self.peers.process(row).pid
            if (size := resident(pid)) is not None:
                self.memory[pid].append((now, size))
