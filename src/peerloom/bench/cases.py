"""What is measured: model, clients, graph, and how much faster than by hand it should be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from ..core import Network
from ..experiment import Experiment
from ..graphs import geometric, regular
from ..problems import Classification, Dataset
from ..rules import DGD

__all__ = ["BATCH", "CASES", "LR", "Case", "data", "experiment", "rows_apart"]

BATCH = 16
LR = 0.01  # uniform pixels make steep losses; well inside the stable range, without inf or nan
_ENDLESS = 10**9


@dataclass(frozen=True)
class Case:
    """One workload, and the ratio that is wanted against the papers' style."""

    model: str
    clients: int
    wanted: float
    with_numpy: bool = False

    @property
    def graph(self) -> Network:
        """DSpodFL's geometric graph for ten clients, six neighbours each for more."""
        return (
            geometric(10, radius=0.4, seed=1)
            if self.clients == 10
            else regular(self.clients, degree=6, seed=1)
        )


CASES: dict[str, Case] = {
    "softmax-10": Case("softmax", 10, 8.0, with_numpy=True),
    "softmax-100": Case("softmax", 100, 10.0, with_numpy=True),
    "softmax-1000": Case("softmax", 1000, 10.0, with_numpy=True),
    "mlp-10": Case("mlp", 10, 4.0),
    "mlp-100": Case("mlp", 100, 4.0),
    "cnn-10": Case("cnn", 10, 1.0),
}


@cache
def data() -> Dataset:
    """Return noise in MNIST's shape: 60,000 and 10,000 images of 784 pixels."""
    dice = np.random.default_rng(0)
    sizes = (60_000, 10_000)
    x, test_x = (dice.random((size, 784), dtype=np.float32) for size in sizes)
    y, test_y = (dice.integers(0, 10, size) for size in sizes)
    return Dataset(x, y, 10, test_x, test_y, "noise")


def experiment(case: Case, x0: Tensor | None = None) -> Experiment:
    """DGD with every client and link in every round, without end."""
    problem = Classification(case.model, data(), batch=BATCH)
    return Experiment(
        graph=case.graph, problem=problem, algorithm=DGD(lr=LR), rounds=_ENDLESS, x0=x0
    )


def rows_apart(exp: Experiment) -> Tensor:
    """Return a start that differs by row: from a common one, mixing would change nothing."""
    x = exp.problem.start(exp.seed).float()
    noise = torch.randn(exp.graph.rows, len(x), generator=torch.Generator().manual_seed(1))
    return x + 0.01 * noise
