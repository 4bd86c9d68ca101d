"""What a loop has in place of torch's optimizer: its step is a rule's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..core import ConfigError
from ..problems.layout import trainable
from .answering import Answering
from .dialogue import Dialogue, Metrics
from .run import Run
from .seam import Question

__all__ = ["LiveOptimizer", "optimizer"]


def optimizer(model: nn.Module, run: Run, *, metrics: Metrics | None = None) -> LiveOptimizer:
    """Train a model in a loop of one's own, under the rule of a run.

    model    the module that the loop trains; peers must all start from the same one
    run      where the rule runs: `pl.live.peer(...)` or `pl.live.rows(...)`
    metrics  model -> numbers by name, in evaluation mode and without gradients; asked when the
             experiment has models judged
    """
    return LiveOptimizer(model, run, metrics)


class LiveOptimizer(Answering, torch.optim.Optimizer):
    """Looks like torch's, and steps by a rule.

    The model's parameters are at all times what the rule asks about. `step()` hands over what
    backward left in .grad, and returns when the rule asks again: rounds in which this client does
    not compute, and all waiting for neighbours, pass in between.
    """

    def __init__(self, model: nn.Module, run: Run, metrics: Metrics | None = None) -> None:
        self._dialogue = Dialogue(model, run, metrics)
        rate = getattr(run.experiment.algorithm, "lr", None)
        # Shown as torch's optimizers show it; nothing computes with it.
        self._rate = float(rate) if isinstance(rate, int | float) else 1.0
        super().__init__(list(trainable(model).values()), {"lr": self._rate})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Hand over the gradient; with a closure, as often as the rule asks about this batch.

        Returns the closure's first value.
        """
        self._check_rates()
        dialogue, question = self._dialogue, self.asked
        if closure is None:
            dialogue.tell(dialogue.gradient())
            if self._again(question):
                name = dialogue.run.experiment.name
                dialogue.close()
                raise ConfigError(
                    f"{name} asks about one batch twice, so step() needs a closure: a function "
                    "that calls zero_grad(), computes the loss, calls backward() and returns the "
                    "loss. Then write opt.step(closure)."
                )
            return None
        first = self._computed(closure)
        while self._again(question):
            self._computed(closure)
        return first

    def checkpoint(self, **loop: Any) -> bool:
        """Say, where the loop's body ends, where the loop stands, so that it can go on there.

        `loop` is what the loop needs for that, by name: what `state_dict()` gives, positions,
        generators' states; numbers, texts, lists, dictionaries and tensors. It goes into the run's
        own checkpoint whenever one is due; True if one was written now. After a restart `resumed`
        has it.
        """
        return self._dialogue.checkpoint(loop)

    def _computed(self, closure: Callable[[], Any]) -> Any:
        with torch.enable_grad():
            value = closure()
        self._dialogue.tell(self._dialogue.gradient())
        return value

    def _again(self, question: Question) -> bool:
        return self._dialogue.question == question and question.batch != "all"

    def _check_rates(self) -> None:
        for group in self.param_groups:
            if group["lr"] != self._rate:
                raise ConfigError(
                    f"The learning rate was changed from {self._rate:g} to {group['lr']:g}, by a "
                    "scheduler perhaps, but the step is the rule's. Give the rule a rate that "
                    "changes, such as lr=pl.rates.Cosine(...), and take the scheduler away."
                )
