"""What theory says about a network, a schedule and a step: the five papers' quantities, printed and true."""

from . import (
    depositum,
    dspodfl,
    dspodfl_nonconvex,
    dspodfl_pl,
    exact,
    improve,
    matrices,
    mll_sgd,
    pame,
    shape,
    spod_gt,
    spod_gt_recursion,
)
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
    "depositum",
    "dspodfl",
    "dspodfl_nonconvex",
    "dspodfl_pl",
    "estimate",
    "exact",
    "improve",
    "matrices",
    "mll_sgd",
    "pame",
    "predict",
    "shape",
    "spod_gt",
    "spod_gt_recursion",
]
