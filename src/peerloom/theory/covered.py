"""What theory says about one run, whichever paper it is from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core import Rate
from ..experiment import Experiment
from .exact import Floor

__all__ = ["Coverage", "step_of"]


@dataclass(frozen=True)
class Coverage:
    """What theory says about one run.

    theorem   the one that covers it, or would if nothing failed
    holds     whether all its assumptions hold
    fails     those that do not, in words
    step      the step the run uses; None where it has none
    printed   the largest the paper allows; None where it allows none
    allowed   the largest that is numerically right; None where there is none, or it is not known
    floor     what is left after many rounds, by name, as the theorem bounds it; empty where it does not apply
    exact     the same without any bound, where it can be computed; None too where the step is beyond exact_step
    exact_step  the largest step for which a run on these quadratics settles at all
    growth    PaME's largest growth factor of sigma
    """

    theorem: str
    holds: bool
    fails: tuple[str, ...]
    step: float | None = None
    printed: float | None = None
    allowed: float | None = None
    floor: dict[str, float] | None = None
    exact: Floor | None = None
    exact_step: float | None = None
    growth: float | None = None
    notes: tuple[str, ...] = ()


def step_of(exp: Experiment) -> float | None:
    """The step of the first round, the largest of all clients; None where the rule has no `lr`."""
    lr: Any = getattr(exp.algorithm, "lr", None)
    if isinstance(lr, Rate):
        return float(lr.at(1))
    return float(max(lr)) if isinstance(lr, tuple) else None if lr is None else float(lr)
