"""What theory asks rules and messages about themselves."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ..core import Rule
from ..experiment import Experiment

__all__ = ["CarriesPart", "carried_share", "family_of", "mixings_of"]


@runtime_checkable
class CarriesPart(Protocol):
    """A message that carries some coordinates as they were sent, and says how many."""

    def count(self, n: int) -> int:
        """How many of n coordinates travel."""


def family_of(rule: Rule) -> str | None:
    """Whose theorems speak of the rule; None where it names no family."""
    return getattr(rule, "family", None)


def mixings_of(rule: Rule) -> int:
    """How often a rule mixes its models in a round; once, where it does not say otherwise."""
    return int(getattr(rule, "mixings", 1))


def carried_share(exp: Experiment) -> float | None:
    """The share of a row's coordinates that a message carries.

    None where it alters them instead.
    """
    message = exp.message
    if message.fit == "whole":
        return 1.0
    if message.fit in ("paired", "part") and isinstance(message, CarriesPart):
        return message.count(exp.problem.n) / exp.problem.n
    return None
