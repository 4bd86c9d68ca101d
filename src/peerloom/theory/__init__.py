"""What theory says about a network, a schedule and a step before anything runs."""

from importlib import import_module
from typing import Any

from . import exact, graph_facts, improve, matrices
from .advise import Advice, advise, advise_all
from .bound import Bound
from .constants import Constants, Estimate, estimate
from .predict import predict

__all__ = [
    "Advice",
    "Bound",
    "Constants",
    "Estimate",
    "advise",
    "advise_all",
    "estimate",
    "exact",
    "graph_facts",
    "improve",
    "matrices",
    "predict",
]

# The papers' theorems live in `peerloom.papers.theorems`; these names lead there.
_THEOREMS = {
    "depositum",
    "dspodfl",
    "dspodfl_nonconvex",
    "dspodfl_pl",
    "mll_sgd",
    "pame",
    "spod_gt",
    "spod_gt_recursion",
}


def __getattr__(name: str) -> Any:
    if name in _THEOREMS:
        return import_module(f"peerloom.papers.theorems.{name}")
    raise AttributeError(f"module 'peerloom.theory' has no attribute '{name}'")
