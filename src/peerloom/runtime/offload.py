"""Gradients on another device than the rows: rows stay in host memory, where they are sent from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import (
    ConfigError,
    Draws,
    Evaluation,
    LocalProblem,
    Placement,
    Problem,
    Remembers,
    WholeGradients,
)

__all__ = ["OffloadedProblem", "usable_device"]


def usable_device(device: str | torch.device) -> torch.device:
    """Return the device of this name. Refuses one that is not there, or that computes nothing."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
        if found.type == "meta":
            raise RuntimeError("it has no numbers")
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"Device '{device}' cannot be used here ({error}). "
            "Use 'cpu', or 'cuda' where there is a GPU."
        ) from error
    return found


class OffloadedProblem:
    """A local problem with data and gradients on `device`; rows come from `place` and go there."""

    def __init__(
        self, problem: Problem, place: Placement, draws: Draws, device: torch.device
    ) -> None:
        self._host, self._device = place.device, device
        self._inner: LocalProblem = problem.bind(place._replace(device=device), draws)

    def grad(self, x: Tensor, on: NDArray[np.int64], t: int, batch: int = 0) -> Tensor:
        """The gradients at x[on], computed on the device."""
        return self._inner.grad(x.to(self._device), on, t, batch).to(self._host)

    @property
    def batches(self) -> NDArray[np.int64]:
        """How many batches the samples of each row fill."""
        return cast("WholeGradients", self._inner).batches  # which it may not have

    def whole_gradients(self, x: Tensor, on: NDArray[np.int64]) -> Tensor:
        """The gradients at x[on] on all samples, computed on the device."""
        whole = cast("WholeGradients", self._inner)
        return whole.whole_gradients(x.to(self._device), on).to(self._host)

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The proximal step, computed on the device."""
        return self._inner.prox(z.to(self._device), step).to(self._host)

    def memory(self) -> Mapping[int, bytes]:
        """What the problem keeps of rows beside their state; nothing where it keeps none."""
        return self._inner.memory() if isinstance(self._inner, Remembers) else {}

    def restore(self, memory: Mapping[int, bytes]) -> None:
        """Go on with what `memory` gave."""
        if isinstance(self._inner, Remembers):
            self._inner.restore(memory)

    def evaluate(self, x: Tensor) -> Evaluation:
        """Judge models, on the device."""
        return self._inner.evaluate(x.to(self._device))
