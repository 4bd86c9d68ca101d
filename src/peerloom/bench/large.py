"""Peers with large rows, in processes of limited memory, one connection cut half-way.

The engine's own arrays are what a rule's rounds take in a process whose neighbours are only made
up. A peer of the same experiment may take 0.3 of a row more: the system enforces that.
"""

from __future__ import annotations

import contextlib
import json
import resource
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..config import spec_hash
from ..core import Draws, Evaluation, Placement
from ..errors import PeerError
from ..experiment import Experiment
from ..graphs import ring
from ..peers.experiments import run_folder
from ..peers.federation import found_on_this_machine, free_ports
from ..peers.folder import PeerFolder
from ..peers.processes import context
from ..peers.site import Site
from ..peers.start import start_peer
from ..rules import RULES
from ..runtime import Guard, Session, build_port, iterate, prepare_process
from ..runtime.mirror import Mirror
from ..transport import Home, Settings
from ..transport.roster import parse_address
from .cutting import CuttingProxy

__all__ = ["SHARE", "LargeRows", "Ramp", "large_rows"]

SHARE = 0.3  # of a row that a peer may need beside the engine's arrays
ROUNDS, PEERS = 2, 3
_PERIOD = 1009  # coordinates after which rows repeat, so that a short run foretells a long one
_PIECE = 1 << 18
_LR = 0.05
_PATIENCE = 1200.0  # seconds
_STACK = 1 << 20  # bytes of a thread's stack, which count as memory


@dataclass(frozen=True)
class Ramp:
    """f_i(x) = 1/2 |x - c_i|^2 with a c_i that repeats; gradients take one row of memory."""

    n: int

    def start(self, seed: int) -> Tensor:
        """Zero, without memory for it."""
        return torch.zeros(1, dtype=torch.float64).expand(self.n)

    def bind(self, place: Placement, draws: Draws) -> _LocalRamp:
        """The rows of `place`."""
        return _LocalRamp(self.n, place)


class _LocalRamp:
    def __init__(self, n: int, place: Placement) -> None:
        self._n, self._place = n, place

    def grad(self, x: Tensor, on: NDArray[np.int64], t: int, batch: int = 0) -> Tensor:
        """x_i - c_i."""
        found = x[on] if len(on) < len(x) else x.clone()
        for at in range(0, self._n, _PIECE):
            found[:, at : at + _PIECE] -= self._goal(on, at)
        return found

    def prox(self, z: Tensor, step: float) -> Tensor:
        """There is no h."""
        return z

    def evaluate(self, x: Tensor) -> Evaluation:
        """Half the mean square: cheap, and good for nothing else."""
        return Evaluation(np.array([float(row[:_PERIOD].square().mean()) / 2 for row in x]), None)

    def _goal(self, on: NDArray[np.int64], at: int) -> Tensor:
        end = min(at + _PIECE, self._n)
        phase = torch.arange(at, end, dtype=torch.int64).remainder_(_PERIOD).to(self._place.dtype)
        rows = torch.from_numpy(self._place.rows[on] + 1.0).to(self._place.dtype)
        return rows[:, None] * phase[None] / _PERIOD


@dataclass(frozen=True)
class LargeRows:
    """What one run of the ring took."""

    row: int  # bytes of a row
    alone: float  # memory of the engine's own arrays, in rows
    beside: float  # the most that a peer took beside them, in rows
    limit: float  # what the system let a peer take beside them, in rows
    ratio: float  # bytes sent for the row that was cut, with all framing of the run, in rows
    seconds: float


def large_rows(size: int, rule: str = "DGD", cut: bool = True) -> LargeRows:
    """Run a ring of three with rows of `size` bytes; PeerError if one needs more, or other bits."""
    n, begin = size // 4, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="peerloom-large-") as folder:
        base, alone = _in_child(_alone, Path(folder) / "alone.json", n, rule)
        limit = alone["data"] + int(SHARE * size)
        found, ratio = _ring(Path(folder), n, rule, limit, cut)
    rest = max(peer["anonymous"] for peer in found) - alone["anonymous"]
    own = (alone["anonymous"] - base["anonymous"]) / size
    return LargeRows(size, own, rest / size, SHARE, ratio, time.monotonic() - begin)


def _experiment(n: int, rule: str) -> Experiment:
    chosen: Any = RULES[rule]
    return Experiment(ring(PEERS), Ramp(n), chosen(_LR), rounds=ROUNDS, dtype="float32")


