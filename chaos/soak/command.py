"""Faults without end: python -m chaos soak --minutes 60 --seed 7 [--peers 5] [--write DOCUMENT]."""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from ..disk import small_disk
from ..figures import SkippedError
from ..switch import Switch
from ..table import check_place, write_into
from .cluster import Machine
from .crowd import run_crowd
from .plan import KINDS, RunPlan, plan_run
from .play import Note, Outcome, play
from .report import Totals
from .shim import build
from .shrink import shrink

__all__ = ["CROWD", "MARK", "look_at_machine", "main"]

MARK, CROWD = "soak", "crowd"
"""The names of the marks between which a document has the tables."""
_LEAST_SAMPLES = 8
_LEAST_PEERS = 3


def main(words: list[str], console: Console) -> int:
    """The command; 1 if a promise was not kept."""
    asked = _parser().parse_args(words)
    mark = MARK if asked.crowd is None else CROWD
    if asked.write is not None:
        check_place(asked.write, mark)
    if asked.crowd is not None:
        return _crowd(asked, console)
    out = asked.out or Path(tempfile.mkdtemp(prefix="peerloom-soak-"))
    out.mkdir(parents=True, exist_ok=True)
    soak = Soak(asked, out, console)
    try:
        soak.run()
    except KeyboardInterrupt:
        console.print("ended early, by hand")
    totals = soak.totals
    totals.seconds = time.monotonic() - soak.begin
    totals.show(console)
    if asked.write is not None:
        write_into(asked.write, totals.markdown(), mark)
    console.print(f"history of faults: {soak.history}", highlight=False, soft_wrap=True)
    for text in soak.repeats:
        console.print(f"to repeat: {text}", highlight=False, soft_wrap=True)
    return int(bool(totals.failed))


def _crowd(asked: argparse.Namespace, console: Console) -> int:
    crowd = run_crowd(asked.crowd, asked.minutes, console)
    if any(len(samples) < _LEAST_SAMPLES for samples in crowd.samples):
        console.print("ended before memory could be judged")
        return 1
    for name, value in crowd.figures():
        console.print(f"{name}: {value}", highlight=False)
    if asked.write is not None:
        write_into(asked.write, crowd.markdown(), CROWD)
    return int(crowd.failed)


