"""Peers as sites run them: one `peerloom peer start` process per row, to kill and to stop."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from peerloom.config import comparison_from, spec_hash
from peerloom.core import Checkpoint
from peerloom.experiment import Experiment
from peerloom.peers.experiments import run_folder
from peerloom.peers.federation import found_on_this_machine
from peerloom.peers.folder import PeerFolder
from peerloom.peers.status import read_status
from peerloom.runs import RunFolder
from peerloom.runtime import build_port, iterate
from peerloom.transport import Home, read_history
from tests.doubles.checker import check_histories

from .ends import until
from .switch import Switch

__all__ = ["Peers", "experiment", "gradient_left", "gradients"]

Event = dict[str, Any]
_SAMPLES = 20  # of each peer
_PORT = 7400  # of every row that lives in a namespace of its own


def experiment(
    rounds: int,
    rule: str = "SpodGT",
    clients: int = 4,
    features: int = 600,
    graph: str = "ring",
    *,
    seed: int = 1,
    arguments: str = "lr = {rate:.6f}",
    schedule: str = '{ name = "Bernoulli", links = 0.9 }',
    message: str = '{ name = "Dense" }',
) -> Experiment:
    """Least squares in float64 with exact gradients.

    The default rule tracks gradients, because every lost message then shows in the result. `{rate}`
    in a rule's arguments is a step that converges.
    """
    smoothness = (features**0.5 + _SAMPLES**0.5) ** 2 / _SAMPLES  # of normal samples, nearly always
    given = arguments.format(rate=0.1 / smoothness)
    text = f"""
        rounds = {rounds}
        seed = {seed}
        dtype = "float64"
        graph = {{ name = "{graph}", clients = {clients} }}
        schedule = {schedule}
        message = {message}
        evaluate = {{ every = {max(rounds // 4, 1)} }}
        algorithms = [{{ name = "{rule}", {given} }}]
        [problem]
        name = "Classification"
        model = "least_squares"
        batch = "all"
        [problem.data]
        name = "linear_regression"
        samples = {_SAMPLES * clients}
        features = {features}
    """
    (found,) = comparison_from(tomllib.loads(text)).experiments
    return found


def gradients(exp: Experiment, x: torch.Tensor) -> torch.Tensor:
    """Every row's gradient at one model."""
    net = build_port(exp)
    return net.grad(x.to(net.place.dtype).reshape(1, -1).expand(exp.graph.rows, -1).contiguous())


def gradient_left(exp: Experiment, models: torch.Tensor) -> float:
    """|sum of all gradients| at the mean of these models, relative to the start."""
    now, before = (
        gradients(exp, x).sum(dim=0).norm() for x in (models.mean(dim=0), exp.start([0]))
    )
    return float(now / before)


class Peers:
    """All rows of an experiment. Use it in a `with`: whatever happens, no process stays behind."""

    def __init__(
        self,
        exp: Experiment,
        folder: Path,
        *options: str,
        history: bool = True,
        homes: list[Home] | None = None,
        switch: Switch | None = None,
        listening: bool = True,
    ) -> None:
        """With a switch every row lives in the namespace of its side."""
        run = RunFolder.create(folder / "run", exp)
        self.exp, self.file, self._switch = run.experiment(), run.config, switch
        self._options = [*options, *(["--history"] if history else [])]
        rows = range(self.exp.graph.rows)
        places = [f"{switch.address(row)}:{_PORT}" for row in rows] if switch else None
        places = places if listening else [""] * len(rows)
        self.homes = homes or found_on_this_machine(self.exp, run.path / "peers", self.file, places)
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *ignored: object) -> None:
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    # -- what happens to them

    def start(
        self, row: int, failpoints: str = "", environment: Mapping[str, str] | None = None
    ) -> float:
        """Start a row's process, or start it again; when that was."""
        begin = time.time()
        self._running[row] = self.spawn(
            row, self.homes[row].folder, failpoints=failpoints, environment=environment or {}
        )
        return begin

    def spawn(
        self,
        row: int,
        folder: Path,
        *options: str,
        failpoints: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """A process for this folder where the row lives; who asks must end it."""
        module = "tests.doubles.failpoints" if failpoints else "peerloom"
        command = [sys.executable, "-m", module, "peer", "start", str(self.file)]
        command += ["--folder", str(folder), "--log-json", *self._options, *options]
        surroundings = os.environ | {"OMP_NUM_THREADS": "1", "PEERLOOM_FAILPOINTS": failpoints}
        surroundings |= environment or {}
        inside = self._switch.inside(row) if self._switch else contextlib.nullcontext()
        with inside, (folder / "log.txt").open("ab") as log:
            return subprocess.Popen(command, env=surroundings, stdout=log, stderr=log)

    def start_all(self) -> None:
        """Start every row."""
        for row in range(len(self.homes)):
            self.start(row)

    def kill(self, row: int) -> float:
        """kill -9, as a power cut does; when that was."""
        at = time.time()
        self._running[row].kill()
        self._running[row].wait()
        return at

    def signal(self, row: int, number: signal.Signals) -> float:
        """Send any other signal; when that was."""
        self._running[row].send_signal(number)
        return time.time()

    def process(self, row: int) -> subprocess.Popen[bytes]:
        """The last process of a row."""
        return self._running[row]

    def died(self, row: int, seconds: float) -> bool:
        """Wait for a row to be killed by one of its own failpoints."""
        return self._running[row].wait(seconds) == -signal.SIGKILL

    def code(self, row: int, seconds: float) -> int:
        """Wait for a row to end; its exit code."""
        return self._running[row].wait(seconds)

    def finish(self, seconds: float, but: int | None = None) -> None:
        """Wait until all, or all but one, have ended well."""
        end = time.monotonic() + seconds
        for row, process in self._running.items():
            if row == but:
                continue
            if code := process.wait(max(0.0, end - time.monotonic())):
                raise RuntimeError(
                    f"{self.homes[row].name} ended with exit code {code}: {self.log(row)[-1:]}"
                )

    # -- what is known of them

    def folder(self, row: int) -> Path:
        """Where a row keeps its run."""
        return run_folder(self.homes[row], self.exp)

    def round(self, row: int) -> int:
        """The last round it told of; -1 before the first."""
        folder = self.folder(row)
        return int(read_status(folder)["round"]) if (folder / "status.json").exists() else -1

    def reach(self, rounds: int, seconds: float = 90.0) -> None:
        """Wait until every row has told of this round."""
        rows = range(len(self.homes))
        if not until(lambda: all(self.round(row) >= rounds for row in rows), seconds):
            at = [self.round(row) for row in rows]
            raise RuntimeError(f"after {seconds:.0f} s the rows stand at {at}")

    def log(self, row: int) -> list[Event]:
        """What a row said, with times in seconds."""
        found, path = [], self.homes[row].folder / "log.txt"
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                found.append(event | {"at": datetime.fromisoformat(event["at"]).timestamp()})
        return found

    def heard(self, row: int, kind: str, about: int, since: float, seconds: float = 30.0) -> float:
        """When a row first said this about another after a moment; infinity if it did not."""

        def found() -> Iterator[float]:
            for event in self.log(row):
                if (
                    event["kind"] == kind
                    and event["about"] == self.homes[about].name
                    and event["at"] >= since - 0.002
                ):
                    yield event["at"]

        until(lambda: any(True for _ in found()), seconds)
        return next(found(), float("inf"))

    def history(self, row: int) -> list[Event]:
        """Every event of its links."""
        path = self.folder(row) / "history.jsonl"
        return list(read_history(path)) if path.exists() else []

    def complaints(self) -> list[str]:
        """What the checker finds wrong in all histories together."""
        return check_histories(
            {home.identity.id: self.history(row) for row, home in enumerate(self.homes)}
        )

    def different_numbers(self) -> int:
        """How many numbers of all models differ from those of a run that nobody disturbed."""
        *_, last = iterate(self.exp, path="links")
        return int(torch.count_nonzero(self.models() != last.state.x))

    def mass_defect(self, points: list[Checkpoint]) -> float:
        """How far mass is from being conserved under SpodGT, relative to the first gradients.

        Trackers and what is in transit must sum to the gradients used last.
        """
        links, n = self.exp.graph.peers, self.exp.problem.n
        under_way = np.zeros(n)
        for source, target, weight in zip(
            links.src.tolist(), links.dst.tolist(), links.b.tolist(), strict=True
        ):
            sent = _sums(points[source], "sigma", target, n)
            got = _sums(points[target], "rho", source, n)
            under_way += weight * (sent - got)
        trackers, used = (np.concatenate([p.state[name] for p in points]) for name in ("y", "c"))
        size = gradients(self.exp, self.exp.start([0])).abs().max()
        return float(np.abs(trackers.sum(axis=0) + under_way - used.sum(axis=0)).max() / size)

    def models(self) -> torch.Tensor:
        """The models of the newest checkpoints, by row."""
        return torch.from_numpy(np.concatenate([at.state["x"] for at in self.checkpoints()]))

    def checkpoints(self) -> list[Checkpoint]:
        """The newest of every row that has one."""
        kept = [self.checkpoint(row) for row in range(len(self.homes))]
        return [point for point in kept if point is not None]

    def checkpoint(self, row: int) -> Checkpoint | None:
        """The newest checkpoint of a row, if one can be read."""
        return PeerFolder(self.folder(row), spec_hash(self.exp)).newest()


def _sums(point: Checkpoint, what: str, row: int, n: int) -> NDArray[np.float64]:
    """What a row pushed to, or took from, another so far: models take no part in it."""
    memory = point.memory()
    parts = [name.split("/") for name in memory]
    places = [part for part in parts if part[0] == what and int(part[2]) == row]
    return np.asarray(np.sum([np.zeros(n), *(memory["/".join(place)] for place in places)], axis=0))
