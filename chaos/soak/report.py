"""What all runs together showed: a table for the terminal and for the document."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from ..table import machine
from .memory import Samples, growth_per_hour
from .plan import KINDS
from .play import Outcome

__all__ = ["Totals"]

_WARM = 60.0  # seconds of a process that do not count: it may load for half a minute
_LONG = 120.0  # seconds after that which a process must have lived to tell of growth
_TOLD = 10  # processes, those that lived longest


@dataclass
class Totals:
    """Counts over the runs so far."""

    seed: int
    peers: int
    patience: float
    seconds: float = 0.0
    cases: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    combined: int = 0  # episodes of more than one fault
    stalls: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    skipped: dict[str, str] = field(default_factory=dict)
    rounds: int = 0
    parcels: int = 0
    failed: dict[int, list[str]] = field(default_factory=dict)  # violations by run
    old: list[Samples] = field(default_factory=list)  # of processes that lived long

    def add(self, outcome: Outcome) -> None:
        """Count one run."""
        self.cases[str(outcome.plan)] += 1
        self.rounds += outcome.rounds
        self.parcels += outcome.parcels
        self.skipped |= outcome.skipped
        if outcome.violations:
            self.failed[outcome.plan.number] = outcome.violations
        together = Counter(fault.episode for fault in outcome.done)
        self.combined += sum(count > 1 for count in together.values())
        for fault in outcome.done:
            self.faults[fault.kind] += 1
            self.stalls[fault.kind].append(outcome.stalls[fault.number])
        for samples in outcome.memory:
            warm = [(at, size) for at, size in samples if at > samples[0][0] + _WARM]
            if warm and warm[-1][0] - warm[0][0] > _LONG:
                self.old.append(warm)
        self.old.sort(key=lambda samples: samples[0][0] - samples[-1][0])
        del self.old[_TOLD:]

    @property
    def verdict(self) -> str:
        """In a few words."""
        wrong = sum(map(len, self.failed.values()))
        return "nothing wrong" if not wrong else f"{wrong} violations in {len(self.failed)} runs"

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Kind, count, median and longest stall; kinds that were skipped say why."""
        rows = []
        for kind, name in KINDS.items():
            if stalls := self.stalls[kind]:
                middle, longest = statistics.median(stalls), max(stalls)
                rows.append((name, str(self.faults[kind]), f"{middle:.1f} s", f"{longest:.1f} s"))
            else:
                why = self.skipped.get(kind, "")
                rows.append((name, f"skipped: {why}" if why else "0", "-", "-"))
        return rows

    def figures(self) -> list[tuple[str, str]]:
        """What does not belong to one kind."""
        found = [
            ("time", f"{self.seconds / 60:.0f} minutes, seed {self.seed}, {self.peers} peers"),
            ("runs", f"{sum(self.cases.values())} ({_list(self.cases)})"),
            ("faults", f"{self.faults.total()}, with others in {self.combined} episodes"),
            ("rounds of all peers, parcels applied", f"{self.rounds}, {self.parcels}"),
            ("a mended fault must end in progress within", f"{self.patience:.0f} s"),
        ]
        found.append(self._memory())
        found.append(("lost, doubled, reordered, let in, other bits, no progress", self.verdict))
        return found

    def _memory(self) -> tuple[str, str]:
        if not self.old:
            least = _WARM + _LONG
            return "growth of memory", f"not judged: no process lived {least:.0f} s"
        growth = [growth_per_hour(samples) for samples in self.old]
        lives = [samples[-1][0] - samples[0][0] for samples in self.old]
        begun, ended = ([samples[at][1] for samples in self.old] for at in (0, -1))
        who = f"the {len(growth)} processes that lived longest, after their first minute"
        middle = f"{statistics.median(growth):+.1f} MB per hour in the median"
        spread = f"{min(growth):+.1f} to {max(growth):+.1f}"
        size = f"{statistics.median(begun):.1f} MB then, {statistics.median(ended):.1f} at the end"
        span = f"{min(lives):.0f} to {max(lives):.0f} s later"
        return f"growth of memory of {who}", f"{middle} ({spread}); {size}, {span}"

    def show(self, console: Console) -> None:
        """For people at a terminal."""
        table = Table("fault", "times", "median stall", "longest stall", title="faults without end")
        for row in self.rows():
            table.add_row(*row, style="yellow" if row[1].startswith("skipped") else "")
        console.print(table)
        for name, value in self.figures():
            console.print(f"{name}: {value}", highlight=False)
        for run, violations in self.failed.items():
            for text in violations:
                console.print(f"run {run}: {text}", style="red", highlight=False)

    def markdown(self) -> str:
        """For the document, with the date and the machine."""
        lines = [f"Measured on {datetime.now(UTC):%Y-%m-%d}: {machine()}.", ""]
        lines += ["| fault | times | median stall | longest stall |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(row)} |" for row in self.rows()]
        lines += ["", "| | |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in self.figures()]
        return "\n".join(lines)


def _list(counts: Counter[str]) -> str:
    return "; ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
