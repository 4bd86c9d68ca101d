"""Optimizers of one's own between two questions: what they moved the model by is the gradient."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..core import ConfigError
from .answering import Answering
from .dialogue import Dialogue, Metrics
from .run import Run

__all__ = ["Outer", "outer"]


def outer(model: nn.Module, run: Run, *, every: int, metrics: Metrics | None = None) -> Outer:
    """Train with an optimizer of one's own, and let a rule step after every so many of its steps.

    The rule's gradient is then x - x', what they moved the model by. Under DSGD(lr=1.0) that is
    local training followed by gossip; momentum on it is an outer step (`DiLoCo`'s).

    every    steps of the loop's optimizer for one question
    """
    return Outer(model, run, every, metrics)


class Outer(Answering):
    """Counts the steps of a loop's own optimizer; see `outer`."""

    def __init__(
        self, model: nn.Module, run: Run, every: int, metrics: Metrics | None = None
    ) -> None:
        if every < 1:
            raise ConfigError(f"outer.every must be at least 1 step, found {every}.")
        self._dialogue = Dialogue(model, run, metrics)
        self._every, self._steps = every, 0

    def step(self) -> None:
        """Call it after every step of the loop's own optimizer."""
        dialogue, question = self._dialogue, self.asked
        self._steps += 1
        if self._steps % self._every:
            return
        dialogue.tell(dialogue.moved())
        if dialogue.question == question:
            name = dialogue.run.experiment.name
            dialogue.close()
            raise ConfigError(
                f"{name} asks about one batch twice, and each time your optimizer would train once "
                "more. Use a rule that does not, such as DSGD or DiLoCo."
            )

    def checkpoint(self, **loop: Any) -> bool:
        """As `checkpoint` of the live optimizer; the state of the loop's own belongs into it.

        False between two questions: what was trained since the last one is trained again.
        """
        return not self._steps % self._every and self._dialogue.checkpoint(loop)
