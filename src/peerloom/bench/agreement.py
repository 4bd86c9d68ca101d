"""Check that all contenders compute the same: one start, one batch, the same models."""

from __future__ import annotations

import torch
from torch import Tensor

from ..core import PeerloomError
from ..problems import Classification
from .cases import Case, experiment, rows_apart
from .contenders import NumpyLoop, PapersLoop, Simulator

__all__ = ["check"]

_TOLERANCE = 1e-4  # of a round's change; float32 sums in another order stay well below


def check(name: str, case: Case) -> dict[str, float]:
    """Return each loop's relative difference from the simulator; refuse more than rounding."""
    x0 = rows_apart(experiment(case))
    exp = experiment(case, x0)
    assert isinstance(exp.problem, Classification)
    simulator = Simulator(exp)
    picks = simulator.picks(t=1)
    papers = PapersLoop(exp.problem, exp.graph, simulator.parts, x0)
    loops: dict[str, PapersLoop | NumpyLoop] = {"papers": papers}
    if case.with_numpy:
        loops["numpy"] = NumpyLoop(exp.graph, simulator.parts, x0)
    simulator.round()
    found: dict[str, float] = {}
    for who, loop in loops.items():
        loop.round(picks)
        found[who] = _difference(loop.rows, simulator.now.x, x0)
        if not found[who] <= _TOLERANCE:
            raise PeerloomError(
                f"bench {name}: after one round the {who} loop and the simulator differ by "
                f"{found[who]:.2g} of the round's change; {_TOLERANCE:g} is allowed. One of them "
                "is wrong: find it before you trust any timing."
            )
    return found


def _difference(x: Tensor, y: Tensor, start: Tensor) -> float:
    """Return a difference relative to the change: a round that does nothing does not pass."""
    return float(torch.linalg.norm(x - y) / torch.linalg.norm(y - start))
