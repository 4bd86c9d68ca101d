"""What theory asks rules and messages about themselves."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..core import Rule
from ..experiment import Experiment

__all__ = ["CarriesPart", "carried_share", "family_of"]


Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


@runtime_checkable
class CarriesPart(Protocol):
    """A message that carries some coordinates as they were sent, and says how many."""

    def count(self, n: int) -> int | Ids:
        """How many of n coordinates travel: one number, or one for each row."""


def family_of(rule: Rule) -> str | None:
    """Whose theorems speak of the rule; None where it names no family."""
    return getattr(rule, "family", None)


def carried_share(exp: Experiment) -> float | Floats | None:
    """The share of a row's coordinates that a message carries: one number, or one for each row.

    None where it alters them instead.
    """
    message = exp.message
    if message.fit == "whole":
        return 1.0
    if message.fit in ("paired", "part") and isinstance(message, CarriesPart):
        return message.count(exp.problem.n) / exp.problem.n
    return None
