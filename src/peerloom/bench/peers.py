"""What a synchronous round costs between processes over TLS, and where its time goes."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..core import Body, ByteDelivery, CodedWire, Draws, Links, Network, Tag
from ..experiment import Evaluate, Experiment
from ..graphs import regular, ring
from ..peers.federation import Federation
from ..peers.folder import PeerFolder
from ..peers.wire_plan import WirePlan
from ..problems import Classification, blobs
from ..rules import DGD
from ..runtime import Guard, Session, build_port
from .cases import BATCH, LR
from .processes import torch_alone

__all__ = ["CROWD", "RING", "between_peers", "crowd", "parts_of_a_round"]

RING, CROWD = 10, 64
# Rounds in all, and those before the clock starts. Evaluations tell the time, but to judge a model
# costs as much as two or three rounds: so there is none in between.
_ROUNDS, _WARM = 1000, 500
_CROWD_ROUNDS, _CROWD_WARM = 200, 100


def between_peers() -> dict[str, float]:
    """A ring of ten, softmax 784 -> 10: start-up seconds, rounds per second, CPU per round."""
    return _measured(ring(RING), 784, _ROUNDS, _WARM)


def crowd() -> dict[str, float]:
    """64 peers, 256 links, 40 KB each; with the MB of each beyond an interpreter with torch."""
    found = _measured(regular(CROWD, degree=4, seed=1), 1023, _CROWD_ROUNDS, _CROWD_WARM)
    return found | {"torch": torch_alone(), "memory": found["memory"] - torch_alone()}


def _measured(graph: Network, features: int, rounds: int, warm: int) -> dict[str, float]:
    exp = _experiment(graph, features, rounds, warm)
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(exp, Path(folder) / "run")
        begin, first = time.perf_counter(), list[float]()

        def note_first(rows: list[dict[str, Any]]) -> None:
            if not first and len(rows) == graph.rows and all(row["round"] for row in rows):
                first.append(time.perf_counter() - begin)

        federation.run(note_first)
        last = federation.status()
        lines = [folder.measurements() for folder in federation.peer_folders()]
    spent, cpu = (
        np.array([line[-1][what] - line[1][what] for line in lines])
        for what in ("seconds", "cpu_seconds")
    )
    return {
        "start": first[0],
        "rounds": (rounds - warm) / float(spent.max()),
        "cpu": 1000 * float(cpu.mean()) / (rounds - warm),
        "memory": max(row["peak_bytes"] for row in last) / 1e6,
    }


def _experiment(graph: Network, features: int, rounds: int, warm: int) -> Experiment:
    problem = Classification(
        "softmax", blobs(samples=20 * graph.rows, features=features, classes=10), batch=BATCH
    )
    return Experiment(graph, problem, DGD(lr=LR), rounds=rounds, evaluate=Evaluate(every=warm))


def parts_of_a_round() -> dict[str, float]:
    """Return the CPU milliseconds of a row's round: the step, and its part of a checkpoint."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in every peer
    try:
        return _parts()
    finally:
        torch.set_num_threads(threads)


def _parts() -> dict[str, float]:
    exp, row = _experiment(ring(RING), 784, 10**9, 1), 0
    hosted = np.array([row])
    wire = CodedWire(exp.message, Draws(exp.seed), hosted, _Echo())
    session = Session(
        exp, build_port(exp, hosted, mixer="links", wire=wire), guard=Guard(every=1, replay=False)
    )
    session.start()
    plan = WirePlan.of(exp)
    # What its two neighbours may need again.
    kept = [np.zeros(exp.problem.n, np.float32) for _ in range(2 * plan.remember)]
    with tempfile.TemporaryDirectory() as folder:
        keep = PeerFolder(Path(folder), "bench")
        done = replace(session.checkpoint(), wire={"bodies": kept})
        saved = _median(lambda: keep.save(done), 10)
        return {"step": _median(session.step, 500), "checkpoint": saved / plan.checkpoint_every}


class _Echo:
    """A wire whose neighbours answer at once, with what they got."""

    def exchange(
        self, tag: Tag, links: Links, out: Any, bodies: Sequence[Body], into: Any
    ) -> ByteDelivery:
        return ByteDelivery(
            [body.copy() for body in bodies], np.ones(len(into), bool), np.ones(len(out), bool)
        )


def _median(call: Callable[[], object], times: int) -> float:
    spent = []
    for _ in range(times):
        begin = time.thread_time()
        call()
        spent.append(time.thread_time() - begin)
    return 1000 * statistics.median(spent)
