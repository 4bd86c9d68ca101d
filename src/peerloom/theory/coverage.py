"""Which theorem covers a run, and which of its assumptions fail.

The theorems themselves are found by entry points of the group `peerloom.theorems`, named after the
family of rules that they speak of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import extensions
from ..core import largest_rate
from ..experiment import Experiment
from .activity_rates import ActivityRates
from .constants import Constants
from .contraction import Contraction
from .exact import Floor
from .rule_facts import family_of

__all__ = ["THEOREMS", "Coverage", "Theorem", "cover", "step_of"]

THEOREMS = "peerloom.theorems"  # the entry point group


@dataclass(frozen=True)
class Coverage:
    """What theory says about one run.

    theorem   the one that covers it, or would if nothing failed
    holds     whether all its assumptions hold
    fails     those that do not, in words
    step      the step the run uses; None where it has none
    printed   the largest the paper allows; None where it allows none
    allowed   the largest that is numerically right; None where there is none, or it is not known
    floor     what is left after many rounds, by name, as the theorem bounds it; empty where it does
              not apply
    exact     the same without any bound, where it can be computed; None too where the step is
              beyond exact_step
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


Theorem = Callable[[Experiment, ActivityRates, Contraction, Constants], Coverage]


def cover(
    exp: Experiment, rates: ActivityRates, mixing: Contraction, constants: Constants
) -> Coverage:
    """Find the theorem of the rule's own paper, and check its assumptions."""
    if mixing.how == "unknown":
        return _none(exp, f"how fast models agree is not known: {mixing.why}")
    if constants.smoothness.value == 0:
        return _none(exp, "no loss is curved, so there is nothing to be said of steps")
    if rates.nodes.min() == 0:
        return _none(exp, "some clients never compute")
    family = family_of(exp.algorithm)
    if family is None:
        why = (
            f"{type(exp.algorithm).__name__} is not their rule, and its own theory is not built in"
        )
        return Coverage("None of the five papers", False, (why,), step_of(exp))
    theorem: Theorem | None = extensions.load(THEOREMS, family)
    if theorem is None:
        return _none(exp, f"the theorems of {family} are missing: {extensions.REINSTALL}")
    return theorem(exp, rates, mixing, constants)


def _none(exp: Experiment, why: str) -> Coverage:
    return Coverage("No theorem", False, (why,), step_of(exp))


def step_of(exp: Experiment) -> float | None:
    """The largest step of any client in the run; None where the rule has no `lr`."""
    lr: Any = getattr(exp.algorithm, "lr", None)
    return None if lr is None else largest_rate(lr, exp.rounds)
