"""What theory says about a network, a schedule and a step: the five papers' quantities, printed and true."""

from . import depositum, dspodfl, dspodfl_nonconvex, matrices, mll_sgd, pame, shape, spod_gt, spod_gt_recursion
from .bound import Bound

__all__ = [
    "Bound",
    "depositum",
    "dspodfl",
    "dspodfl_nonconvex",
    "matrices",
    "mll_sgd",
    "pame",
    "shape",
    "spod_gt",
    "spod_gt_recursion",
]
