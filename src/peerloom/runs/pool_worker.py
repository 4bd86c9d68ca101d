"""The other side of `pool`: a process that loads data once and forks one process per run.

Run as a module, not imported. It reads one JSON document from its input, the runs to carry out, and
writes one line of JSON per event. It never uses more than one thread itself, so that forking is
safe, and what it has loaded is shared with its children by the operating system.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ..config import Comparison, comparison_from, read_file
from ..core import DivergedError, PeerloomError
from ..core.events import each_round
from ..experiment import Experiment
from ..runtime import prepare_process
from .runner import simulate
from .store import RunFolder

__all__: list[str] = []

TRIES = 3  # a run whose process is killed goes on from its last checkpoint, so often
_TELL_EVERY = 0.2  # seconds between two lines about one run's rounds


@dataclass
class Task:
    """One run: the file its comparison is in, its place there, its folder, where it computes."""

    number: int
    file: str
    place: int
    folder: str
    device: str = "cpu"
    tries: int = 0


class PoolWorker:
    """Runs that wait and runs that are on their way."""

    def __init__(self, tasks: list[Task], jobs: int) -> None:
        self._waiting, self._jobs = deque(tasks), jobs
        self._running: dict[int, Task] = {}
        self._stopping = False
        self._file, self._comparison = "", Comparison("", ())

    def run(self) -> None:
        """Run until all is done, or SIGTERM asks to stop."""
        signal.signal(signal.SIGTERM, self._stop)
        while self._running or (self._waiting and not self._stopping):
            while self._waiting and len(self._running) < self._jobs and not self._stopping:
                self._start(self._waiting.popleft())
            if self._running:
                self._reap(*os.waitpid(-1, 0))

    def _start(self, task: Task) -> None:
        try:
            exp = self._experiment(task)
        except PeerloomError as error:
            tell(run=task.number, status="failed", message=str(error))
            return
        pid = os.fork()
        if not pid:
            os._exit(_child(task, exp))
        self._running[pid] = task
        if self._stopping:  # asked between the last look and the fork
            os.kill(pid, signal.SIGTERM)

    def _experiment(self, task: Task) -> Experiment:
        """Return a task's experiment, from the comparison at hand or one that is read now.

        The comparison before is dropped only then, so that equal data are not loaded again.
        """
        if task.file != self._file:
            self._file, self._comparison = task.file, comparison_from(read_file(Path(task.file)))
        return self._comparison.experiments[task.place]

    def _reap(self, pid: int, status: int) -> None:
        task = self._running.pop(pid)
        if os.WIFSIGNALED(status) and not self._stopping:
            task.tries += 1
            if task.tries < TRIES:
                tell(
                    run=task.number,
                    status="again",
                    message=f"its process was ended by signal {os.WTERMSIG(status)}",
                )
                self._waiting.appendleft(task)
            else:
                tell(
                    run=task.number,
                    status="failed",
                    message=f"its process was ended {TRIES} times, maybe for want of memory",
                )

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        for pid in list(self._running):
            os.kill(pid, signal.SIGTERM)


def _child(task: Task, exp: Experiment) -> int:
    """One run, in a process of its own; it stops when asked to, or when nobody listens any more."""
    asked = False

    def ask(*_: Any) -> None:
        nonlocal asked
        asked = True

    signal.signal(signal.SIGTERM, ask)
    folder, told = RunFolder(Path(task.folder)), 0.0
    begun = (folder.path / "run.json").exists()
    prepare_process(
        keep_memory=False,
        threads=int(folder.info().get("versions", {}).get("threads", 1)) if begun else 1,
    )

    def report(t: int) -> None:
        nonlocal told, asked
        if time.monotonic() - told > _TELL_EVERY:
            told = time.monotonic()
            asked = not tell(run=task.number, round=t) or asked

    try:
        result = simulate(
            exp,
            device=task.device,
            out=folder.path,
            resume=True,
            observers=[each_round(report)],
            stop=lambda: asked,
        )
        tell(run=task.number, status="done" if result.finished else "interrupted")
    except DivergedError as error:
        tell(run=task.number, status="diverged", message=str(error))
    except PeerloomError as error:
        tell(run=task.number, status="failed", message=str(error))
    except Exception:  # noqa: BLE001  (a fault of ours: the one who asked must see where)
        tell(run=task.number, status="failed", message=traceback.format_exc())
    return 0


def tell(**event: Any) -> bool:
    """One line, whole; False where nobody listens."""
    try:
        os.write(sys.stdout.fileno(), (json.dumps(event) + "\n").encode())
    except BrokenPipeError:
        return False
    return True


if __name__ == "__main__":
    prepare_process(threads=1, keep_memory=False)
    wanted = json.load(sys.stdin)
    sys.path[:] = wanted["path"]  # code that a file names is found where the parent finds it
    PoolWorker([Task(**task) for task in wanted["tasks"]], wanted["jobs"]).run()
