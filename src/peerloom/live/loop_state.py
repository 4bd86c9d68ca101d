"""What a loop says of itself as bytes, without pickle: reading it runs no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import CheckpointError, ConfigError
from ..core.tensor_file import lay_out, read_header, read_tensors

__all__ = ["from_bytes", "to_bytes"]

_KEY = "loop"


def to_bytes(state: Mapping[str, Any]) -> bytes:
    """Numbers, texts, lists, tuples, dictionaries, arrays and tensors as one safetensors file.

    >>> from_bytes(to_bytes({"epoch": 3, "at": (1, 2.5), "rng": torch.arange(3)}))
    {'epoch': 3, 'at': (1, 2.5), 'rng': tensor([0, 1, 2])}
    """
    arrays: list[NDArray[np.uint8]] = []
    text = json.dumps(_plain(dict(state), "opt.checkpoint", arrays))
    parts = lay_out({str(k): [array] for k, array in enumerate(arrays)}, {_KEY: text})
    return b"".join(parts)


def from_bytes(data: bytes) -> dict[str, Any]:
    """What `to_bytes` was given; tensors are in host memory."""
    try:
        header, _ = read_header(memoryview(data))
        arrays = read_tensors(memoryview(data))
        found: dict[str, Any] = _value(json.loads(header["__metadata__"][_KEY]), arrays)
    except (KeyError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"What the loop said of itself cannot be read from the checkpoint ({error!r}). It was "
            "written by another version; begin the run anew."
        ) from error
    return found


def _plain(value: Any, where: str, arrays: list[NDArray[np.uint8]]) -> Any:
    """A value as JSON: containers and tensors are lists that begin with their kind."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return [kind, *(_plain(one, f"{where}[{k}]", arrays) for k, one in enumerate(value))]
    if isinstance(value, Mapping):
        return ["dict", *(_entry(key, one, where, arrays) for key, one in value.items())]
    if isinstance(value, Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        arrays.append(flat.copy())  # the loop goes on with its own
        name = str(value.dtype).removeprefix("torch.")
        return ["tensor", len(arrays) - 1, name, list(value.shape)]
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        array = np.array(value)
        arrays.append(array.reshape(-1).view(np.uint8))
        return ["array", len(arrays) - 1, array.dtype.str, list(array.shape)]
    raise ConfigError(
        f"{where} is {type(value).__name__}, which a checkpoint cannot hold. Give numbers, texts, "
        "lists, dictionaries and tensors, such as what state_dict() returns."
    )


def _entry(key: Any, value: Any, where: str, arrays: list[NDArray[np.uint8]]) -> list[Any]:
    if not isinstance(key, str | int):
        raise ConfigError(
            f"{where} has a key of type {type(key).__name__}. Keys are texts or whole numbers."
        )
    return [key, _plain(value, f"{where}[{key!r}]", arrays)]


def _value(found: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if not isinstance(found, list):
        return found
    kind, *rest = found
    if kind == "list":
        return [_value(one, arrays) for one in rest]
    if kind == "tuple":
        return tuple(_value(one, arrays) for one in rest)
    if kind == "dict":
        return {key: _value(one, arrays) for key, one in rest}
    at, name, shape = rest
    flat = np.array(arrays[str(at)])  # a copy: what is read from a file cannot be written
    if kind == "array":
        return flat.view(np.dtype(name)).reshape(shape)
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"'{name}' is no type of tensors")
    if not flat.size:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(flat).view(dtype).reshape(shape)
