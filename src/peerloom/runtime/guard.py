"""Divergence: when to look for models that are no longer finite, and what to say of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core import DivergedError
from ..core.wire import is_wide
from ..experiment import Experiment

__all__ = ["Guard", "diverged", "is_finite"]


@dataclass(frozen=True)
class Guard:
    """How closely a session watches for divergence.

    Looking at every number of every round would cost as much as mixing them. So a session looks
    every few rounds and, with `replay`, repeats the rounds since the last good look to find the
    first bad one. It can where a round is a pure function of the state before it. At wide rows it
    looks in every round, as the state to go back to would be one more in memory.
    """

    every: int = 16
    replay: bool = True

    def due(self, rounds: int, x: Tensor) -> bool:
        """Whether to look at the models now, so many rounds after they were last found good."""
        return rounds >= self.every or is_wide(x)


def is_finite(x: Tensor) -> bool:
    """Whether every number is finite."""
    # The sum alone may overflow although every number is finite; then the longer look decides.
    return math.isfinite(x.sum().item()) or bool(torch.isfinite(x).all())


def diverged(exp: Experiment, t: int, rows: list[int], x: Tensor) -> DivergedError:
    """The error that names the first row of `x` that is not finite; `rows` are the rows of x."""
    row = rows[int(torch.nonzero(~torch.isfinite(x).all(dim=1))[0, 0])]
    rate = getattr(exp.algorithm, "lr", None)
    hint = (
        f" The step size is {rate}; try a tenth of it."
        if isinstance(rate, float)
        else " Try smaller steps."
    )
    return DivergedError(
        f"{exp.name} diverged: in round {t}, row {row} is no longer finite.{hint}", round=t, row=row
    )