def _ring(
    folder: Path, n: int, rule: str, limit: int, cut: bool
) -> tuple[list[dict[str, int]], float]:
    """Run the peers over proxies; what each took, and the bytes of the row that was cut."""
    exp, size = _experiment(n, rule), 4 * n
    homes, ports = found_on_this_machine(exp, folder / "peers"), free_ports(PEERS)
    half = size // 2 if cut else None
    reports = [folder / f"{row}.json" for row in range(PEERS)]
    with contextlib.ExitStack() as stack:
        addresses = [parse_address(home.addresses[0]) for home in homes]
        proxy = stack.enter_context(CuttingProxy(list(zip(addresses, ports, strict=True)), half))
        processes = [
            context().Process(
                target=_peer,
                args=(str(home.folder), port, n, rule, limit, str(report)),
                daemon=True,
            )
            for home, port, report in zip(homes, ports, reports, strict=True)
        ]
        try:
            for process in processes:
                process.start()
            _wait(processes)
        finally:
            for process in processes:
                process.kill()
                process.join()
    if failed := [k for k, report in enumerate(reports) if not report.exists()]:
        raise PeerError(
            f"Peer {failed[0]} did not end well within {limit / 1e6:.0f} MB of memory: what it "
            "printed has why. It needs more than the engine's arrays and 0.3 of a row, or was "
            "disturbed."
        )
    _check_bits(exp, homes)
    found = [json.loads(report.read_text()) for report in reports]
    sent = sum(peer["sent"] for peer in found)
    if cut and not proxy.cuts:
        raise PeerError("No connection was cut: nothing was sent through the proxies.")
    return found, 1 + (proxy.received - sent) / size


def _wait(processes: Sequence[BaseProcess]) -> None:
    """Wait until all have ended, or one has failed: its neighbours would wait for it."""
    left, end = list(processes), time.monotonic() + _PATIENCE
    while left and not any(process.exitcode for process in processes):
        if not wait([process.sentinel for process in left], max(0.0, end - time.monotonic())):
            return
        left = [process for process in left if process.exitcode is None]


def _check_bits(exp: Experiment, homes: Sequence[Home]) -> None:
    """Compare every peer's last row with a short simulation that it repeats."""
    short = _experiment(_PERIOD, type(exp.algorithm).__name__)
    *_, last = iterate(short, path="links")
    expected = last.x.numpy()
    for row, home in enumerate(homes):
        at = PeerFolder(run_folder(home, exp), spec_hash(exp)).newest()
        if at is None or at.t != exp.rounds:
            raise PeerError(f"Peer {row} has no checkpoint of the last round.")
        found = at.state["x"][0]
        for begin in range(0, len(found), _PERIOD):
            piece = found[begin : begin + _PERIOD]
            if piece.tobytes() != expected[row][: len(piece)].tobytes():
                raise PeerError(f"Peer {row} has other bits than the simulator at {begin}.")


# -- in processes of their own


def _in_child(target: Any, report: Path, *args: object) -> tuple[dict[str, int], dict[str, int]]:
    process = context().Process(target=target, args=(str(report), *args), daemon=True)
    process.start()
    process.join(_PATIENCE)
    if not report.exists():
        raise PeerError("The engine alone did not end well.")
    base, peak = json.loads(report.read_text())
    return base, peak


def _alone(report: str, n: int, rule: str) -> None:
    """The engine's own arrays: rounds with neighbours that answer at once with the row's own."""
    _prepare()
    exp = _experiment(n, rule)
    base = memory_now()
    with _Peak() as peak:
        port = build_port(exp, np.array([0]), mixer="links", wire=Mirror())
        session = Session(exp, port, guard=Guard(every=1, replay=False))
        for snapshot in session:
            del snapshot
    Path(report).write_text(json.dumps([base, peak.found]))


def _peer(folder: str, port: int, n: int, rule: str, limit: int, report: str) -> None:
    _prepare()
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    settings = Settings(wait=_PATIENCE, dead=60.0)
    site = Site(listen=f"127.0.0.1:{port}", settings=settings)
    with _Peak() as peak:
        session = start_peer(Home.open(Path(folder)), _experiment(n, rule), site)
    found = {**peak.found, "sent": int(session.ledger.bytes)}
    draft = Path(f"{report}.draft")
    draft.write_text(json.dumps(found))
    draft.replace(report)


def _prepare() -> None:
    threading.stack_size(_STACK)
    prepare_process(threads=1, keep_memory=False)


def memory_now() -> dict[str, int]:
    """Return this process's anonymous memory, and all that RLIMIT_DATA counts, in bytes."""
    wanted = {"RssAnon": "anonymous", "VmData": "data"}
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {
        wanted[name]: 1024 * int(rest[0]) for key, *rest in lines if (name := key[:-1]) in wanted
    }


class _Peak:
    """Notes the highest of `memory_now` every few milliseconds."""

    def __enter__(self) -> _Peak:
        self.found, self._end = memory_now(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._end.wait(0.002):
            self.found = {key: max(value, self.found[key]) for key, value in memory_now().items()}

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
