"""Step sizes that change with the round. A rule takes a number or one of these."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..arguments import checked
from ..errors import ConfigError
from .per_client import check_entries, is_number

__all__ = [
    "Cosine", "HasRate", "InverseSqrt", "Pieces", "Rate", "Rates", "Warmup", "check_rate",
    "check_rates", "largest_rate", "rate_at", "rates_at",
]  # fmt: skip


@runtime_checkable
class Rate(Protocol):
    """A step size as a function of the round, counted from 1."""

    def at(self, t: int) -> float:
        """The step size of round t."""


LARGEST = 1e30  # a step size beyond this fits no float32
_MOST = 100_000  # rounds that are asked for their step size, where the largest is wanted


class HasRate(Protocol):
    """Any rule with a step size."""

    @property
    def lr(self) -> float | Rate:
        """The step size."""


Rates = float | Rate | tuple[float | Rate, ...]
"""A step size of all clients, or one of each; every one of them a number or a rate."""


@checked
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


@checked
@dataclass(frozen=True)
class Pieces:
    """rates[i] from round starts[i] on, until the next start: a step size that falls in steps.

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


@checked
@dataclass(frozen=True)
class Cosine:
    """end + (start - end) (1 + cos(pi k / rounds)) / 2 with k = t - 1: down half a cosine.

    From round `rounds` + 1 on it is `end`. Rules with several local steps in a round take all of
    them at the rate of the round.

    >>> [round(Cosine(start=0.1, rounds=4).at(t), 3) for t in (1, 3, 5, 9)]
    [0.1, 0.05, 0.0, 0.0]
    """

    start: float
    rounds: int
    end: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.end < self.start <= LARGEST:
            raise ConfigError(
                f"Cosine falls from start to end, which is at least 0 and below it; found start "
                f"{self.start} and end {self.end}."
            )
        if self.rounds < 1:
            raise ConfigError(f"Cosine.rounds must be at least 1 round, found {self.rounds}.")

    def at(self, t: int) -> float:
        """The step size of round t."""
        k = min(max(t - 1, 0), self.rounds)
        return self.end + (self.start - self.end) * (1 + math.cos(math.pi * k / self.rounds)) / 2


@checked
@dataclass(frozen=True)
class Warmup:
    """A line up to the first value of another rate in `rounds` rounds; then that rate.

        then(1) t / rounds   for t = 1 ... rounds,   then(t - rounds) afterwards

    `then` is a number or a rate, which counts its rounds from the end of the warm-up on.

    >>> rate = Warmup(rounds=4, then=Cosine(start=0.1, rounds=10))
    >>> [round(rate.at(t), 3) for t in (1, 2, 4, 5, 10, 15)]
    [0.025, 0.05, 0.1, 0.1, 0.05, 0.0]
    """

    rounds: int
    then: float | Rate

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ConfigError(f"Warmup.rounds must be at least 1 round, found {self.rounds}.")
        if not _works(self.then):
            raise ConfigError(
                f"Warmup.then must be a number above 0 (and at most {LARGEST:g}) or a rate such as "
                f"Cosine; found {self.then}."
            )

    def at(self, t: int) -> float:
        """The step size of round t."""
        if t <= self.rounds:
            return rate_at(self.then, 1) * (max(t, 1) / self.rounds)
        return rate_at(self.then, t - self.rounds)


def rate_at(lr: float | Rate, t: int) -> float:
    """The step size of round t, whether it is a number or changes."""
    # Asked in every round, and isinstance of a protocol is slow.
    return lr.at(t) if hasattr(lr, "at") else float(lr)


def rates_at(lr: Rates, t: int) -> float | list[float]:
    """The step size of round t, or those of all clients where each has its own.

    >>> rates_at((0.1, Pieces(rates=(0.2, 0.02), starts=(1, 100))), 150)
    [0.1, 0.02]
    """
    return [rate_at(own, t) for own in lr] if isinstance(lr, tuple) else rate_at(lr, t)


def largest_rate(lr: Rates, rounds: int) -> float:
    """The largest step size of any client in so many rounds; the first 100 000 are looked at.

    >>> largest_rate((0.1, Warmup(rounds=10, then=0.3)), rounds=5)
    0.15
    """
    each = lr if isinstance(lr, tuple) else (lr,)
    looked_at = range(1, min(max(rounds, 1), _MOST) + 1)
    return max(max(map(one.at, looked_at)) if isinstance(one, Rate) else float(one) for one in each)


def check_rate(rule: HasRate) -> None:
    """Refuse a step size that cannot work."""
    if not _works(rule.lr):
        raise ConfigError(
            f"{type(rule).__name__}.lr must be a number above 0 (and at most {LARGEST:g}) "
            f"or a rate such as InverseSqrt; found {rule.lr}."
        )


def check_rates(rule: object) -> None:
    """Refuse step sizes `lr` that cannot work."""
    wanted = f"a number above 0 (and at most {LARGEST:g}) or a rate such as InverseSqrt"
    check_entries(rule, "lr", _works, wanted)


def _works(lr: Any) -> bool:
    return isinstance(lr, Rate) or (is_number(lr, most=LARGEST) and lr > 0)
