"""What every place where a loop's rule may run has in common."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from torch import Tensor, nn

from ..core import Caution, ConfigError
from ..experiment import Experiment
from ..problems import Loop
from .seam import Seam

__all__ = ["Run", "changed", "loop_of"]


class Run(Protocol):
    """A run whose gradients come from one loop: all rows of an experiment, or one peer's."""

    seam: Seam
    repeats: bool
    """Whether the loop answers a question that comes again later with the same samples."""

    @property
    def experiment(self) -> Experiment:
        """What is run."""

    def begin(self, model: nn.Module, judged: bool) -> None:
        """Start the rule, with the model's parameters as the first ones."""

    def final(self) -> Tensor:
        """The last model, once all is done."""

    def checkpoint(self, loop: Mapping[str, Any]) -> bool:
        """Write where run and loop stand; False if nothing was written."""

    @property
    def resumed(self) -> dict[str, Any] | None:
        """What the loop said of itself at the checkpoint from which the run goes on."""

    @property
    def done(self) -> int:
        """The last round that is done; -1 before the start is."""

    def close(self) -> None:
        """End the rule's thread, whatever it does."""


def loop_of(exp: Experiment) -> Loop:
    """The problem of an experiment that leaves its gradients to a loop; refuses any other."""
    if not isinstance(exp.problem, Loop):
        raise ConfigError(
            f"The experiment has the problem {type(exp.problem).__name__}, which computes its "
            "gradients itself, so your loop would not be asked. Leave them to it: "
            '[problem] name = "Loop" in a file, pl.problems.Loop() in Python.'
        )
    return exp.problem


def changed(exp: Experiment, **changes: Any) -> Experiment:
    """The experiment with some parts replaced, such as `Loop` by a loop's script."""
    with warnings.catch_warnings(action="ignore", category=Caution):  # it said them when made
        return replace(exp, **changes)
