"""When a run ends, as its experiment says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..core import Ledger
from ..errors import ConfigError
from ..experiment import Experiment

__all__ = ["StopRule"]


@dataclass(frozen=True)
class StopRule:
    """When a run ends: after `rounds`, or once a delay is reached or the loss has settled."""

    rounds: int
    delay: float | None = None
    settled: float | None = None
    clients: int = 1
    pause: int | None = None
    """A round to stop after without being done, for another session to go on."""

    @classmethod
    def of(cls, exp: Experiment) -> StopRule:
        """The stop rule of an experiment."""
        return cls(exp.rounds, exp.until_delay, exp.until_settled, exp.graph.clients)

    def reached(self, t: int, ledger: Ledger) -> Literal["rounds", "delay", "paused"] | None:
        """Why the run ends after round t, or None; `ledger` is the account of all rows."""
        if t >= self.rounds:
            return "rounds"
        if self.pause is not None and t >= self.pause:
            return "paused"
        return "delay" if self.delay is not None and ledger.delay() >= self.delay else None

    def has_settled(self, losses: Sequence[float]) -> bool:
        """Whether the loss has settled by PaME's rule.

        sum_i f_i at the averaged model has a standard deviation below `settled` in the last three
        evaluations. `losses` are those of the averaged model, one per evaluation.
        """
        if self.settled is None or len(losses) < 3:
            return False
        return bool(np.std([self.clients * loss for loss in losses[-3:]]) < self.settled)

    def check_rounds_only(self, why: str) -> None:
        """Refuse until_delay and until_settled where only rounds can be judged."""
        given = [name for name in ("delay", "settled") if getattr(self, name) is not None]
        if given:
            raise ConfigError(f"until_{given[0]} cannot be judged here: {why}")
