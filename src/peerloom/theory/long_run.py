"""How fast a rule's models agree in the long run, where links never vary: by its own linear map."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .still import State, Still, random_rows

__all__ = ["steady_rate"]

Floats = NDArray[np.float64]

_DIRECTIONS = 600  # up to which all eigenvalues of the map are computed
_SETTLE = 5000  # rounds that the parts of a state that depend on no model may take to settle
_NOTHING = 1e-9  # of the size of what directions are taken from: less is rounding


def steady_rate(still: Still, period: int) -> float | None:
    """What a round leaves of the squared disagreement in the long run.

    A period of rounds is one linear map of the rule's state. Its spectral radius on what models
    that differ can reach, less what never parts models, is the rate. None where the map is too
    large, or some of the state does not settle.
    """
    fixed = _settled(still, period)
    if fixed is None:
        return None
    parts = still.after(np.eye(still.clients), _first(still, period)).wide

    def onward(directions: Floats) -> Floats:
        wide = directions.reshape(*parts.shape[:2], -1)
        after = still.later(State(fixed.t, wide, fixed.fixed), period)
        return after.wide.reshape(len(directions), -1)

    first = parts.reshape(-1, still.clients)
    reached = _span(first, onward, float(np.abs(first).max(initial=0.0)))
    if reached is None:
        return None
    step, models = reached.T @ onward(reached), reached[: still.clients]
    seen = _span((models - models.mean(axis=0)).T, lambda x: step.T @ x, 1.0)
    if seen is None or not seen.shape[1]:
        return None if seen is None else 0.0
    radius = float(np.abs(np.linalg.eigvals(seen.T @ step @ seen)).max())
    return float(radius ** (2 / period))


def _first(still: Still, period: int) -> int:
    """The first round that ends a period, and the special ones before."""
    return period if period > 1 or not still.exp.algorithm.needs.common_start else 2


def _settled(still: Still, period: int) -> State | None:
    """A state whose parts that depend on no model have settled, such as push-sum's weights.

    Or make no difference, such as a count of steps.
    """
    state = still.after(np.zeros((still.clients, 1)), _first(still, period))
    while state.t < _SETTLE:
        if not state.fixed:
            return state
        before, state = state, still.later(state, state.t)
        if all(
            np.allclose(value, before.fixed[name], rtol=0, atol=1e-13)
            for name, value in state.fixed.items()
        ):
            return state
        if _alike(still, before, state, period):
            return state
    return None


def _alike(still: Still, one: State, other: State, period: int) -> bool:
    """Whether two states do the same with the same models, whatever else they hold."""
    models = random_rows(still.exp.seed, "settled", still.clients, 2)
    wide = still.after(models, _first(still, period)).wide
    first, second = (
        still.later(State(state.t, wide, state.fixed), period).wide for state in (one, other)
    )
    return np.allclose(first, second, rtol=0, atol=1e-13)


def _span(first: Floats, onward: Callable[[Floats], Floats], size: float) -> Floats | None:
    """An orthonormal basis of all directions that some lead to; None if there are too many."""
    new = basis = _directions(first, size)
    while new.shape[1]:
        if basis.shape[1] > _DIRECTIONS:
            return None
        later = onward(new)
        size = float(np.abs(later).max(initial=0.0))
        for _ in range(2):  # once leaves rounding errors of the size of what it takes away
            later = later - basis @ (basis.T @ later)
        new = _directions(later, size)
        basis = np.hstack([basis, new])
    return basis


def _directions(block: Floats, size: float) -> Floats:
    left, sizes, _ = np.linalg.svd(block, full_matrices=False)
    return np.asarray(left[:, sizes > _NOTHING * max(size, 1e-300)])
