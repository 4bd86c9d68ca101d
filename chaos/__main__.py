"""Faults on purpose, and what the peers make of them.

python -m chaos [--only N] [--quick] [--write FILE]            scenarios, each with its figures
python -m chaos soak [--minutes M] [--seed N] [--write FILE]   faults without end
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from peerloom.runtime import prepare_process

from .figures import Scenario, SkippedError, Stage
from .scenarios import SCENARIOS
from .soak import command as soak
from .table import MEASURED, Outcome, check_place, markdown, on_screen, write_into

__all__ = ["main", "play"]

LONGEST = 30 * 60.0  # seconds for all; scenarios that would begin after this are skipped


def play(scenario: Scenario, quick: bool, console: Console | None = None) -> Outcome:
    """Run one scenario in a folder that is removed afterwards; an error is an outcome, too."""
    begin = time.monotonic()
    status = console.status(scenario.title) if console is not None else None

    def say(text: str) -> None:
        if status is not None:
            status.update(f"{scenario.number} {scenario.title}: {text}")

    with tempfile.TemporaryDirectory(prefix="peerloom-chaos-") as folder:
        if status is not None:
            status.start()
        try:
            figures = tuple(scenario.run(Stage(Path(folder), quick, say)))
            return Outcome(scenario, time.monotonic() - begin, figures)
        except SkippedError as reason:
            return Outcome(scenario, time.monotonic() - begin, skipped=str(reason))
        except Exception as error:  # noqa: BLE001  (the other scenarios are still worth running)
            if console is not None:
                console.print_exception()
            return Outcome(
                scenario, time.monotonic() - begin, failed=f"{type(error).__name__}: {error}"
            )
        finally:
            if status is not None:
                status.stop()


def main(words: list[str] | None = None) -> int:
    """The command; 1 if a target was missed or a promise not kept."""
    words = sys.argv[1:] if words is None else words
    # Before torch computes: as peers add, so does what they are compared with.
    prepare_process(threads=1, keep_memory=False)
    # What peers say of faults is no news here.
    logging.getLogger("peerloom").addHandler(logging.NullHandler())
    if words[:1] == ["soak"]:
        return soak.main(words[1:], Console())
    return _scenarios(words)


def _scenarios(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m chaos", description="Faults on purpose, and what the peers make of them."
    )
    parser.add_argument(
        "--only",
        type=int,
        nargs="+",
        choices=sorted(SCENARIOS),
        metavar="N",
        help="these scenarios",
    )
    parser.add_argument("--quick", action="store_true", help="shorter faults, fewer repetitions")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="DOCUMENT",
        help="put the table between the marks of this file",
    )
    asked = parser.parse_args(words)
    if asked.write is not None:
        check_place(asked.write, MEASURED)  # now, not after the first scenario
    console, begin = Console(), time.monotonic()
    outcomes = list[Outcome]()
    for number in asked.only or sorted(SCENARIOS):
        if time.monotonic() - begin > LONGEST:
            outcomes.append(Outcome(SCENARIOS[number], 0.0, skipped="no time was left"))
            continue
        outcomes.append(play(SCENARIOS[number], asked.quick, console))
        last = outcomes[-1]
        console.print(
            f"{number:>2} {last.scenario.title}: {last.verdict} ({last.seconds:.0f} s)",
            highlight=False,
        )
        if asked.write is not None:  # after each, so that an interruption loses nothing
            write_into(asked.write, markdown(outcomes, asked.quick), MEASURED)
    console.print(on_screen(outcomes))
    return int(any(outcome.missed for outcome in outcomes))


if __name__ == "__main__":
    # So that no peer stays behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
