"""One row without neighbours, for a few rounds: to see whether a loop repeats itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..core import ConfigError
from ..experiment import Experiment
from ..registry import describe
from ..runtime import Guard, Session, build_port
from ..runtime.mirror import Mirror
from .asked import asked_problem
from .run import changed, loop_of
from .seam import Question, Seam

__all__ = ["Alone", "Told"]


class Told(NamedTuple):
    """One answer of a loop."""

    question: Question
    g: Tensor


class Alone:
    """A run of one client whose neighbours send it what it sends them; keeps all answers.

    Without `keep` it keeps none, and so may run for long.
    """

    repeats = False

    def __init__(
        self,
        exp: Experiment,
        client: int,
        rounds: int,
        batches: int | None = None,
        keep: bool = True,
    ) -> None:
        if not 0 <= client < exp.graph.clients:
            raise ConfigError(
                f"There is no client {client}: the experiment has {exp.graph.clients}, numbered "
                "from 0."
            )
        self._loop = loop_of(exp)
        self.experiment, self.seam = changed(exp, rounds=rounds), Seam()
        self._keep = keep
        self._client, self._batches = client, None if batches is None else (batches,)
        self._session: Session | None = None
        self._first, self.done = "", -1
        self.told: list[Told] = []

    def begin(self, model: nn.Module, judged: bool) -> None:
        """Start the rule in a thread."""
        if self._session is not None:
            raise ConfigError("A run is for one optimizer: make one of each in your function.")
        problem = asked_problem(
            model, self._loop, describe(self._loop), self.seam, judged, self._batches, self
        )
        self._first = problem.digest
        exp = changed(self.experiment, problem=problem)
        port = build_port(exp, np.array([self._client]), mixer="links", wire=Mirror())
        session = self._session = Session(exp, port, guard=Guard(every=1, replay=False))

        def work() -> None:
            for snapshot in session:
                self.done = snapshot.t

        self.seam.start(work)

    def again(self) -> Iterable[Question]:
        """Nothing."""
        return ()

    def taken(self, question: Question, g: Tensor) -> Tensor:
        """Keep an answer."""
        if self._keep:
            self.told.append(Told(question, g.clone()))
        return g

    def memory(self) -> Mapping[int, bytes]:
        """Nothing is kept beyond the process."""
        return {}

    def restore(self, memory: Mapping[int, bytes]) -> None:
        """There is nothing to go on with."""

    def final(self) -> Tensor:
        """The client's last model."""
        assert self._session is not None
        x: Tensor = self._session.state.x[0]
        return x

    def checkpoint(self, loop: Mapping[str, Any]) -> bool:
        """Nothing is kept."""
        return False

    @property
    def resumed(self) -> dict[str, Any] | None:
        """Nothing was kept."""
        return None

    def close(self) -> None:
        """End the rule's thread."""
        self.seam.leave()

    def starts_as(self, other: Alone) -> bool:
        """Whether both began with one model."""
        return self._first == other._first

    def differs(self, other: Alone) -> int | None:
        """The first answer that is not the other run's, bit for bit; None if all are."""
        for k, (one, two) in enumerate(zip(self.told, other.told, strict=False)):
            if one.question != two.question or not torch.equal(one.g, two.g):
                return k
        shortest = min(len(self.told), len(other.told))
        return None if len(self.told) == len(other.told) else shortest
