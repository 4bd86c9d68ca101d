"""Distributions that the probabilities of clients and links are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, log_ndtr, ndtri_exp

from ..arguments import checked
from ..core import ConfigError

__all__ = [
    "DISTRIBUTIONS",
    "Beta",
    "BimodalTruncatedNormal",
    "Distribution",
    "TruncatedNormal",
    "Uniform",
]

Floats = NDArray[np.float64]


@runtime_checkable
class Distribution(Protocol):
    """A distribution on [0, 1]."""

    def sample(self, u: Floats) -> Floats:
        """Values from uniforms u [k, 2]: two per value, so that mixtures can use one to choose."""


@checked
@dataclass(frozen=True)
class Beta:
    """Beta(a, b). With a, b < 1 most probabilities lie near 0 or near 1.

    >>> Beta(0.5, 0.5).sample(np.array([[0.25, 0.0]])).round(4).tolist()
    [0.1464]
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        if not (self.a > 0 and self.b > 0):
            raise ConfigError(f"Beta needs a > 0 and b > 0, found {self.a} and {self.b}.")

    def sample(self, u: Floats) -> Floats:
        """By the inverse of the distribution function."""
        return np.asarray(betaincinv(self.a, self.b, u[:, 0]), np.float64)


@checked
@dataclass(frozen=True)
class Uniform:
    """Uniform on (low, high]."""

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise ConfigError(
                f"Uniform needs 0 <= low <= high <= 1, found {self.low} and {self.high}."
            )

    def sample(self, u: Floats) -> Floats:
        """The draws leave out 1, so counting down from `high` leaves out `low`."""
        return self.high - (self.high - self.low) * u[:, 0]


@checked
@dataclass(frozen=True)
class TruncatedNormal:
    """Normal(mean, std) conditioned on [0, 1]; mean and std are those before the cut."""

    mean: float
    std: float

    def __post_init__(self) -> None:
        if not self.std > 0:
            raise ConfigError(f"TruncatedNormal needs std > 0, found {self.std}.")

    def sample(self, u: Floats) -> Floats:
        """By the inverse of the distribution function."""
        # In logarithms and in the lower tail: far from the mean, the distribution function itself
        # rounds to 0 or 1.
        side = -1 if self.mean < 0.5 else 1
        low, high = (
            log_ndtr(end) for end in sorted(side * (end - self.mean) / self.std for end in (0, 1))
        )
        v = u[:, 0] if side > 0 else 1 - u[:, 0]
        with np.errstate(divide="ignore"):
            chance = np.logaddexp(low, np.log(v) + high + np.log1p(-np.exp(low - high)))
        return np.asarray(np.clip(self.mean + side * self.std * ndtri_exp(chance), 0, 1))


@checked
@dataclass(frozen=True)
class BimodalTruncatedNormal:
    """One of two truncated normals, with equal chance (DSpodFL, Figure 4b: mu and 1 - mu)."""

    mean1: float
    mean2: float
    std: float = 0.1

    def __post_init__(self) -> None:
        if not self.std > 0:
            raise ConfigError(f"BimodalTruncatedNormal needs std > 0, found {self.std}.")

    def sample(self, u: Floats) -> Floats:
        """The second uniform chooses the mode."""
        first, second = (
            TruncatedNormal(mean, self.std).sample(u) for mean in (self.mean1, self.mean2)
        )
        return np.where(u[:, 1] < 0.5, first, second)


DISTRIBUTIONS: dict[str, type[Distribution]] = {
    "Beta": Beta,
    "BimodalTruncatedNormal": BimodalTruncatedNormal,
    "TruncatedNormal": TruncatedNormal,
    "Uniform": Uniform,
}
