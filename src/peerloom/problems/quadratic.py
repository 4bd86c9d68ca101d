"""Quadratics: the problem whose every constant is known, for tests and for theory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..arguments import checked
from ..core import ConfigError, Draws, Evaluation, Placement
from .properties import Properties, Quadratics
from .regularisers import Regulariser, Zero, weak_convexity

__all__ = ["Quadratic"]


@checked
@dataclass(frozen=True, eq=False)
class Quadratic:
    """f_i(x) = 1/2 x' A_i x - b_i' x with exact gradients A_i x - b_i.

    A [m, n, n] symmetric, b [m, n].

    `noise` adds a normal error of that standard deviation to every coordinate of every gradient.

    >>> Quadratic(A=[[[2.0]], [[4.0]]], b=[[2.0], [4.0]]).solution().tolist()
    [1.0]
    """

    A: ArrayLike
    b: ArrayLike
    h: Regulariser | None = None
    noise: float = 0.0
    _A: NDArray[np.float64] = field(init=False, repr=False)
    _b: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        A, b = _array(self.A), _array(self.b)
        if A.ndim != 3 or A.shape[1] != A.shape[2] or b.shape != A.shape[:2]:
            raise ConfigError(
                f"Quadratic needs A of shape [m, n, n] and b of [m, n]; found {A.shape} and "
                f"{b.shape}."
            )
        if not np.allclose(A, A.transpose(0, 2, 1)):
            raise ConfigError(
                "Quadratic: every A_i must be symmetric; use (A + A') / 2, which has the same "
                "values."
            )
        if self.noise < 0:
            raise ConfigError(f"Quadratic.noise must not be negative, found {self.noise}.")
        object.__setattr__(self, "_A", A)
        object.__setattr__(self, "_b", b)

    @property
    def clients(self) -> int:
        """The number of clients, m."""
        return len(self._A)

    @property
    def n(self) -> int:
        """The number of coordinates."""
        return int(self._A.shape[1])

    def start(self, seed: int) -> Tensor:
        """Zero."""
        return torch.zeros(self.n, dtype=torch.float64)

    def solution(self, weights: ArrayLike | None = None) -> NDArray[np.float64]:
        """The minimiser of sum_i weights_i f_i, without h; equal weights where none are given."""
        w = np.ones(self.clients) if weights is None else np.asarray(weights, np.float64)
        return np.linalg.solve(np.einsum("i,ijk->jk", w, self._A), w @ self._b)

    def properties(self, clients: int, seed: int = 0) -> Properties:
        """All of them are known."""
        alike = np.allclose(self._A, self._A[0]) and np.allclose(self._b, self._b[0])
        return Properties(
            iid=bool(alike),
            noise=self.noise,
            size=self._A.size,
            quadratic=lambda: Quadratics(self._A, self._b),
            minimiser=self.solution if self.h is None else None,
            weak_convexity=weak_convexity(self.h),
        )

    def bind(self, place: Placement, draws: Draws) -> LocalQuadratic:
        """The rows of `place`."""
        if place.of != self.clients:
            raise ConfigError(
                f"Quadratic has {self.clients} clients, the graph {place.of}. They must be equal."
            )
        return LocalQuadratic(self, place, draws)


class LocalQuadratic:
    """The quadratics of the rows that live here."""

    def __init__(self, problem: Quadratic, place: Placement, draws: Draws) -> None:
        self._problem, self._place, self._draws = problem, place, draws
        self._A, self._b = (
            torch.from_numpy(a).to(place.device, place.dtype) for a in (problem._A, problem._b)
        )
        self._h = problem.h or Zero()
        self._mean_A, self._mean_b = self._A.mean(dim=0), self._b.mean(dim=0)

    def grad(self, x: Tensor, on: NDArray[np.int64], t: int, batch: int = 0) -> Tensor:
        """A_i x_i - b_i, row by row: a row's bits do not depend on which others live here."""
        g = self.whole_gradients(x, on)
        if self._problem.noise:
            u = torch.from_numpy(
                self._draws(
                    f"noise/{batch}" if batch else "noise", t, self._place.rows, self._problem.n
                )[on]
            )
            # A uniform of exactly 0 would give minus infinity.
            g = g + self._problem.noise * torch.special.ndtri(u.clamp_min(2.0**-54)).to(g)
        return g

    @property
    def batches(self) -> NDArray[np.int64]:
        """One each: a gradient without noise costs what another does."""
        return np.ones(len(self._place.rows), np.int64)

    def whole_gradients(self, x: Tensor, on: NDArray[np.int64]) -> Tensor:
        """The gradients of the rows `on` without noise, row by row as `grad` has them."""
        pairs = zip(on.tolist(), self._place.rows[on].tolist(), strict=True)
        return torch.stack([self._A[i] @ x[k] - self._b[i] for k, i in pairs])

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The proximal step of h."""
        return self._h.prox(z, step)

    def evaluate(self, x: Tensor) -> Evaluation:
        """The whole objective, (1/m) sum_i f_i + h, at each model."""
        value = (
            0.5 * torch.einsum("ri,ij,rj->r", x, self._mean_A, x)
            - x @ self._mean_b
            + self._h.value(x)
        )
        return Evaluation(value.double().cpu().numpy(), None)

    def train_loss(self, x: Tensor, over: str) -> NDArray[np.float64]:
        """The same: there are no samples, and all clients count alike."""
        return self.evaluate(x).loss


def _array(values: ArrayLike) -> NDArray[np.float64]:
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    return np.array(values, np.float64)
