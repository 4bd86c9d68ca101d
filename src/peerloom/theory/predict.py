"""Predictions kept with a run: quick to compute, or left out with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..core import Draws, PeerloomError, Placement
from ..experiment import Experiment
from ..problems.properties import properties_of
from .advise import Advice, advise

__all__ = ["predict"]

_MOST_CLIENTS = 600  # beyond, eigenvalues take longer
_MOST_NUMBERS = 2_000_000  # in the data, or in all models: what the constants are estimated from
_FAILURES = (PeerloomError, ArithmeticError, ValueError, np.linalg.LinAlgError, RuntimeError)


def predict(exp: Experiment) -> dict[str, Any]:
    """Contraction, floor and the theorem behind them, as JSON has it.

    "skipped" says why where there is none.
    """
    if (why := _too_large(exp)) is not None:
        return {"skipped": [f"{why}; `peerloom advise` takes the time"]}
    try:
        return _told(exp, advise(exp, quick=True))
    except _FAILURES as error:  # a run never fails for it
        return {"skipped": [f"theory gave up on this experiment: {error}"]}


def _told(exp: Experiment, found: Advice) -> dict[str, Any]:
    plain = found.to_dict()
    told = {
        "contraction": {
            key: plain["contraction"][key]
            for key in ("per_round", "all_on", "lasting", "drawn", "how")
        },
        "rounds_to_agree": found.rounds_to_agree,
        "theorem": found.coverage.theorem,
        "holds": found.coverage.holds,
        "fails": list(found.coverage.fails),
        "floor": plain["coverage"]["floor"],
        "exact": plain["coverage"]["exact"],
        "skipped": list(found.skipped),
    }
    return told | {"optimum_loss": None if found.coverage.exact_step is None else _optimum(exp)}


def _optimum(exp: Experiment) -> float | None:
    """The least loss, where it is known: what a measured loss is to be compared with."""
    minimiser = properties_of(exp.problem, exp.graph.clients, exp.seed).minimiser
    if minimiser is None:
        return None
    clients = exp.graph.clients
    everyone = Placement(np.arange(clients), clients, torch.device("cpu"), torch.float64)
    best = torch.from_numpy(minimiser())[None]
    return float(exp.problem.bind(everyone, Draws(exp.seed)).evaluate(best).loss[0])


def _too_large(exp: Experiment) -> str | None:
    clients = exp.graph.clients
    if clients > _MOST_CLIENTS:
        return f"more than {_MOST_CLIENTS} clients"
    size = properties_of(exp.problem, clients, exp.seed).size
    if size is None:
        return "the problem is your own, and what its gradients cost is not known"
    if clients * exp.problem.n > _MOST_NUMBERS or size > _MOST_NUMBERS:
        return "the model or the data are large"
    return None