class Soak:
    """Run after run until the time is up."""

    def __init__(self, asked: argparse.Namespace, out: Path, console: Console) -> None:
        self._asked, self._out, self._console = asked, out, console
        self.begin, self.history = time.monotonic(), out / "faults.jsonl"
        self.totals = Totals(asked.seed, asked.peers, asked.patience)
        self.repeats = list[str]()  # commands that repeat what failed
        self._machine = replace(look_at_machine(out), without=frozenset(asked.without))

    def run(self) -> None:
        """All runs, or the one that was asked for."""
        asked, end = self._asked, self.begin + 60 * self._asked.minutes
        self.note("soak", **{name: str(value) for name, value in vars(asked).items()})
        for number in itertools.count(asked.run) if asked.faults is None else [asked.run]:
            plan = plan_run(asked.seed, number, asked.peers)
            plan = plan if asked.faults is None else plan.only(asked.faults)
            outcome = self._play(plan, until=end if asked.faults is None else float("inf"))
            self.totals.add(outcome)
            if outcome.violations:
                self._repeat(outcome)
            if time.monotonic() > end:
                return

    def note(self, what: str, **facts: Any) -> None:
        """Add a line to the history of faults."""
        line = {"what": what, "at": round(time.monotonic() - self.begin, 3), **facts}
        with self.history.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _play(self, plan: RunPlan, until: float = float("inf"), quiet: bool = False) -> Outcome:
        """One run, in a folder that stays only if something was wrong."""
        folder = Path(tempfile.mkdtemp(prefix=f"run-{plan.number}-", dir=self._out))
        with self._console.status(f"run {plan.number}: {plan}") as status:
            note = self._telling(plan, status.update)
            outcome = play(plan, folder, self._machine, self._asked.patience, note, until)
        if not outcome.violations:
            shutil.rmtree(folder)
        for text in () if quiet else outcome.violations:
            self._console.print(f"run {plan.number}: {text}", style="red", highlight=False)
        if not quiet:
            self._console.print(
                f"run {plan.number}: {plan}, {len(outcome.done)} faults, {outcome.rounds} "
                f"rounds, {outcome.parcels} parcels, {outcome.seconds:.0f} s: "
                f"{'WRONG, see ' + str(folder) if outcome.violations else 'right'}",
                highlight=False,
                soft_wrap=True,
            )
        return outcome

    def _telling(self, plan: RunPlan, show: Callable[[str], None]) -> Note:
        def note(what: str, **facts: Any) -> None:
            self.note(what, **facts)
            spent = (time.monotonic() - self.begin) / 60
            show(f"{spent:.1f} min, run {plan.number}, {plan}: {what} {facts.get('kind', '')}")

        return note

    def _repeat(self, outcome: Outcome) -> None:
        """Find out which faults it takes, and how to repeat them."""
        asked, plan = self._asked, outcome.plan
        needed = [fault.number for fault in plan.faults]
        if asked.shrink:

            def fails(part: list[int]) -> bool:
                self._console.print(f"shrinking: {len(part)} faults {part}", highlight=False)
                return any(
                    self._play(plan.only(part), quiet=True).violations for _ in range(asked.tries)
                )

            needed = shrink(needed, fails)
        chosen = ",".join(map(str, needed)) or "none"
        self.repeats.append(
            shlex.join(
                f"python -m chaos soak --seed {plan.seed} --peers {plan.peers} --run {plan.number} "
                f"--faults {chosen}".split()
            )
        )
        faults = [str(fault) for fault in plan.only(needed).faults]
        self.note("repeat", command=self.repeats[-1], faults=faults)


def look_at_machine(folder: Path) -> Machine:
    """What is permitted here: tried out, not guessed."""
    network = disk = shim = ""
    library = None
    try:
        with Switch(1):
            pass
    except SkippedError as reason:
        network = str(reason)
    try:
        with small_disk(folder / "small"):
            pass
    except SkippedError as reason:
        disk = str(reason)
    try:
        library = build(folder)
    except SkippedError as reason:
        shim = str(reason)
    return Machine(network, disk, shim, library)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaos soak",
        description="Real peers train, run after run, under faults drawn from a seed.",
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--seed", type=int, default=1, help="every draw depends on it (1)")
    parser.add_argument("--peers", type=_peers, default=5, help="processes of a run (5)")
    parser.add_argument("--run", type=int, default=0, help="the number of the first run (0)")
    parser.add_argument(
        "--faults", type=_numbers, metavar="N,N", help="only that run, with these of its faults"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=60.0,
        help="seconds after which a mended fault must have ended in progress (60)",
    )
    parser.add_argument(
        "--without",
        nargs="+",
        choices=sorted(KINDS),
        default=[],
        metavar="KIND",
        help="leave these kinds of faults out; the others stay as they are",
    )
    parser.add_argument(
        "--crowd",
        type=_peers,
        nargs="?",
        const=64,
        metavar="PEERS",
        help="no faults: so many peers (64), and whether their memory grows",
    )
    parser.add_argument("--shrink", action="store_true", help="look for fewer faults that fail")
    parser.add_argument("--tries", type=int, default=2, help="runs of each part when shrinking (2)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="the history, and what went wrong (a new folder)"
    )
    parser.add_argument(
        "--write", type=Path, metavar="DOCUMENT", help="put the table between the marks of a file"
    )
    return parser


def _numbers(text: str) -> list[int]:
    return [] if text == "none" else [int(part) for part in text.split(",")]


def _peers(text: str) -> int:
    if (peers := int(text)) < _LEAST_PEERS:
        raise argparse.ArgumentTypeError(f"a ring needs {_LEAST_PEERS} peers, found {peers}")
    return peers
