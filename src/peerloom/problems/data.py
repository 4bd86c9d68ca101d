"""Data sets: samples, labels, a held-out part; your own arrays, and the digits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from importlib.resources import files
from inspect import signature
from typing import Any, ParamSpec
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import ConfigError
from ..datasets import locations

__all__ = ["Dataset", "digits", "loaded_once", "part"]

P = ParamSpec("P")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples x [N, ...] with labels or real targets y [N, ...].

    Labels are whole numbers from 0 to classes - 1; where classes = 0, targets are real. Several of
    them for a sample (labels that may hold together, pixels, vectors) need a loss of your own.

    `test_x` and `test_y` are what models are judged on; without them, models are judged on the
    training samples. `owners`, where samples have one by nature (a hospital, a writer), numbers
    each training sample's owner from 0. With `of_site` the samples are those of one client alone,
    and there are none until its site brings them (see `own`).
    """

    x: NDArray[np.float32] = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    classes: int
    test_x: NDArray[np.float32] | None = field(default=None, repr=False)
    test_y: NDArray[Any] | None = field(default=None, repr=False)
    name: str = "data"
    recipe: Mapping[str, Any] = field(default_factory=dict)
    # known constants of synthetic sets, names
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    owners: NDArray[np.int64] | None = field(default=None, repr=False)
    of_site: bool = False

    def __post_init__(self) -> None:
        if self.of_site and not len(self.x):
            return
        for x, y, part in ((self.x, self.y, "x"), (self.test_x, self.test_y, "test_x")):
            if (x is None) != (y is None):
                raise ConfigError(
                    f"Dataset '{self.name}': give {part} and its labels together, or neither."
                )
            if x is None or y is None:
                continue
            if len(x) != len(y) or not len(x):
                raise ConfigError(
                    f"Dataset '{self.name}': {part} has {len(x)} samples and {len(y)} labels."
                )
            if not y.ndim or y.dtype.kind not in "iuf":
                raise ConfigError(
                    f"Dataset '{self.name}': labels must be numbers [samples, ...], found "
                    f"{y.dtype} {list(y.shape)}."
                )
            if not (_finite(x) and np.isfinite(y).all()):
                raise ConfigError(
                    f"Dataset '{self.name}': {part} or its labels hold NaN or infinite numbers. "
                    "Clean them first."
                )
            if self.classes and not ((y >= 0) & (y < self.classes)).all():
                raise ConfigError(
                    f"Dataset '{self.name}': labels run from {y.min()} to {y.max()}, but there "
                    f"are {self.classes} classes, numbered from 0."
                )

        if self.owners is not None and self.owners.shape != self.y.shape[:1]:
            raise ConfigError(
                f"Dataset '{self.name}': {len(self.owners)} owners for {len(self.y)} samples."
            )

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
            raise ConfigError(
                f"Dataset.of: labels must be numbers, found {labels.dtype}. Number the classes "
                "from 0."
            )
        whole = labels.dtype.kind in "biu"
        label_type = np.int64 if whole else np.float64
        held_out = None if test_y is None else np.asarray(test_y, label_type)
        classes = (
            int(max(labels.max(), -1 if held_out is None else held_out.max())) + 1 if whole else 0
        )
        test = None if test_x is None else np.asarray(test_x, np.float32)
        samples, numbered = np.asarray(x, np.float32), labels.astype(label_type)
        held_by = (
            None
            if owners is None
            else np.unique(np.asarray(owners), return_inverse=True)[1].astype(np.int64)
        )
        arrays = [
            array for array in (samples, numbered, test, held_out, held_by) if array is not None
        ]
        digest = hashlib.sha256(
            b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
        ).hexdigest()
        recipe = {"name": "arrays", "sha256": digest}
        return cls(samples, numbered, classes, test, held_out, "own", recipe, owners=held_by)


def loaded_once(load: Callable[P, Dataset]) -> Callable[P, Dataset]:
    """Return the same object for the same arguments while it is in use.

    So many experiments share one copy in memory.
    """
    alive: WeakValueDictionary[object, Dataset] = WeakValueDictionary()

    @wraps(load)
    def load_or_share(*args: P.args, **kwargs: P.kwargs) -> Dataset:
        called = signature(load).bind(*args, **kwargs)
        called.apply_defaults()
        key = (repr(called.arguments), tuple(locations()))
        data = alive.get(key)
        if data is None:
            data = alive[key] = load(*args, **kwargs)
        return data

    return load_or_share


def digits(test: float = 0.2) -> Dataset:
    """Hand-written digits: 1,797 images of 8 x 8, ten classes, pixels scaled to [0, 1].

    13 people wrote them. Every fifth image (for test = 0.2) is held out, class by class, so the
    split is the same everywhere. They come with Peerloom: `digits.txt` beside this file says from
    whom, and under which licence.
    """
    if not 0 < test < 1:
        raise ConfigError(f"digits.test is the share held out, above 0 and below 1; found {test}.")
    with (
        (files(__package__) / "digits.npz").open("rb") as raw,
        np.load(raw, allow_pickle=False) as file,
    ):
        x, y = (file["x"] / 16).astype(np.float32), file["y"].astype(np.int64)
    rank = np.empty(len(y), np.int64)
    for label in range(10):
        where = np.flatnonzero(y == label)
        rank[where] = np.arange(len(where))
    held = np.floor((rank + 1) * test) > np.floor(rank * test)
    return Dataset(
        x[~held], y[~held], 10, x[held], y[held], "digits", {"name": "digits", "test": test}
    )


@loaded_once
def part(of: Dataset, samples: int | None = None, test: int | None = None) -> Dataset:
    """So many of another data set's samples, and of those it is judged on, for runs that cost less.

    They are taken at equal distances, so that a file that is sorted by class gives all classes
    alike. Without a number all are taken. Facts that hold for all samples are left out.
    """
    x, y, owners = (
        None if array is None else _spread("samples", array, samples)
        for array in (of.x, of.y, of.owners)
    )
    test_x, test_y = (
        None if array is None else _spread("test", array, test) for array in (of.test_x, of.test_y)
    )
    if test is not None and test_x is None:
        raise ConfigError(
            f"part.test: '{of.name}' holds nothing out, models are judged on all samples. Leave "
            "test out."
        )
    assert x is not None
    assert y is not None
    recipe = {"name": "part", "of": dict(of.recipe), "samples": samples, "test": test}
    recipe = {key: value for key, value in recipe.items() if value is not None}
    return Dataset(x, y, of.classes, test_x, test_y, of.name, recipe, owners=owners)


def _spread(name: str, array: NDArray[Any], number: int | None) -> NDArray[Any]:
    if number is None:
        return array
    if not 1 <= number <= len(array):
        raise ConfigError(f"part.{name} must be from 1 to {len(array)} samples, found {number}.")
    return array[np.arange(number) * len(array) // number]


def _finite(x: NDArray[Any]) -> bool:
    """Whether all numbers are finite.

    Some thousand samples at a time, so that large data need no second copy of their size.
    """
    return all(bool(np.isfinite(x[at : at + 4096]).all()) for at in range(0, len(x), 4096))
