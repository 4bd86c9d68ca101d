"""Many runs at once: each in a process of its own, all of them sharing the data they train on."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import PeerloomError

__all__ = ["Job", "run_jobs"]

# One thread each: there are as many processes as may be busy at a time, and small rounds gain
# nothing from more threads.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Job:
    """One run: which experiment of which file, into which folder, on which device."""

    file: Path
    place: int
    folder: Path
    device: str = "cpu"


def run_jobs(
    jobs: Sequence[Job],
    at_once: int,
    *,
    tell: Callable[[int, dict[str, Any]], None],
    stop: Callable[[], bool],
) -> None:
    """Carry out these runs, `at_once` at a time, and go on with those that were begun.

    `tell` hears of every event: the number of the run, and its round or its status (done, diverged,
    failed, again where its process was killed and it goes on, interrupted). `stop` is asked now and
    then; the runs on their way are then saved.
    """
    tasks = [
        {"number": k, "file": str(job.file), "place": job.place, "folder": str(job.folder)}
        | {"device": job.device}
        for k, job in enumerate(jobs)
    ]
    with _worker({"tasks": tasks, "jobs": at_once, "path": sys.path}) as process:
        asked = False
        for event in _events(process, stop):
            if event is None:
                if not asked:
                    asked = True
                    process.terminate()
                continue
            tell(event.pop("run"), event)
        if process.wait() and not asked:
            raise PeerloomError(
                f"The process that starts runs ended with code {process.returncode}."
                f"{_last_words(process)}"
            )


@contextmanager
def _worker(document: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process that forks runs, in its own session: Ctrl-C must not reach it directly."""
    with tempfile.TemporaryFile() as wanted, tempfile.TemporaryFile() as complaints:
        wanted.write(json.dumps(document).encode())
        wanted.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "peerloom.runs.pool_worker"],
            stdin=wanted,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env={**os.environ, **_ONE_THREAD},
            start_new_session=True,
        )
        process.complaints = complaints  # type: ignore[attr-defined]
        try:
            yield process
        finally:
            process.terminate()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _events(
    process: subprocess.Popen[bytes], stop: Callable[[], bool]
) -> Iterator[dict[str, Any] | None]:
    """What the worker says, line by line; None whenever a stop is asked for."""
    assert process.stdout is not None
    rest, fd = b"", process.stdout.fileno()
    while True:
        if stop():
            yield None
        if not select.select([fd], [], [], 0.2)[0]:
            continue
        more = os.read(fd, 1 << 16)
        if not more:
            return
        *lines, rest = (rest + more).split(b"\n")
        yield from (json.loads(line) for line in lines)


def _last_words(process: subprocess.Popen[bytes]) -> str:
    complaints = process.complaints  # type: ignore[attr-defined]
    complaints.seek(0)
    text = complaints.read().decode(errors="replace").strip()
    return f" It said: {text[-2000:]}" if text else ""
