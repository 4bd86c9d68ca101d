"""One experiment: its parts, rounds and seed, checked as a whole before anything runs."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .codecs import Dense
from .core import (
    Caution,
    Codec,
    ConfigError,
    Network,
    Problem,
    Rule,
    Schedule,
    check_lengths,
    check_message,
    check_needs,
)
from .problems import Zero
from .schedules import (
    Always,
    Measured,
    Replay,
    check_settings_act,
    is_measured,
    plan_of,
    planned,
    with_measured,
)

__all__ = ["Evaluate", "Experiment"]


# Evaluations of a run by default; what they cost: docs/decisions/016-evaluation-cost.md.
_TIMES = 50


@dataclass(frozen=True)
class Evaluate:
    """When models are judged: every N rounds, on a logarithmic grid, or fifty times a run.

    They are always judged at the start and at the end.

    The grid is that of DSpodFL's code: half-decade steps of the leading digit, ..., 90, 95, 100,
    150, ..., 1000, 1500, ... With `last` they are also judged in each of so many rounds up to the
    last one of `rounds`, to see what happens from one to the next. `closely` also measures the
    rule's directions against gradients on all samples (`measures.DIAGNOSTICS`); each time that
    costs one of them for every pair of clients. `train` also measures the averaged model's loss on
    all samples that clients train on (`measures.TRAINING`); each time that costs one pass through
    them.
    """

    every: int | None = None
    grid: Literal["log"] | None = None
    closely: bool = False
    last: int = 0
    train: bool = False

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise ConfigError(f"evaluate.every must be at least 1 round, found {self.every}.")
        if self.grid not in (None, "log"):
            raise ConfigError(f"evaluate.grid must be 'log' or left out, found '{self.grid}'.")
        if self.every is not None and self.grid is not None:
            raise ConfigError("evaluate has both 'every' and 'grid'. Give one of them.")
        if self.last < 0:
            raise ConfigError(f"evaluate.last must be at least 0 rounds, found {self.last}.")

    def due(self, t: int, rounds: int) -> bool:
        """Whether round t is one to judge models in."""
        if t in (0, rounds) or rounds - self.last < t <= rounds:
            return True
        if self.grid == "log":
            step: int = 10 ** (len(str(t)) - 1) // 2
            return t % max(1, step) == 0
        return t % (self.every or max(1, rounds // _TIMES)) == 0


@dataclass(frozen=True, eq=False)
class Experiment:
    """Everything that determines a run.

    graph      who may talk to whom
    problem    what is minimised
    algorithm  the rule
    schedule   who computes and which links fire; a preset such as DGD follows it in its own way
    message    what a link carries: a codec
    rounds     how many; `until_delay` ends a run earlier, once that delay (as run) is reached, and
               `until_settled` once the last three evaluations of sum_i f_i(mean of x) have a
               standard deviation below it (PaME's rule)
    seed       all randomness of the run
    x0         the first models: one vector, or one per row; by default the problem's own start
    resources  how able clients and links are, for the delays; by default the schedule as it was
               given. `Measured`, here or in the schedule, is found out by peers before the first
               round
    """

    graph: Network
    problem: Problem
    algorithm: Rule
    schedule: Schedule = field(default_factory=Always)
    message: Codec = field(default_factory=Dense)
    rounds: int = 1000
    seed: int = 0
    x0: ArrayLike | Tensor | None = None
    dtype: Literal["float32", "float64"] = "float32"
    evaluate: Evaluate = field(default_factory=Evaluate)
    resources: Schedule | None = None
    until_delay: float | None = None
    until_settled: float | None = None
    label: str = ""

    def __post_init__(self) -> None:
        for name in ("rounds", "seed"):
            try:
                object.__setattr__(self, name, operator.index(getattr(self, name)))
            except TypeError as error:
                raise ConfigError(
                    f"{name} must be a whole number, found {getattr(self, name)!r}."
                ) from error
        if self.rounds < 0:
            raise ConfigError(f"rounds must not be negative, found {self.rounds}.")
        if self.dtype not in ("float32", "float64"):
            raise ConfigError(f"dtype must be 'float32' or 'float64', found '{self.dtype}'.")
        for name in ("until_delay", "until_settled"):
            if (given := getattr(self, name)) is not None and given <= 0:
                raise ConfigError(f"{name} must be above 0, found {given}.")
        check_needs(self.algorithm, self.graph)
        check_message(self.algorithm, self.message)
        for part in (self.algorithm, self.problem):
            check_lengths(part, self.graph.clients)
        senders = "clients and hubs" if self.graph.hubs else "clients"
        check_lengths(self.message, self.graph.rows, senders)  # hubs send, too
        check_settings_act(self.algorithm, self.schedule)
        clients = getattr(self.problem, "clients", self.graph.clients)
        if clients != self.graph.clients:
            raise ConfigError(
                f"The problem has {clients} clients, "
                f"graph '{self.graph.name}' {self.graph.clients}."
            )
        if self.algorithm.needs.common_start and self.x0 is not None:
            x = self._given_start()
            if x.ndim > 1 and not bool((x == x[:1]).all()):
                raise ConfigError(
                    f"{self.name} needs one common first model, but the rows of x0 differ. "
                    "Give x0 as one vector or as equal rows, or leave it out."
                )
        if hasattr(self.algorithm, "check_row") and not getattr(self.problem, "stands_in", False):
            self.algorithm.check_row(self.problem.n)
        h = getattr(self.problem, "h", None)
        regularised = h not in (None, Zero())
        if regularised and not self.algorithm.needs.prox:
            raise ConfigError(
                f"{self.name} takes no proximal step, so it would not see the regulariser {h}. "
                "Use Depositum, NIDS or ProxGT, or the smooth l2 of Classification."
            )
        if hasattr(self.algorithm, "caution") and (text := self.algorithm.caution(regularised)):
            warnings.warn(text, Caution, stacklevel=3)

    @property
    def name(self) -> str:
        """What the run is called in tables and plots."""
        return self.label or type(self.algorithm).__name__

    @property
    def active_schedule(self) -> Schedule:
        """The schedule that really runs: as given, or as the algorithm's plan uses it."""
        return planned(self.schedule, plan_of(self.algorithm), self.able)

    @property
    def able(self) -> Schedule:
        """What says how able clients and links are: the resources, or else the schedule.

        A replay knows what was measured when it was recorded.
        """
        replayed = isinstance(self.resources, Measured) and isinstance(self.schedule, Replay)
        return self.schedule if self.resources is None or replayed else self.resources

    @property
    def measures(self) -> bool:
        """Whether something must be measured before the first round, which only peers can do."""
        return is_measured(self.schedule) or is_measured(self.able)

    def measured(self, found: Schedule) -> Experiment:
        """The same experiment with what was found in the place of `Measured`."""
        return replace(
            self,
            schedule=with_measured(self.schedule, found),
            resources=with_measured(self.able, found),
        )

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type of the rows."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    def start(self, rows: Sequence[int]) -> Tensor:
        """The first models of these rows [len(rows), n], in the run's type."""
        dtype = self.torch_dtype  # of one model before it is repeated: float64 takes twice as much
        if self.x0 is None:
            return self.problem.start(self.seed).to(dtype).repeat(len(rows), 1)
        x, n = self._given_start(), self.problem.n
        if x.shape == (n,):
            return x.to(dtype).repeat(len(rows), 1)
        if x.shape == (self.graph.clients, n):
            # Any values would do: a hub's first model is what its workers send.
            hubs = x.mean(dim=0).repeat(self.graph.hubs, 1)
            return torch.cat([x.to(dtype), hubs.to(dtype)])[torch.as_tensor(rows)]
        clients = self.graph.clients
        raise ConfigError(
            f"x0 has shape {list(x.shape)}; give one vector [{n}], "
            f"or one per client [{clients}, {n}]."
        )

    def _given_start(self) -> Tensor:
        """x0 as it was given, in float64."""
        x0 = self.x0
        try:
            given = x0.detach().cpu().numpy() if isinstance(x0, Tensor) else np.asarray(x0)
            return torch.from_numpy(np.array(given, np.float64))
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"x0 must be numbers, one vector or one per client: {error}."
            ) from error
