"""What a problem states about itself, so that theory need not run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..core import Problem

__all__ = ["Curvature", "HasProperties", "Properties", "Quadratics", "properties_of"]

Floats = NDArray[np.float64]


class Quadratics(NamedTuple):
    """Every client's loss as f_i(x) = x'A_i x / 2 - b_i'x."""

    A: Floats  # [clients, n, n]
    b: Floats  # [clients, n]


class Curvature(NamedTuple):
    """The least and the largest curvature of any client's loss, anywhere."""

    least: float
    largest: float
    exact: bool  # reached somewhere; else a bound
    least_note: str = ""
    largest_note: str = ""


@dataclass(frozen=True, eq=False)
class Properties:
    """The facts of a problem; what it does not say is not known: None, or False.

    iid             every client's gradient is unbiased for the whole objective
    full_batch      every gradient is taken on all samples of its client
    noise           standard deviation of the normal error of each coordinate of a gradient
    noise_shares    finds, by client, what a batch leaves of the variance of one sample's gradient;
                    where batches differ or are drawn without replacement
    size            numbers in its data: what going through them once costs
    samples         samples in its data; 0 where it has none
    whole           the same problem with all samples in every gradient
    quadratic       makes (A, b), where every loss is a quadratic
    curvature       finds bounds of the curvature, where there is a closed form
    minimiser       finds the best model by the loss that `evaluate` reports
    weak_convexity  the least rho for which h(x) + rho/2 |x|^2 is convex
    """

    iid: bool = False
    full_batch: bool = False
    noise: float | None = None
    noise_shares: Callable[[], Floats] | None = None
    size: int | None = None
    samples: int = 0
    whole: Problem | None = None
    quadratic: Callable[[], Quadratics] | None = None
    curvature: Callable[[], Curvature] | None = None
    minimiser: Callable[[], Floats] | None = None
    weak_convexity: float = 0.0


@runtime_checkable
class HasProperties(Protocol):
    """A problem that states its properties, so that theory estimates less. Optional."""

    def properties(self, clients: int, seed: int = 0) -> Properties:
        """The facts of the problem for this many clients; `seed` is the run's, which deals data."""


def properties_of(problem: Problem, clients: int, seed: int = 0) -> Properties:
    """What a problem says about itself; nothing where it does not answer."""
    if isinstance(problem, HasProperties):
        return problem.properties(clients, seed)
    return Properties()
