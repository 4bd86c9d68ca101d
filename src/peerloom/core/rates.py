"""Step sizes that change with the round. A rule takes a number or one of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..errors import ConfigError

__all__ = ["HasRate", "InverseSqrt", "Pieces", "Rate", "check_rate", "rate_at"]


@runtime_checkable
class Rate(Protocol):
    """A step size as a function of the round, counted from 1."""

    def at(self, t: int) -> float:
        """The step size of round t."""


LARGEST = 1e30  # a step size beyond this fits no float32


class HasRate(Protocol):
    """Any rule with a step size."""

    @property
    def lr(self) -> float | Rate:
        """The step size."""


@dataclass(frozen=True)
class InverseSqrt:
    """start / sqrt(1 + k / gamma) with k = t - 1: DSpodFL's diminishing step.

    >>> round(InverseSqrt(start=0.1, gamma=100).at(301), 3)
    0.05
    """

    start: float
    gamma: float

    def __post_init__(self) -> None:
        if self.start <= 0 or self.gamma <= 0:
            raise ConfigError(
                f"InverseSqrt needs start > 0 and gamma > 0, found {self.start} and {self.gamma}."
            )

    def at(self, t: int) -> float:
        """The step size of round t."""
        return float(self.start * (1 + max(t - 1, 0) / self.gamma) ** -0.5)


@dataclass(frozen=True)
class Pieces:
    """rates[i] from round starts[i] on, until the next start.

    >>> Pieces(rates=(0.1, 0.01), starts=(1, 100)).at(150)
    0.01
    """

    rates: tuple[float, ...]
    starts: tuple[int, ...]

    def __post_init__(self) -> None:
        rising = list(self.starts) == sorted(set(self.starts))
        if len(self.rates) != len(self.starts) or not self.rates or not rising:
            raise ConfigError(
                "Pieces needs as many rates as starts, and rising starts; "
                f"found {self.rates} and {self.starts}."
            )
        if min(self.rates) <= 0:
            raise ConfigError(f"Pieces needs rates above 0, found {min(self.rates)}.")

    def at(self, t: int) -> float:
        """The step size of round t."""
        t = max(t, self.starts[0])
        pieces = zip(self.rates, self.starts, strict=True)
        return [rate for rate, start in pieces if start <= t][-1]


def rate_at(lr: float | Rate, t: int) -> float:
    """The step size of round t, whether it is a number or changes."""
    # Asked in every round, and isinstance of a protocol is slow.
    return lr.at(t) if hasattr(lr, "at") else float(lr)


def check_rate(rule: HasRate) -> None:
    """Refuse a step size that cannot work."""
    if not isinstance(rule.lr, Rate) and not 0 < rule.lr <= LARGEST:
        raise ConfigError(
            f"{type(rule).__name__}.lr must be a number above 0 (and at most {LARGEST:g}) "
            f"or a rate such as InverseSqrt; found {rule.lr}."
        )
