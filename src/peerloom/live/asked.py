"""The problem that a rule sees: every gradient is a question to the loop."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..core import ConfigError, Draws, Evaluation, Placement
from ..problems import Loop, Zero
from ..problems.layout import RowLayout, agreed_on
from ..problems.metrics import columns
from ..problems.regularisers import Regulariser
from .seam import Asked, Question, Seam

__all__ = ["AskedProblem", "Notes", "asked_problem"]

Ids = NDArray[np.int64]


class Notes(Protocol):
    """What is noted of the answers of a loop, in the rule's thread."""

    def again(self) -> Iterable[Question]:
        """What the loop must answer once more before the next question, to no other end."""

    def taken(self, question: Question, g: Tensor) -> Tensor:
        """An answer was given; returns the row that the rule goes on with."""

    def memory(self) -> Mapping[int, bytes]:
        """What a checkpoint of the round that was just done must hold of the loop."""

    def restore(self, memory: Mapping[int, bytes]) -> None:
        """Go on with what `memory` gave."""


class NoNotes:
    """Where nothing outlives the process."""

    def again(self) -> Iterable[Question]:
        """Nothing."""
        return ()

    def taken(self, question: Question, g: Tensor) -> Tensor:
        """The answer as it is."""
        return g

    def memory(self) -> Mapping[int, bytes]:
        """Nothing."""
        return {}

    def restore(self, memory: Mapping[int, bytes]) -> None:
        """There is nothing to go on with."""


@dataclass(frozen=True, eq=False)
class AskedProblem:
    """`Loop` with a loop behind it: the gradients of its clients are asked for, one by one."""

    first: Tensor
    """The model as the loop's script made it, in float64."""
    digest: str
    """A hash of the model: what peers must have alike."""
    seam: Seam
    judged: bool
    """Whether the loop can say what a model is worth."""
    h: Regulariser | None = None
    batches: tuple[int, ...] | None = None
    """How many batches the samples of every client fill, where a rule asks for all of them."""
    notes: Notes = field(default_factory=NoNotes)
    recipe: Mapping[str, Any] | None = None

    @property
    def n(self) -> int:
        """Trainable parameters of the model."""
        return len(self.first)

    def made_by(self, recipe: Mapping[str, Any]) -> AskedProblem:
        """The same problem, which a file names by this recipe."""
        return replace(self, recipe=recipe)

    def agreed(self, seed: int) -> str:
        """A hash of what peers must have alike beside the experiment's file."""
        return self.digest

    def start(self, seed: int) -> Tensor:
        """The model as the loop's script made it."""
        return self.first

    def bind(self, place: Placement, draws: Draws) -> LocalAsked:
        """The clients of `place`."""
        return LocalAsked(self, place)


def asked_problem(
    model: nn.Module,
    loop: Loop,
    recipe: Mapping[str, Any],
    seam: Seam,
    judged: bool,
    batches: tuple[int, ...] | None = None,
    notes: Notes | None = None,
) -> AskedProblem:
    """`loop`, for a script with this model.

    Peers must start from one model, bit for bit: of models that begin apart the mean is worth
    nothing, and a script that starts anew would not be the same peer.
    """
    first = RowLayout.row_of(model)
    found = hashlib.sha256(agreed_on(model).encode())
    found.update(first.numpy().data)
    return AskedProblem(
        first,
        found.hexdigest(),
        seam,
        judged,
        loop.h,
        batches,
        NoNotes() if notes is None else notes,
        recipe,
    )


class LocalAsked:
    """Asks the loop, row after row."""

    def __init__(self, problem: AskedProblem, place: Placement) -> None:
        self._problem, self._place, self._h = problem, place, problem.h or Zero()
        notes = problem.notes
        self.memory: Callable[[], Mapping[int, bytes]] = notes.memory
        self.restore: Callable[[Mapping[int, bytes]], None] = notes.restore

    def grad(self, x: Tensor, on: Ids, t: int, batch: int = 0) -> Tensor:
        """One question for each row."""
        return self._answers(x, on, t, batch)

    @property
    def batches(self) -> Ids:
        """How many batches the samples of each row fill, as the script said."""
        given = self._problem.batches
        if given is None:
            raise ConfigError(
                "This rule takes gradients on all samples of a client: `opt.asked.batch` is then "
                '"all". If your loop looks at it, say how many batches that is, which is what it '
                "costs: batches=N to pl.live.rows or pl.live.peer. If not, use another rule."
            )
        every = np.broadcast_to(np.asarray(given, np.int64), self._place.of)
        return np.asarray(every[self._place.rows])

    def whole_gradients(self, x: Tensor, on: Ids) -> Tensor:
        """One question for each row, about all of its samples."""
        return self._answers(x, on, -1, "all")

    def prox(self, z: Tensor, step: float) -> Tensor:
        """The proximal step of h."""
        return self._h.prox(z, step)

    def evaluate(self, x: Tensor) -> Evaluation:
        """What the loop's metrics say; NaN where it has none."""
        if not self._problem.judged:
            return Evaluation(np.full(len(x), np.nan), None)
        told = [self._problem.seam.ask(Asked(row, None)) for row in x]
        found = columns(told, "The metrics of your loop")
        loss = found.pop("loss", np.full(len(x), np.nan))
        return Evaluation(loss, found.pop("accuracy", None), found)

    def _answers(self, x: Tensor, on: Ids, t: int, batch: int | Literal["all"]) -> Tensor:
        ask, notes, rows = self._problem.seam.ask, self._problem.notes, self._place.rows
        found = []
        for k in on.tolist():
            for earlier in notes.again():
                ask(Asked(x[k], earlier))
            question = Question(int(rows[k]), t, batch)
            found.append(notes.taken(question, ask(Asked(x[k], question))))
        return found[0].unsqueeze(0) if len(found) == 1 else torch.stack(found)
