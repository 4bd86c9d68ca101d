"""Two halves of a row in turn: any rule on the one while the other is frozen."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ..core import (
    MODELS,
    Compressed,
    ConfigError,
    Plan,
    Port,
    Requirements,
    Rule,
    objective_over,
    rule,
)

__all__ = ["Alternating"]

Spans = tuple[tuple[int, int], ...]


@rule("Chen et al. 2025", "what the rule sends", "LoRA, whose factors do not average well")
@dataclass(frozen=True)
class Alternating:
    """Another rule, on one half of the coordinates in each round; the other half stays as it is.

        a shared coin falls:  heads   x[A] <- rule on f(x[A], x[B] as it is)
                              tails   x[B] <- rule on f(x[A] as it is, x[B])

    `rule` is the other rule. `first` are the coordinates of A, as spans [start, end) of a row, or a
    function of yours that returns them (`Task.spans` finds them by parameters' names); B is the
    rest. All rows have the same coin, which is drawn: under a fixed order links of an even period
    would always fire for the same half.

    What is frozen neither learns nor is mixed, nor is anything that the rule keeps of it, such as
    moments and trackers, and numbers that it keeps of a whole row, such as AdamW's steps, are kept
    for each half. So each half has the rule's own rounds, as if it were the whole row. A message
    still carries whole rows. Peers must be in one round, and where more than models is mixed, such
    as trackers, no link may fail that fires.

    For LoRA: where all have one A, the mean of B_i A is the mean of B_i times A, and averaging
    loses nothing; between neighbours A is one as far as they agree.

    Reference: Chen, Guo, Ju, Dalal, Zhu and Khisti, "Robust Federated Finetuning of LLMs via
    Alternating Optimization of LoRA", 2025, which alternates strictly, under a server. Written
    without their text.

    >>> import peerloom as pl
    >>> apart = pl.rules.Alternating(pl.rules.DGD(lr=0.1), first=((0, 1),))
    >>> problem = pl.testing.random_quadratic(3, 2)
    >>> exp = pl.Experiment(pl.graphs.ring(3), problem, apart, rounds=1)
    >>> (pl.simulate(exp).x != 0).any(dim=0).sum().item()  # of two coordinates one has moved
    1
    """

    rule: Rule
    first: Spans | Callable[[], Spans]
    needs: ClassVar[Requirements] = Requirements()

    def __post_init__(self) -> None:
        if not self._spans or any(not 0 <= start < end for start, end in self._spans):
            raise ConfigError(
                "Alternating.first must be spans of coordinates, [start, end) with start below "
                f"end, such as ((0, 64),); found {self._spans!r}."
            )
        if hasattr(self.rule, "mass"):
            name = type(self.rule).__name__
            raise ConfigError(
                f"Alternating keeps a rule's numbers for each half, but the models of {name} count "
                "by one mass for the whole row. Use a rule for symmetric links, such as DSGD."
            )
        # What it needs is what the other rule needs. What is counted on to come late, as mass is,
        # would find its half frozen.
        needs = self.rule.needs
        if needs.accepts != MODELS and needs.links == "any":
            needs = replace(needs, links="scheduled")
        object.__setattr__(self, "needs", needs)

    @cached_property
    def _spans(self) -> Spans:
        return self.first() if callable(self.first) else self.first

    def check_row(self, n: int) -> None:
        """Refuse rows that these spans do not cut in two."""
        last = max(end for _, end in self._spans)
        if last > n:
            raise ConfigError(
                f"A span of Alternating.first ends at {last}, but a row has {n} coordinates. Give "
                "spans within it, such as Task.spans finds by parameters' names."
            )
        if self._inside(torch.empty(1, n)).all():
            raise ConfigError(
                f"Alternating.first is all {n} coordinates of a row, so there is no second half. "
                "Leave some out, or use the rule without Alternating."
            )

    def _inside(self, x: Tensor) -> Tensor:
        """Which coordinates are in the first half."""
        inside = torch.zeros(x.shape[1], dtype=torch.bool, device=x.device)
        for start, end in self._spans:
            inside[start:end] = True
        return inside

    @property
    def plan(self) -> Plan:
        """That of the other rule."""
        return getattr(self.rule, "plan", Plan())

    @property
    def objective(self) -> Literal["clients", "samples"]:
        """That of the other rule."""
        return objective_over(self.rule)

    def caution(self, regularised: bool) -> str | None:
        """What a user should know of the other rule."""
        said = getattr(self.rule, "caution", None)
        return None if said is None else str(said(regularised) or "") or None

    def init(self, x: Tensor, port: Port) -> Any:
        """The other rule's start, with what it keeps of a whole row once for each half."""
        s = self.rule.init(x, port)
        of: Any = type(s)
        shared = tuple(name for name, part in zip(s._fields, s, strict=True) if _is_shared(part, x))
        return _two_halves(of, shared)(*s, *(getattr(s, name) for name in shared))

    def step(self, s: Any, port: Port) -> Any:
        """The other rule's step, of which the half whose turn it is is taken."""
        heads = bool(port.uniform("turn", shared=True)[0, 0] < 0.5)
        turn = self._inside(s.x) if heads else ~self._inside(s.x)
        shared = type(s).shared
        names = [name for name in s._fields if not name.endswith(_SECOND)]
        mine = {name: name if heads or name not in shared else name + _SECOND for name in names}
        before = type(s).of(*(getattr(s, mine[name]) for name in names))
        after = self.rule.step(before, _FrozenPort(port, s.x, turn))
        taken = {
            mine[name]: new
            if name in shared
            else torch.where(turn.repeat(new.shape[1] // len(turn)), new, old)
            for name, old, new in zip(names, before, after, strict=True)
        }
        return s._replace(**taken)


_SECOND = "_of_the_rest"
_made: Any = namedtuple  # with names that are not known before


def _is_shared(part: Tensor, x: Tensor) -> bool:
    """Whether a part of the state is not made of coordinates, but kept of a row as a whole."""
    return part.shape[1] % x.shape[1] != 0


@cache
def _two_halves(of: Any, shared: tuple[str, ...]) -> Any:
    """The type of a rule's state with these fields twice; it knows the rule's own."""
    names = (*of._fields, *(name + _SECOND for name in shared))
    made = _made(f"Alternating{of.__name__}", names)
    made.of, made.shared = of, shared
    return made


class _FrozenPort:
    """A port on one half of the coordinates: the other half of all models is as it was."""

    def __init__(self, port: Port, x: Tensor, turn: Tensor) -> None:
        self._port, self._x, self._turn = port, x, turn
        self.active, self.prox, self.mix = port.active, port.prox, port.mix
        self.constant, self.uniform = port.constant, port.uniform
        self.received, self.fires = port.received, port.fires

    @property
    def t(self) -> int:
        """The round."""
        return self._port.t

    def grad(self, x: Tensor, v: Tensor | None = None, batch: int | Literal["all"] = 0) -> Tensor:
        """The gradient in this half, where the other half is frozen; zero there."""
        g = self._port.grad(torch.where(self._turn, x, self._x), v, batch)
        return torch.where(self._turn, g, 0.0)

    def compress(self, x: Tensor, send: Tensor | None = None) -> Compressed:
        """Differences of this half; the other one does not change."""
        return self._port.compress(torch.where(self._turn, x, 0.0), send)
