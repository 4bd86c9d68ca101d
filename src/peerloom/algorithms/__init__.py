"""The algorithms, one per equation. They see the port and nothing else."""

from ..core import Algorithm
from .dspodfl import DGD, DFedAvg, DSpodFL, RandomizedGossip, SporadicSGD

__all__ = ["ALGORITHMS", "DGD", "DFedAvg", "DSpodFL", "RandomizedGossip", "SporadicSGD"]

ALGORITHMS: dict[str, type[Algorithm]] = {
    "DFedAvg": DFedAvg,
    "DGD": DGD,
    "DSpodFL": DSpodFL,
    "RandomizedGossip": RandomizedGossip,
    "SporadicSGD": SporadicSGD,
}
