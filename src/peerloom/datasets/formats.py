"""From a file to the numbers in it, checked against the catalogue's checksum."""

from __future__ import annotations

import gzip
import hashlib
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import DataError
from .catalogue import Item
from .pickled import read_batch

__all__ = ["HEADER", "check", "parse", "read_item"]

_REMEDY = "Delete it and fetch it again, with: peerloom data get."
HEADER = 64  # bytes; no header in these formats is longer

_RECORD = 1 + 3 * 32 * 32  # CIFAR-10's binary version: the label, then the pixels
_IDX_TYPES: dict[int, np.dtype[Any]] = {8: np.dtype(np.uint8), 12: np.dtype(">i4")}


def read_item(item: Item, path: Path, member: str = "") -> NDArray[Any]:
    """Read an item out of the file that holds it: an array, or the bytes of a text."""
    try:
        content = _array(path, member, item.size)
    except (
        OSError,
        EOFError,
        zlib.error,
        zipfile.BadZipFile,
        KeyError,
        ValueError,
        DataError,
    ) as error:
        raise DataError(f"{path} cannot be read: {error} {_REMEDY}") from error
    return check(item, content, str(path))


def check(item: Item, content: NDArray[Any], where: str) -> NDArray[Any]:
    """The content, if it is what the catalogue says."""
    found = hashlib.sha256(np.ascontiguousarray(content).data).hexdigest()
    if found != item.sha256:
        raise DataError(
            f"{where} does not hold what '{item.file}' should: sha256 {found[:16]}... of "
            f"{content.nbytes:,} bytes, wanted {item.sha256[:16]}... of {item.size:,}. {_REMEDY}"
        )
    return content


def parse(file: str, content: NDArray[np.uint8]) -> NDArray[Any]:
    """The numbers in a file's bytes, in the format that its name says; a text as it is."""
    if "-idx" in file:
        return _idx(content)
    if file.endswith(".bin"):
        return content[: len(content) // _RECORD * _RECORD].reshape(-1, _RECORD)
    if file.startswith(("data_batch_", "test_batch")):
        return read_batch(content.data)
    return content


def _array(path: Path, member: str, size: int) -> NDArray[Any]:
    if member:
        with np.load(path, allow_pickle=False) as archive:
            return np.asarray(archive[member])
    if path.suffix != ".gz":
        # mapped: what is read once need not be copied
        content = np.memmap(path, np.uint8, mode="r")
        return parse(path.name, content)
    with gzip.open(path) as file:
        # no more, whatever it unpacks to
        return parse(path.stem, np.frombuffer(file.read(size + HEADER), np.uint8))


def _idx(content: NDArray[np.uint8]) -> NDArray[Any]:
    """Read the idx format.

    Two zeros, the type, the number of dimensions, each dimension in four bytes, the numbers.
    """
    head = bytes(content[:4])
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _IDX_TYPES:
        raise DataError(f"it is no idx file: it begins with {head!r}.")
    kind, start = _IDX_TYPES[head[2]], 4 + 4 * head[3]
    shape = [int(length) for length in np.frombuffer(bytes(content[4:start]), ">i4")]
    if len(content) - start != math.prod(shape) * kind.itemsize:
        raise DataError(
            f"it should hold {shape} numbers, but has {len(content) - start:,} bytes of them."
        )
    return content[start:].view(kind).reshape(shape)
