"""The cost of the port: what a round takes beyond samples, gradient and matrix product."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..problems.local import LocalClassification
from .cases import CASES, experiment
from .contenders import Simulator

__all__ = ["OVERHEAD_CASE", "overhead"]

OVERHEAD_CASE = "softmax-100"
_TURN = 50  # rounds timed together; the fastest turn counts, with its own parts


def overhead(seconds: float) -> dict[str, float]:
    """Milliseconds of a round, and of its three kernels, timed inside the very same rounds.

    Kernels timed apart, on inputs that stay in cache, are faster than in a round, and the port
    would be blamed for it.
    """
    simulator = Simulator(experiment(CASES[OVERHEAD_CASE]))
    for _ in range(_TURN):
        simulator.round()
    port = simulator.now.port
    problem = port.problem
    assert isinstance(problem, LocalClassification)
    samples_and_gradient, gradient = (
        _Stopwatch(problem._of),
        _Stopwatch(problem._gradients.gradients),
    )
    product = _Stopwatch(port._mixers["peers"])
    problem._of = samples_and_gradient  # type: ignore[method-assign]
    problem._gradients.gradients = gradient  # type: ignore[method-assign]
    port._mixers["peers"] = product  # type: ignore[assignment]
    best: dict[str, float] = {"round": float("inf")}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for watch in (samples_and_gradient, gradient, product):
            watch.seconds = 0.0
        start = time.perf_counter()
        for _ in range(_TURN):
            simulator.round()
        found = {
            "round": time.perf_counter() - start,
            "gather": samples_and_gradient.seconds - gradient.seconds,
            "gradient": gradient.seconds,
            "product": product.seconds,
        }
        best = min(
            best,
            {part: 1000 * spent / _TURN for part, spent in found.items()},
            key=lambda turn: turn["round"],
        )
    return best


class _Stopwatch:
    """A function that knows how long it has run."""

    def __init__(self, timed: Callable[..., Any]) -> None:
        self.seconds, self._timed = 0.0, timed

    def __call__(self, *words: Any, **named: Any) -> Any:
        start = time.perf_counter()
        answer = self._timed(*words, **named)
        self.seconds += time.perf_counter() - start
        return answer
