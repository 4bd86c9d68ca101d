"""Which theorem covers a run, and which of its assumptions fail.

The theorems themselves are found by entry points of the group `peerloom.theorems`, named after the
family of rules that they speak of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import extensions
from ..core import Rate
from ..experiment import Experiment
from .constants import Constants
from .contraction import Contraction
from .exact import Floor
from .rhythm import Rhythm

__all__ = ["FAMILY", "THEOREMS", "Coverage", "Theorem", "cover", "step_of"]

THEOREMS = "peerloom.theorems"  # the entry point group

# Which paper's rule each algorithm is. What is missing has a theory of its own, which is not here.
FAMILY = {
    "DSpodFL": "DSpodFL",
    "DGD": "DSpodFL",
    "RandomizedGossip": "DSpodFL",
    "SporadicSGD": "DSpodFL",
    "DFedAvg": "DSpodFL",
    "SpodGT": "Spod-GT",
    "SynchronousGT": "Spod-GT",
    "SporadicPushPull": "Spod-GT",
    "SporadicKGT": "Spod-GT",
    "PeriodicGT": "Spod-GT",
    "MLLSGD": "MLL-SGD",
    "HLSGD": "MLL-SGD",
    "LocalSGD": "MLL-SGD",
    "Depositum": "DEPOSITUM",
    "PaME": "PaME",
}


@dataclass(frozen=True)
class Coverage:
    """What theory says about one run.

    theorem   the one that covers it, or would if nothing failed
    holds     whether all its assumptions hold
    fails     those that do not, in words
    step      the step the run uses; None where it has none
    printed   the largest the paper allows; None where it allows none
    allowed   the largest that is numerically right; None where there is none, or it is not known
    floor     what is left after many rounds, by name, as the theorem bounds it; empty where it does not apply
    exact     the same without any bound, where it can be computed; None too where the step is beyond exact_step
    exact_step  the largest step for which a run on these quadratics settles at all
    growth    PaME's largest growth factor of sigma
    """

    theorem: str
    holds: bool
    fails: tuple[str, ...]
    step: float | None = None
    printed: float | None = None
    allowed: float | None = None
    floor: dict[str, float] | None = None
    exact: Floor | None = None
    exact_step: float | None = None
    growth: float | None = None
    notes: tuple[str, ...] = ()


Theorem = Callable[[Experiment, Rhythm, Contraction, Constants], Coverage]


def cover(exp: Experiment, beat: Rhythm, mixing: Contraction, constants: Constants) -> Coverage:
    """The theorem of the rule's own paper, checked assumption by assumption."""
    name = type(exp.algorithm).__name__
    if constants.smoothness.value == 0:
        why = "no loss is curved, so there is nothing to be said of steps"
        return Coverage("No theorem", False, (why,), step_of(exp))
    if beat.nodes.min() == 0:
        return Coverage("No theorem", False, ("some clients never compute",), step_of(exp))
    if name in FAMILY:
        theorem: Theorem | None = extensions.load(THEOREMS, FAMILY[name])
        if theorem is not None:
            return theorem(exp, beat, mixing, constants)
        why = f"the theorems of {FAMILY[name]} are missing: {extensions.REINSTALL}"
        return Coverage("No theorem", False, (why,), step_of(exp))
    why = f"{name} is not their rule, and its own theory is not built in"
    limit = 2 / constants.smoothness.value if name == "NIDS" else None  # whatever the graph (Li, Shi and Yan 2019)
    if limit is not None and not math.isfinite(constants.smoothness.value):
        limit = None
    return Coverage("None of the five papers", False, (why,), step_of(exp), printed=limit)


def step_of(exp: Experiment) -> float | None:
    """The step of the first round, the largest of all clients; None where the rule has no `lr`."""
    lr: Any = getattr(exp.algorithm, "lr", None)
    if isinstance(lr, Rate):
        return float(lr.at(1))
    return float(max(lr)) if isinstance(lr, tuple) else None if lr is None else float(lr)
