"""Public data sets of images, read from files on this machine.

`peerloom data get` fetches them. Pixels become one float32 array [samples, channels, height,
width], held once for all clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError
from ..datasets import read
from .data import Dataset, loaded_once

__all__ = ["cifar10", "emnist_letters", "fashion_mnist", "mnist", "mnist_writers"]

Scale = Literal["standard", "unit", "mnist", "half", "raw"]

# Mean and standard deviation of all training pixels, scaled to [0, 1]; for colours one of each.
_STATISTICS: dict[str, tuple[Any, Any]] = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "emnist-letters": (0.1722, 0.3309),
    "fashion-mnist": (0.2860, 0.3530),
    "mnist": (0.1307, 0.3081),
}


@loaded_once
def fashion_mnist(scale: Scale = "standard", path: str | None = None) -> Dataset:
    """Fashion-MNIST: 60,000 and 10,000 grey images of clothes, 28 x 28, ten classes.

    scale  "standard": minus the mean of the training pixels, over their deviation, both constants;
           "unit": [0, 1]; "mnist": by MNIST's constants, as DSpodFL's code does; "half": [-1, 1];
           "raw": 0 to 255
    path   the folder with the files, where they are not in one of the usual places
    """
    return _grey("fashion-mnist", scale, path)


@loaded_once
def mnist(scale: Scale = "standard", low: bool = False, path: str | None = None) -> Dataset:
    """MNIST: 60,000 and 10,000 hand-written digits, grey, 28 x 28.

    With `low` there are two classes, 1 for the digits 0 to 4 and 0 for 5 to 9, as in MLL-SGD's
    logistic regression. scale and path as for fashion_mnist.
    """
    data = _grey("mnist", scale, path)
    if not low:
        return data
    y, test_y = (
        (labels < 5).astype(np.int64) for labels in (data.y, data.test_y) if labels is not None
    )
    return Dataset(data.x, y, 2, data.test_x, test_y, data.name, {**data.recipe, "low": True})


@loaded_once
def emnist_letters(scale: Scale = "standard", path: str | None = None) -> Dataset:
    """EMNIST's letters: 124,800 and 20,800 grey images of 28 x 28, 26 classes from a to z.

    Images lie as in the files (and in torchvision), with rows and columns exchanged. The files
    number letters from 1; for heads with an unused output for 0, as in DEPOSITUM's counts, set
    `outputs = 27` in Classification. scale and path as for fashion_mnist.
    """
    return _grey("emnist-letters", scale, path, first=1)


@loaded_once
def mnist_writers(
    writers: int | None = None, scale: Scale = "standard", path: str | None = None
) -> Dataset:
    """MNIST's digits, owned by the 539 people who wrote the training part.

    For the partition Natural. `writers` keeps the first so many people, in the order of QMNIST's
    numbers. None of them wrote any of the 10,000 test digits. scale and path as for fashion_mnist.
    """
    data = mnist(scale, path=path)
    (columns,) = read("mnist-writers", path).values()
    people, owners = np.unique(columns[:, 2], return_inverse=True)
    if writers is not None and not 1 <= writers <= len(people):
        raise ConfigError(f"mnist-writers.writers must be 1 to {len(people)}, found {writers}.")
    kept = slice(None) if writers is None else np.flatnonzero(owners < writers)
    recipe = _recipe("mnist-writers", {"writers": writers, "scale": scale, "path": path})
    names = {"owners": [str(person) for person in people[:writers]]}
    arrays = data.x[kept], data.y[kept], 10, data.test_x, data.test_y
    return Dataset(*arrays, "mnist-writers", recipe, names, owners[kept].astype(np.int64))


@loaded_once
def cifar10(scale: Scale = "standard", path: str | None = None) -> Dataset:
    """CIFAR-10: 50,000 and 10,000 colour photographs, 3 x 32 x 32, ten classes.

    `scale` and `path` are as for fashion_mnist.
    """
    *train, test = read("cifar10", path).values()
    x = np.empty((len(train) * 10_000, 3, 32, 32), np.float32)
    y = np.concatenate([records[:, 0] for records in train]).astype(np.int64)
    for k, records in enumerate(train):
        _scaled(_photographs(records), "cifar10", scale, x[k * 10_000 : (k + 1) * 10_000])
    test_x = _scaled(_photographs(test), "cifar10", scale)
    recipe = _recipe("cifar10", {"scale": scale, "path": path})
    return Dataset(x, y, 10, test_x, test[:, 0].astype(np.int64), "cifar10", recipe)


def _photographs(records: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return records[:, 1:].reshape(-1, 3, 32, 32)


def _grey(name: str, scale: Scale, path: str | None, first: int = 0) -> Dataset:
    images, labels, test_images, test_labels = read(name, path).values()
    y, test_y = (array.astype(np.int64) - first for array in (labels, test_labels))
    x, test_x = (_scaled(array[:, None], name, scale) for array in (images, test_images))
    recipe = _recipe(name, {"scale": scale, "path": path})
    return Dataset(x, y, int(y.max()) + 1, test_x, test_y, name, recipe)


def _scaled(
    pixels: NDArray[np.uint8], name: str, scale: Scale, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """The pixels as float32, scaled in place, so that there is never a second copy."""
    out = np.empty(pixels.shape, np.float32) if out is None else out
    out[...] = pixels
    if scale != "raw":
        out /= 255
    statistics = {"standard": _STATISTICS[name], "mnist": _STATISTICS["mnist"], "half": (0.5, 0.5)}
    if scale in statistics:
        mean, deviation = (
            np.reshape(np.float32(number), (-1, 1, 1)) for number in statistics[scale]
        )
        out -= mean
        out /= deviation
    return out


def _recipe(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name} | {key: value for key, value in given.items() if value is not None}
