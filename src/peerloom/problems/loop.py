"""A problem whose gradients come from elsewhere: from loops of one's own (`peerloom.live`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from torch import Tensor

from ..arguments import checked
from ..core import ConfigError, Draws, LocalProblem, Placement
from .properties import Properties
from .regularisers import Regulariser

__all__ = ["Loop"]


@checked
@dataclass(frozen=True, eq=False)
class Loop:
    """(1/m) sum_i f_i(x) + h(x), where client i's own training loop computes the gradients of f_i.

    It holds the place of the loops in an experiment; `peerloom.live` puts them there. What a model
    is, and how many numbers it has, only a loop's script knows.

    h   the regulariser, for rules that take its proximal step
    """

    h: Regulariser | None = None

    # Settings that are for rows of some length are compared once a script's model is known.
    stands_in: ClassVar[bool] = True

    @property
    def n(self) -> int:
        """Nobody knows before there is a model."""
        _refuse()

    def start(self, seed: int) -> Tensor:
        """The model of the loop's script is the start."""
        _refuse()

    def bind(self, place: Placement, draws: Draws) -> LocalProblem:
        """Without a loop nothing can be computed."""
        _refuse()

    def properties(self, clients: int, seed: int = 0) -> Properties:
        """Nothing is known of it."""
        return Properties()


def _refuse() -> NoReturn:
    raise ConfigError(
        "The problem is 'Loop': a training loop of your own computes its gradients, and none runs "
        "here. Start the script that has it, with pl.live.optimizer(model, pl.live.peer(FOLDER, "
        "FILE)), or pl.live.rows(experiment) for all rows in one process."
    )
