"""Data sets: samples, labels, and a held-out part. What is here needs no download."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtri

from ..core import ConfigError, uniform
from ..datasets import places

__all__ = ["Dataset", "blobs", "digits", "linear_regression", "loaded_once", "logistic_regression"]

P = ParamSpec("P")

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples x [N, ...] with labels (whole numbers 0 to classes - 1) or, where classes = 0, real targets y [N].

    `test_x` and `test_y` are what models are judged on; without them, models are judged on the training samples. `owners`,
    where samples have one by nature (a hospital, a writer), numbers each training sample's owner from 0.
    """

    x: NDArray[np.float32] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    classes: int
    test_x: NDArray[np.float32] | None = field(default=None, repr=False)
    test_y: NDArray[Any] | None = field(default=None, repr=False)
    name: str = "data"
    recipe: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)  # known constants of synthetic sets, names
    owners: NDArray[np.int64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for x, y, part in ((self.x, self.y, "x"), (self.test_x, self.test_y, "test_x")):
            if (x is None) != (y is None):
                raise ConfigError(f"Dataset '{self.name}': give {part} and its labels together, or neither.")
            if x is None or y is None:
                continue
            if len(x) != len(y) or not len(x):
                raise ConfigError(f"Dataset '{self.name}': {part} has {len(x)} samples and {len(y)} labels.")
            if y.ndim != 1 or y.dtype.kind not in "iuf":
                raise ConfigError(
                    f"Dataset '{self.name}': labels must be numbers [samples], found {y.dtype} {list(y.shape)}."
                )
            if not (_finite(x) and np.isfinite(y).all()):
                raise ConfigError(
                    f"Dataset '{self.name}': {part} or its labels hold NaN or infinite numbers. Clean them first."
                )
            if self.classes and not ((y >= 0) & (y < self.classes)).all():
                raise ConfigError(
                    f"Dataset '{self.name}': labels run from {y.min()} to {y.max()}, but there are {self.classes} classes, "
                    f"numbered from 0."
                )

        if self.owners is not None and self.owners.shape != self.y.shape:
            raise ConfigError(f"Dataset '{self.name}': {len(self.owners)} owners for {len(self.y)} samples.")

    @classmethod
    def of(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        test_x: ArrayLike | None = None,
        test_y: ArrayLike | None = None,
        owners: ArrayLike | None = None,
    ) -> Dataset:
        """Your own arrays. Whole-number labels make a classification, anything else a regression.

        With `owners`, a number for each sample, the partition Natural gives every owner a client.
        """
        labels = np.asarray(y)
        if labels.dtype.kind not in "biuf":
            raise ConfigError(f"Dataset.of: labels must be numbers, found {labels.dtype}. Number the classes from 0.")
        whole = labels.dtype.kind in "biu"
        label_type = np.int64 if whole else np.float64
        held_out = None if test_y is None else np.asarray(test_y, label_type)
        classes = int(max(labels.max(), -1 if held_out is None else held_out.max())) + 1 if whole else 0
        test = None if test_x is None else np.asarray(test_x, np.float32)
        samples, numbered = np.asarray(x, np.float32), labels.astype(label_type)
        held_by = None if owners is None else np.unique(np.asarray(owners), return_inverse=True)[1].astype(np.int64)
        arrays = [array for array in (samples, numbered, test, held_out, held_by) if array is not None]
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()
        recipe = {"name": "own", "sha256": digest}
        return cls(samples, numbered, classes, test, held_out, "own", recipe, owners=held_by)


def loaded_once(load: Callable[P, Dataset]) -> Callable[P, Dataset]:
    """Give the same object for the same arguments as long as someone uses it: many experiments, one copy in memory."""
    alive: WeakValueDictionary[object, Dataset] = WeakValueDictionary()

    @wraps(load)
    def load_or_share(*args: P.args, **kwargs: P.kwargs) -> Dataset:
        called = signature(load).bind(*args, **kwargs)
        called.apply_defaults()
        key = (tuple(called.arguments.items()), tuple(places()))
        data = alive.get(key)
        if data is None:
            data = alive[key] = load(*args, **kwargs)
        return data

    return load_or_share


def digits(test: float = 0.2) -> Dataset:
    """scikit-learn's hand-written digits: 1,797 images of 8 x 8, ten classes, pixels scaled to [0, 1].

    Every fifth image (for test = 0.2) is held out, class by class, so the split is the same everywhere.
    """
    from sklearn.datasets import load_digits

    if not 0 < test < 1:
        raise ConfigError(f"digits.test is the share held out, above 0 and below 1; found {test}.")
    bunch = load_digits()
    x, y = (bunch.data / 16).astype(np.float32), bunch.target.astype(np.int64)
    rank = np.empty(len(y), np.int64)
    for label in range(10):
        where = np.flatnonzero(y == label)
        rank[where] = np.arange(len(where))
    held = np.floor((rank + 1) * test) > np.floor(rank * test)
    return Dataset(x[~held], y[~held], 10, x[held], y[held], "digits", {"name": "digits", "test": test})


def blobs(
    samples: int = 1000, features: int = 10, classes: int = 5, spread: float = 1.0, distance: float = 4.0, seed: int = 0
) -> Dataset:
    """Gaussian clouds of standard deviation `spread` round random centres of length `distance`, one per class.

    A fifth as many samples again are held out. facts: the centres.
    """
    if min(samples, features, classes) < 1:
        raise ConfigError(
            f"blobs needs samples, features and classes of at least 1; found {samples}, {features}, {classes}."
        )
    centres = _normal(seed, "data/blobs/centres", classes, features)
    centres *= distance / np.linalg.norm(centres, axis=1, keepdims=True)
    total = samples + max(classes, samples // 5)
    y = np.arange(total) % classes
    x = (centres[y] + spread * _normal(seed, "data/blobs/noise", total, features)).astype(np.float32)
    recipe = {"name": "blobs", "samples": samples, "features": features, "classes": classes}
    recipe |= {"spread": spread, "distance": distance, "seed": seed}
    facts = {"centres": centres}
    return Dataset(x[:samples], y[:samples], classes, x[samples:], y[samples:], "blobs", recipe, facts)


def linear_regression(
    samples: int = 1000, features: int = 10, noise: float = 0.1, seed: int = 0, nonzero: float | None = None
) -> Dataset:
    """Y = <a, w*> + noise with standard normal a and w*. facts: w*, and the exact minimiser on these samples.

    With `nonzero`, that share of w* is uniform on [0.5, 2] or its negative and the rest 0: PaME's example 1 is
    nonzero = 0.01, noise = 0.5.

    facts also holds the smoothness and strong convexity of the mean squared loss without a bias: the extreme eigenvalues
    of A'A / samples.
    """
    a, w, error = _regression_parts("linear", samples, features, seed, nonzero)
    y = a @ w + noise * error
    spectrum = np.linalg.eigvalsh(a.T @ a / samples)
    solution = np.linalg.lstsq(a, y, rcond=None)[0]
    facts = {"w": w, "solution": solution, "smoothness": spectrum[-1], "strong_convexity": spectrum[0]}
    recipe = {"name": "linear_regression", "samples": samples, "features": features, "noise": noise, "seed": seed}
    recipe |= {} if nonzero is None else {"nonzero": nonzero}
    return Dataset(a.astype(np.float32), y, 0, name="linear_regression", recipe=recipe, facts=facts)


def logistic_regression(samples: int = 1000, features: int = 10, seed: int = 0, nonzero: float | None = None) -> Dataset:
    """Labels ~ Bernoulli(sigmoid(<a, w*>)) with standard normal a and w*. facts: w*, and the smoothness without l2.

    With `nonzero`, w* is sparse as in linear_regression: PaME's example 2 is nonzero = 0.5.
    """
    a, w, _ = _regression_parts("logistic", samples, features, seed, nonzero)
    coin = uniform(seed, "data/logistic/label", 0, np.arange(samples))[:, 0]
    y = (coin < expit(a @ w)).astype(np.int64)
    facts = {"w": w, "smoothness": np.linalg.eigvalsh(a.T @ a / samples)[-1] / 4}
    recipe = {"name": "logistic_regression", "samples": samples, "features": features, "seed": seed}
    recipe |= {} if nonzero is None else {"nonzero": nonzero}
    return Dataset(a.astype(np.float32), y, 2, name="logistic_regression", recipe=recipe, facts=facts)


def _regression_parts(
    name: str, samples: int, features: int, seed: int, nonzero: float | None
) -> tuple[Floats, Floats, Floats]:
    a = _normal(seed, f"data/{name}/a", samples, features).astype(np.float32).astype(np.float64)  # what is trained on
    w = _normal(seed, f"data/{name}/w", 1, features)[0] if nonzero is None else _sparse(name, features, seed, nonzero)
    return a, w, _normal(seed, f"data/{name}/noise", samples, 1)[:, 0]


def _sparse(name: str, features: int, seed: int, nonzero: float) -> Floats:
    """A vector with this share of its entries, one at least, uniform on [0.5, 2] or its negative."""
    if not 0 < nonzero <= 1:
        raise ConfigError(f"{name}_regression.nonzero is a share, above 0 and at most 1; found {nonzero}.")
    place, size, sign = uniform(seed, f"data/{name}/truth", 0, np.arange(features), lanes=3).T
    w = np.asarray(np.where(sign < 0.5, -1, 1) * (0.5 + 1.5 * size), np.float64)
    w[np.argsort(place)[max(1, round(nonzero * features)) :]] = 0
    return w


def _normal(seed: int, stream: str, count: int, width: int) -> Floats:
    u = uniform(seed, stream, 0, np.arange(count), lanes=width)
    return np.asarray(ndtri(np.maximum(u, 2.0**-54)), np.float64)


def _finite(x: NDArray[Any]) -> bool:
    """Whether all numbers are, some thousand samples at a time, so that large data need no second copy of their size."""
    return all(bool(np.isfinite(x[at : at + 4096]).all()) for at in range(0, len(x), 4096))
