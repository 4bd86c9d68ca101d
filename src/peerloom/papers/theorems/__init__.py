"""The papers' theorems as functions, printed and true, and which of them cover a run."""

from . import (
    depositum,
    dspodfl,
    dspodfl_nonconvex,
    dspodfl_pl,
    mll_sgd,
    pame,
    spod_gt,
    spod_gt_recursion,
)

__all__ = [
    "depositum",
    "dspodfl",
    "dspodfl_nonconvex",
    "dspodfl_pl",
    "mll_sgd",
    "pame",
    "spod_gt",
    "spod_gt_recursion",
]
