"""A rule with nothing to learn, run on an experiment's own network, schedule and message.

With zero gradients only the rule's mixing moves the models, whatever step of its own it mixes by.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Caution, Checkpoint, Ledger, uniform
from ..experiment import Experiment
from ..runtime import Flat, Session, StopRule, build_port, trace

__all__ = ["State", "Still", "random_rows"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class State:
    """A rule's state after round t: the parts with a number per row and coordinate, and the rest.

    `wide` [parts, rows, n], the models first. `fixed` are fields of a width that does not depend on
    the model, such as the weights of push-sum.
    """

    t: int
    wide: Floats
    fixed: dict[str, Floats]

    @property
    def x(self) -> Floats:
        """The models of all rows [rows, n]."""
        return np.asarray(self.wide[0])


class Still:
    """Runs a rule without gradients from any models, and on from any state."""

    def __init__(self, exp: Experiment) -> None:
        found = trace(exp.algorithm)
        self.exp, self.clients, self.mixings = exp, exp.graph.clients, len(found.mixings)
        self.draws = found.draws
        self._fields = tuple(found.widths)
        self._wide = tuple(name for name, width in found.widths.items() if tuple(width) == (1, 0))
        self.plain = all(width.slope == 0 or width == (1, 0) for width in found.widths.values())
        """Whether every field of the state has one number per coordinate, or none at all."""

    def under(self, exp: Experiment) -> Still:
        """The same rule in another experiment."""
        other = copy(self)
        other.exp, other.clients = exp, exp.graph.clients
        return other

    def states(self, models: Floats, rounds: int) -> Iterator[State]:
        """The states up to that round from first models [clients, n], the first state first.

        A rule that wants one first model gets zero, and the models as its first gradients: its
        states begin after round 1.
        """
        n = models.shape[1]
        if not self.exp.algorithm.needs.common_start:
            yield from self._run(n, rounds, x0=models)
            return
        after = self._run(n, max(1, rounds), kick=models)
        next(after)
        yield from after

    def after(self, models: Floats, rounds: int) -> State:
        """The last of these states."""
        *_, last = self.states(models, rounds)
        return last

    def later(self, state: State, rounds: int) -> State:
        """The state after some more rounds."""
        again = self._run(state.x.shape[1], state.t + rounds, resume=self._checkpoint(state))
        *_, last = again
        return last

    def _run(
        self,
        n: int,
        last: int,
        *,
        x0: Floats | None = None,
        kick: Floats | None = None,
        resume: Checkpoint | None = None,
    ) -> Iterator[State]:
        with warnings.catch_warnings(action="ignore", category=Caution):  # the run itself says them
            exp = replace(
                self.exp, problem=Flat(n, kick), x0=x0, dtype="float64", until_delay=None,
                until_settled=None,
            )  # fmt: skip
        for snapshot in Session(exp, build_port(exp), stop=StopRule(last), resume=resume):
            yield self._state(snapshot.t, snapshot.state)

    def _state(self, t: int, state: Any) -> State:
        arrays = {name: value.numpy() for name, value in state._asdict().items()}
        wide = np.stack([arrays.pop(name) for name in self._wide])
        return State(t, wide, arrays)

    def _checkpoint(self, state: State) -> Checkpoint:
        arrays = dict(zip(self._wide, state.wide, strict=True)) | state.fixed
        graph, rule = self.exp.graph, type(self.exp.algorithm).__name__
        ordered = {name: arrays[name] for name in self._fields}
        return Checkpoint(state.t, np.arange(graph.rows), rule, ordered, Ledger(graph).arrays())


def random_rows(seed: int, name: str, rows: int, columns: int) -> Floats:
    """Numbers [rows, columns] without any pattern: a pure function of seed and name."""
    return uniform(seed, f"theory/{name}", 0, np.arange(rows), lanes=columns) - 0.5
