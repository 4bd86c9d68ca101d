"""Synthetic data sets: pure functions of a seed, with constants that are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from ..core import ConfigError, uniform
from .data import Dataset

__all__ = ["OnDemand", "blobs", "linear_regression", "logistic_regression"]

Floats = NDArray[np.float64]


class OnDemand(Mapping[str, Any]):
    """Facts that are computed when they are first asked for.

    Eigenvalues of ten thousand features take minutes, and most runs need none.
    """

    def __init__(self, **makers: Callable[[], Any]) -> None:
        self._makers = {name: cache(make) for name, make in makers.items()}

    def __getitem__(self, name: str) -> Any:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def blobs(
    samples: int = 1000,
    features: int = 10,
    classes: int = 5,
    spread: float = 1.0,
    distance: float = 4.0,
    seed: int = 0,
) -> Dataset:
    """Gaussian clouds, one per class.

    They have standard deviation `spread`, round random centres of length `distance`. A fifth as
    many samples again are held out. `facts` holds the centres.
    """
    if min(samples, features, classes) < 1:
        raise ConfigError(
            f"blobs needs samples, features and classes of at least 1; found {samples}, "
            f"{features}, {classes}."
        )
    centres = _normal(seed, "data/blobs/centres", classes, features)
    centres *= distance / np.linalg.norm(centres, axis=1, keepdims=True)
    total = samples + max(classes, samples // 5)
    y = np.arange(total) % classes
    x = (centres[y] + spread * _normal(seed, "data/blobs/noise", total, features)).astype(
        np.float32
    )
    recipe = {"name": "blobs", "samples": samples, "features": features, "classes": classes}
    recipe |= {"spread": spread, "distance": distance, "seed": seed}
    facts = {"centres": centres}
    return Dataset(
        x[:samples], y[:samples], classes, x[samples:], y[samples:], "blobs", recipe, facts
    )


def linear_regression(
    samples: int = 1000,
    features: int = 10,
    noise: float = 0.1,
    seed: int = 0,
    nonzero: float | None = None,
) -> Dataset:
    """y = <a, w*> + noise, with standard normal a and w*.

    With `nonzero`, that share of w* is uniform on [0.5, 2] or its negative and the rest 0: PaME's
    example 1 is nonzero = 0.01, noise = 0.5.

    `facts` holds w*, the exact minimiser on these samples, and the smoothness and strong convexity
    of the mean squared loss without a bias.
    """
    a, w, error = _regression_parts("linear", samples, features, seed, nonzero)
    y = a @ w + noise * error
    x = a.astype(np.float32)
    spectrum = cache(lambda: _spectrum(x))
    facts = OnDemand(
        w=lambda: w,
        solution=lambda: np.linalg.lstsq(x.astype(np.float64), y, rcond=None)[0],
        smoothness=lambda: spectrum()[-1],
        strong_convexity=lambda: spectrum()[0],
    )
    recipe = {
        "name": "linear_regression",
        "samples": samples,
        "features": features,
        "noise": noise,
        "seed": seed,
    }
    recipe |= {} if nonzero is None else {"nonzero": nonzero}
    return Dataset(x, y, 0, name="linear_regression", recipe=recipe, facts=facts)


def logistic_regression(
    samples: int = 1000, features: int = 10, seed: int = 0, nonzero: float | None = None
) -> Dataset:
    """Labels ~ Bernoulli(sigmoid(<a, w*>)), with standard normal a and w*.

    With `nonzero`, w* is sparse as in linear_regression: PaME's example 2 is nonzero = 0.5.

    `facts` holds w*, and the smoothness without l2.
    """
    a, w, _ = _regression_parts("logistic", samples, features, seed, nonzero)
    coin = uniform(seed, "data/logistic/label", 0, np.arange(samples))[:, 0]
    y = (coin < expit(a @ w)).astype(np.int64)
    x = a.astype(np.float32)
    facts = OnDemand(w=lambda: w, smoothness=lambda: _spectrum(x)[-1] / 4)
    recipe = {"name": "logistic_regression", "samples": samples, "features": features, "seed": seed}
    recipe |= {} if nonzero is None else {"nonzero": nonzero}
    return Dataset(x, y, 2, name="logistic_regression", recipe=recipe, facts=facts)


def _spectrum(x: NDArray[np.float32]) -> Floats:
    """Eigenvalues of A'A / samples, in rising order."""
    a = x.astype(np.float64)
    return np.asarray(np.linalg.eigvalsh(a.T @ a / len(a)), np.float64)


def _regression_parts(
    name: str, samples: int, features: int, seed: int, nonzero: float | None
) -> tuple[Floats, Floats, Floats]:
    # what is trained on
    a = _normal(seed, f"data/{name}/a", samples, features).astype(np.float32).astype(np.float64)
    w = (
        _normal(seed, f"data/{name}/w", 1, features)[0]
        if nonzero is None
        else _sparse(name, features, seed, nonzero)
    )
    return a, w, _normal(seed, f"data/{name}/noise", samples, 1)[:, 0]


def _sparse(name: str, features: int, seed: int, nonzero: float) -> Floats:
    """A sparse vector: a share of its entries, one at least, of size from 0.5 to 2."""
    if not 0 < nonzero <= 1:
        raise ConfigError(
            f"{name}_regression.nonzero is a share, above 0 and at most 1; found {nonzero}."
        )
    place, size, sign = uniform(seed, f"data/{name}/truth", 0, np.arange(features), lanes=3).T
    w = np.asarray(np.where(sign < 0.5, -1, 1) * (0.5 + 1.5 * size), np.float64)
    w[np.argsort(place)[max(1, round(nonzero * features)) :]] = 0
    return w


def _normal(seed: int, stream: str, count: int, width: int) -> Floats:
    u = uniform(seed, stream, 0, np.arange(count), lanes=width)
    return np.asarray(ndtri(np.maximum(u, 2.0**-54, out=u), out=u), np.float64)
