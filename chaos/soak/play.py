"""One run: peers train, faults befall them, every episode ends in progress; then the verdict."""

from __future__ import annotations

import heapq
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cluster import Cluster, Machine
from .faults import FAULTS, STOPPED, Pauses, ViolationError
from .judge import judge
from .memory import Samples
from .plan import Fault, RunPlan

__all__ = ["Note", "Outcome", "play"]

Note = Callable[..., None]
_BEGIN = 180.0  # seconds in which all must have begun
_CALM = 0.5  # seconds between two episodes
_STOP = 180.0  # seconds in which all must have stopped


@dataclass
class Outcome:
    """What became of a run."""

    plan: RunPlan
    done: list[Fault] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # kinds, and why
    stalls: dict[int, float] = field(default_factory=dict)  # seconds, by the fault's number
    violations: list[str] = field(default_factory=list)
    rounds: int = 0  # of all peers together
    parcels: int = 0
    seconds: float = 0.0
    memory: list[Samples] = field(default_factory=list)  # of every process


def play(
    plan: RunPlan,
    folder: Path,
    machine: Machine,
    patience: float,
    note: Note,
    until: float = float("inf"),
) -> Outcome:
    """Run a plan in an empty folder; no episode begins after the moment `until`."""
    outcome, begin = Outcome(plan), time.monotonic()
    note("run", run=plan.number, case=str(plan), faults=len(plan.faults))
    with Cluster(plan, folder, machine) as cluster:
        _guarded(outcome, note, lambda: _train(cluster, outcome, patience, note, until))
        outcome.memory = list(cluster.memory.values())
        rounds = [cluster.round(row) for row in range(plan.peers)]
        outcome.rounds, outcome.parcels = sum(rounds), _parcels(cluster)
        if not outcome.violations:  # without an orderly end the numbers prove nothing more
            _guarded(outcome, note, lambda: outcome.violations.extend(judge(cluster)))
        for row in range(plan.peers) if outcome.violations else ():
            note("said", row=row, lines=[line.get("text") for line in cluster.peers.log(row)[-5:]])
    outcome.seconds = time.monotonic() - begin
    for text in outcome.violations:
        note("violation", run=plan.number, text=text)
    note("verdict", run=plan.number, rounds=rounds, violations=len(outcome.violations))
    return outcome


def _guarded(outcome: Outcome, note: Note, work: Callable[[], None]) -> None:
    """What breaks, be it the tester, is a violation like any other: later runs are worth having."""
    try:
        work()
    except ViolationError as error:
        outcome.violations.append(str(error))
    except Exception as error:  # noqa: BLE001
        note("broke", traceback=traceback.format_exc())
        outcome.violations.append(f"{type(error).__name__}: {error}")


def _train(cluster: Cluster, outcome: Outcome, patience: float, note: Note, until: float) -> None:
    for row in cluster.rows:
        cluster.start(row)
    if not cluster.advanced({}, max(_BEGIN, patience), by=10):
        raise ViolationError(f"not all have begun: {_standing(cluster)}")
    for faults in outcome.plan.episodes:
        if time.monotonic() > until:
            break
        for fault in faults:
            if why := cluster.machine.forbids(fault.kind):
                outcome.skipped[fault.kind] = why
        possible = [fault for fault in faults if fault.kind not in outcome.skipped]
        if possible:
            _episode(cluster, possible, note)
            _progress(cluster, possible, outcome, patience, note)
    codes = cluster.stop(list(cluster.rows), signal.SIGTERM, _STOP)
    if wrong := {row: code for row, code in codes.items() if code not in STOPPED}:
        raise ViolationError(f"asked to stop, rows ended with exit codes {wrong}")


def _episode(cluster: Cluster, faults: list[Fault], note: Note) -> None:
    """Let faults act, each at its time, until all of them have mended what they did."""
    begin, queue = time.monotonic(), list[tuple[float, int, Fault, Pauses | None]]()
    for fault in faults:
        heapq.heappush(queue, (begin + fault.after, fault.number, fault, None))
    while queue:
        due, number, fault, pauses = heapq.heappop(queue)
        while (rest := due - time.monotonic()) > 0:
            time.sleep(min(rest, 0.5))
            cluster.sample()
        if pauses is None:
            pauses = FAULTS[fault.kind](cluster, fault)
            note("begin", **fault.facts(), rounds=list(cluster.rounds().values()))
        pause = next(pauses, None)
        if pause is None:
            note("end", number=number, kind=fault.kind)
        else:
            heapq.heappush(queue, (time.monotonic() + pause, number, fault, pauses))


def _progress(
    cluster: Cluster, faults: list[Fault], outcome: Outcome, patience: float, note: Note
) -> None:
    """Every row must get on, within the time that a mended fault may cost."""
    since, begin = cluster.rounds(), time.monotonic()
    went_on = cluster.advanced(since, patience)
    stall = time.monotonic() - begin
    outcome.done += faults
    outcome.stalls |= {fault.number: stall for fault in faults}
    note("progress", seconds=round(stall, 3), since=list(since.values()))
    if not went_on:
        raise ViolationError(
            f"{stall:.0f} s after {', '.join(map(str, faults))}: {_standing(cluster)}"
        )
    time.sleep(_CALM)


def _standing(cluster: Cluster) -> str:
    """Who stands where, and what those who ended said last."""
    said = [
        f"row {row} ended with exit code {code} ({_last(cluster, row)})"
        for row, code in cluster.failed()
    ]
    rounds = ", ".join(f"row {row} in round {at}" for row, at in cluster.rounds().items())
    return "; ".join([*said, rounds])


def _last(cluster: Cluster, row: int) -> Any:
    lines = cluster.peers.log(row)
    return lines[-1].get("text", "nothing") if lines else "nothing"


def _parcels(cluster: Cluster) -> int:
    """How many parcels arrived."""
    count = 0
    for row in range(cluster.plan.peers):
        if (path := cluster.history(row)).exists():
            with path.open("rb") as file:
                count += sum(b'"what": "apply"' in line for line in file)
    return count
