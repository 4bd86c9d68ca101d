"""Which theorem covers a run, and which of its assumptions fails if none does."""

from __future__ import annotations

import math

from ..experiment import Experiment
from . import cover_dspodfl
from .constants import Constants
from .contraction import Contraction
from .cover_others import cover_depositum, cover_mll_sgd, cover_pame, cover_spod_gt
from .covered import Coverage, step_of
from .rhythm import Rhythm

__all__ = ["FAMILY", "cover"]

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

_COVER = {
    "DSpodFL": cover_dspodfl.cover,
    "Spod-GT": cover_spod_gt,
    "MLL-SGD": cover_mll_sgd,
    "DEPOSITUM": cover_depositum,
    "PaME": cover_pame,
}


def cover(exp: Experiment, beat: Rhythm, mixing: Contraction, constants: Constants) -> Coverage:
    """The theorem of the rule's own paper, checked assumption by assumption."""
    name = type(exp.algorithm).__name__
    if constants.smoothness.value == 0:
        return Coverage("No theorem", False, ("no loss is curved, so there is nothing to be said of steps",), step_of(exp))
    if beat.nodes.min() == 0:
        return Coverage("No theorem", False, ("some clients never compute",), step_of(exp))
    if name in FAMILY:
        return _COVER[FAMILY[name]](exp, beat, mixing, constants)
    why = f"{name} is not their rule, and its own theory is not built in"
    limit = 2 / constants.smoothness.value if name == "NIDS" else None  # whatever the graph (Li, Shi and Yan 2019)
    if limit is not None and not math.isfinite(constants.smoothness.value):
        limit = None
    return Coverage("None of the five papers", False, (why,), step_of(exp), printed=limit)
