"""Arrays by name and rows: where the numbers of a message lie in a client's vector."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import ConfigError

__all__ = ["Arrays", "arrays_of"]

Floats = NDArray[np.floating[Any]]


class Arrays(NamedTuple):
    """Names, shapes and types of a model's arrays, in the order in which they are sent.

    >>> layout, row = arrays_of([np.ones((2, 3), np.float32), np.zeros(2)], "first")
    >>> layout.names, layout.n, row.tolist()
    (('0', '1'), 8, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype[Any], ...]

    @property
    def n(self) -> int:
        """Numbers of a model."""
        return sum(map(math.prod, self.shapes))

    @property
    def digest(self) -> str:
        """A hash of names, shapes and types, in their order."""
        lines = (f"{name} {shape} {dtype}" for name, shape, dtype in zip(*self, strict=True))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    def of_row(self, row: Tensor) -> list[Floats]:
        """A row [n] as arrays of their own types; copies, which an app may change."""
        cuts = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        parts = np.split(row.numpy(force=True), cuts)
        return [
            part.astype(dtype).reshape(shape)
            for part, shape, dtype in zip(parts, self.shapes, self.dtypes, strict=True)
        ]

    def row(self, found: Sequence[Floats], dtype: torch.dtype) -> Tensor:
        """Arrays of these shapes as a row [n]."""
        flat = [torch.from_numpy(np.array(one)).flatten().to(dtype) for one in found]
        return torch.cat(flat)


def arrays_of(given: Any, whose: str) -> tuple[Arrays, Tensor]:
    """The layout of arrays by name, or of a list of arrays, and their numbers in float64.

    Refuses what cannot be mixed: arrays that hold anything but real numbers.
    """
    if isinstance(given, Mapping):
        named = {str(name): _array(value, str(name), whose) for name, value in given.items()}
    elif isinstance(given, Sequence) and not isinstance(given, str):
        named = {str(k): _array(value, str(k), whose) for k, value in enumerate(given)}
    else:
        raise ConfigError(
            f"{whose} gave {type(given).__name__}. Give what the app's server sends first: an "
            "ArrayRecord, a state_dict, arrays by name, or a list of arrays."
        )
    found = list(named.values())
    layout = Arrays(
        tuple(named), tuple(one.shape for one in found), tuple(one.dtype for one in found)
    )
    if not layout.n:
        raise ConfigError(f"{whose} gave no numbers, so there is nothing to train.")
    return layout, layout.row(found, torch.float64)


def _array(value: Any, name: str, whose: str) -> NDArray[Any]:
    if isinstance(value, Tensor):
        kind, real = str(value.dtype).removeprefix("torch."), value.is_floating_point()
        real = real and value.dtype != torch.bfloat16  # which no array of NumPy can hold
        array = value.numpy(force=True) if real else np.zeros(0)
    else:
        array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
        kind, real = str(array.dtype), array.dtype.kind == "f"
    if not real:
        raise ConfigError(
            f"{whose} gave array '{name}' of {kind}, and only real numbers (float16 to float64) "
            "can be mixed. Send the others not at all: they may stay in the app's context.state."
        )
    return array
