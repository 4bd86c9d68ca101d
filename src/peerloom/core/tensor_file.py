"""Safetensors files, written from arrays in pieces and read without a copy."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Pieces", "joined", "lay_out", "map_file", "read_header", "read_tensors"]

Array = NDArray[Any]
Pieces = Mapping[str, Sequence[Array]]
"""Arrays by name, each in the pieces that make it, end to end."""

_NAMES = {
    "float64": "F64", "int64": "I64", "float32": "F32", "int32": "I32", "uint8": "U8",
    "bool": "BOOL",
}  # fmt: skip
_DTYPES = {name: np.dtype(dtype) for dtype, name in _NAMES.items()}


def lay_out(arrays: Pieces, metadata: Mapping[str, str]) -> list[bytes | memoryview]:
    """Return the parts of the file, in order: length of the header, header, data.

    Nothing is joined or copied: a peer's checkpoint has hundreds of pieces, and the safetensors
    library would copy them twice.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts, end = list[bytes | memoryview](), 0
    for name, pieces in sorted(arrays.items(), key=lambda entry: -entry[1][0].itemsize):  # aligned
        start, shape = end, pieces[0].shape if len(pieces) == 1 else (sum(map(len, pieces)),)
        for piece in pieces:
            parts.append(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
            end += piece.nbytes
        dtype = _NAMES[pieces[0].dtype.name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": (start, end)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *parts]


def map_file(path: Path) -> memoryview:
    """Map a file, to be read; it may be replaced meanwhile, but not changed."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not os.fstat(handle).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_READ))
    finally:
        os.close(handle)


def read_header(data: memoryview) -> tuple[dict[str, Any], int]:
    """Return the header of a file and where its data begin; ValueError if there is none."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("the header is cut short")
    header: dict[str, Any] = json.loads(bytes(data[8 : 8 + length]))
    return header, 8 + length


def read_tensors(data: memoryview) -> dict[str, Array]:
    """Return the arrays of a file, read-only views of `data`; ValueError if it is cut short."""
    header, begin = read_header(data)
    found: dict[str, Array] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        if begin + end > len(data):
            raise ValueError(f"'{name}' is cut short")
        flat = np.frombuffer(data[begin + start : begin + end], _DTYPES[entry["dtype"]])
        found[name] = flat.reshape(entry["shape"])
    return found


def joined(pieces: Sequence[Array]) -> Array:
    """Join the pieces of an array."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
