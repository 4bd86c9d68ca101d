"""What the machine can do at best, and what one round asks of it."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ..core import Network
from ..problems import Classification
from .cases import BATCH
from .timing import best_of

__all__ = ["Machine", "Work", "facts", "work_of"]

_SIDE = 2048  # a product of this size runs at the full speed of the arithmetic units
_COPIED = 1 << 28  # bytes: source and target together exceed the last cache of any machine we know
_FLOAT = 4


@dataclass(frozen=True)
class Machine:
    """Two speeds, measured with torch as it is set up here."""

    gemm: float  # floating-point operations per second in a large product
    bandwidth: float  # bytes per second read and written in a large copy

    @classmethod
    def measured(cls) -> Machine:
        """The best of several products and copies, about two seconds in all."""
        a, b = torch.rand(_SIDE, _SIDE), torch.rand(_SIDE, _SIDE)
        out = torch.empty(_SIDE, _SIDE)
        gemm = 2 * _SIDE**3 / best_of(lambda: torch.mm(a, b, out=out), 8)
        source, target = torch.ones(_COPIED // _FLOAT), torch.zeros(_COPIED // _FLOAT)
        return cls(gemm, 2 * _COPIED / best_of(lambda: target.copy_(source), 8))


@dataclass(frozen=True)
class Work:
    """What a round cannot do without, when nothing is computed or moved twice.

    Floating-point operations: forward and backward of one batch per client, as torch counts matrix
    products and convolutions (for softmax two products, 4 * batch * inputs * outputs); 2 n for
    every link and every own weight in mixing; 2 n per client for the step.

    Bytes, of 4 per number: samples are read from the data and written as a batch (the products then
    find it in cache); x is read and g written by the gradient; x is read and the mixed rows are
    written by mixing. So 2 * batch * inputs + 4 n per client. Activations are not counted, nor
    neighbours' rows read again. A small round may live in cache and beat this.
    """

    flops: float
    bytes: float

    def bound(self, machine: Machine) -> float:
        """Milliseconds below which a round can hardly be."""
        return 1000 * max(self.flops / machine.gemm, self.bytes / machine.bandwidth)

    def limit(self, machine: Machine) -> str:
        """Which of the two it is."""
        return (
            "arithmetic" if self.flops / machine.gemm > self.bytes / machine.bandwidth else "memory"
        )


def work_of(problem: Classification, graph: Network) -> Work:
    """Of one round in which every client computes and every link fires."""
    module, n, clients = problem.module(seed=0), problem.n, graph.rows
    inputs = torch.zeros(BATCH, *problem.data.x.shape[1:])
    with FlopCounterMode(display=False) as counter:
        nn.functional.cross_entropy(
            module(inputs), torch.zeros(BATCH, dtype=torch.int64)
        ).backward()  # type: ignore[no-untyped-call]
    flops = (
        clients * counter.get_total_flops() + 2 * n * (len(graph.peers) + clients) + 2 * n * clients
    )
    return Work(flops, _FLOAT * clients * (2 * inputs.numel() + 4 * n))


def facts(machine: Machine) -> dict[str, Any]:
    """What a reader must know to compare two documents."""
    return {
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "processor": platform.processor() or platform.machine(),
        "gemm_gflops": machine.gemm / 1e9,
        "bandwidth_gbs": machine.bandwidth / 1e9,
    }
