"""What a theorem says, what is true, and whether the theorem applies."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Bound"]


@dataclass(frozen=True)
class Bound:
    """One quantity of a paper.

    printed  the formula's value, as the paper prints it; None where the formula has none
    truth    the numerical truth, or the corrected formula; None where there is none
    holds    whether the paper's assumptions hold here
    why      what fails, or what a reader should know; never empty where `holds` is false or a value
             is missing

    It may be infinite, which is an answer, but never a silent NaN.
    """

    printed: float | None
    truth: float | None
    holds: bool
    why: str = ""

    def __post_init__(self) -> None:
        for name in ("printed", "truth"):
            value = getattr(self, name)
            if value is not None:
                if math.isnan(value):
                    raise ValueError(f"Bound.{name} is not a number. Say None, and why.")
                object.__setattr__(self, name, float(value))
        if not self.why and (not self.holds or self.printed is None):
            raise ValueError("A bound that does not hold, or has no printed value, must say why.")

    @property
    def best(self) -> float | None:
        """The truth where it is known, else what is printed."""
        return self.printed if self.truth is None else self.truth
