"""The price of the port: the part of a round that is not the arithmetic itself."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import torch

from ..core import pull
from ..core.matrix import MatrixMixer
from ..problems import LOSSES, Classification
from ..problems.gradients import STRATEGIES
from .cases import CASES, LR, experiment
from .contenders import Simulator
from .timing import interleaved

__all__ = ["OVERHEAD_CASE", "overhead"]

OVERHEAD_CASE = "softmax-100"
_ROUNDS_PREPARED = 64  # so many different batches that, as in a run, the samples of a round are not in cache


def overhead(seconds: float) -> dict[str, float]:
    """Milliseconds of a whole round, of its kernels together and of each alone.

    The kernels are the torch calls a round cannot do without, on inputs prepared beforehand: gathering samples and
    labels, the gradients, the matrix product, the step. What is left of a round is the port: draws, schedule, ledger.
    """
    exp = experiment(CASES[OVERHEAD_CASE])
    assert isinstance(exp.problem, Classification)
    simulator = Simulator(exp)
    module, loss = exp.problem.module(seed=0), LOSSES[exp.problem.loss_name]
    strategy = STRATEGIES["closed"](module, loss)
    samples, labels = torch.from_numpy(exp.problem.data.x), torch.from_numpy(exp.problem.data.y)
    picks = [torch.from_numpy(simulator.picks(t)) for t in range(1, 1 + _ROUNDS_PREPARED)]
    upcoming = cycle(picks)
    shape = picks[0].shape
    # The engine's own mixer, so that it is dense or sparse as in a round; its matrix is built once, before the timing.
    mixer, every = MatrixMixer(exp.graph.peers, torch.float32, torch.device("cpu")), np.ones(len(exp.graph.peers), bool)
    x = simulator.now.x

    def gather() -> tuple[torch.Tensor, torch.Tensor]:
        flat = next(upcoming).view(-1)
        return samples.index_select(0, flat).view(*shape, -1), labels.index_select(0, flat).view(shape)

    def gradients(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return strategy.gradients(x, inputs, targets, list)

    def product() -> torch.Tensor:
        return mixer(pull(x), every)

    def kernels() -> torch.Tensor:
        return torch.sub(product(), gradients(*gather()), alpha=LR)

    batch, g, mixed = gather(), gradients(*gather()), product()
    with torch.no_grad():
        return interleaved(
            {
                "round": simulator.round,
                "kernels": kernels,
                "gather": gather,
                "gradients": lambda: gradients(*batch),
                "product": product,
                "step": lambda: torch.sub(mixed, g, alpha=LR),
            },
            seconds,
        )
