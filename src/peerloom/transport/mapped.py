"""Bodies that lie in files: the system holds in memory as much of them as there is room for."""

from __future__ import annotations

import itertools
import mmap
import os
from pathlib import Path

import numpy as np

from .types import Body

__all__ = ["Scratch", "map_new", "sync_file"]

_ZEROS = bytes(1 << 20)


def map_new(path: Path, size: int) -> Body:
    """Create a file of this size and map it, to be written; refuses one that exists.

    All its blocks are taken at once: on a full disk this raises OSError, where a write to the map
    would end the process.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        _reserve(handle, size)
        return np.frombuffer(mmap.mmap(handle, size), np.uint8)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    """Wait until a file is on the disk, and so is its name."""
    for each, flags in ((path, os.O_RDWR), (path.parent, os.O_RDONLY | os.O_DIRECTORY)):
        handle = os.open(each, flags | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _reserve(handle: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
        return
    for at in range(0, size, len(_ZEROS)):
        os.pwrite(handle, _ZEROS[: size - at], at)


class Scratch:
    """Memory for bodies that come: of large ones it is a file without a name.

    So a process that ends, in whatever way, leaves nothing behind that could pass for a row.
    """

    def __init__(self, folder: Path, least: int) -> None:
        self._folder, self._least = folder, least
        self._count = itertools.count()
        for path in folder.glob("*.part"):  # of a process that ended before it took its name away
            path.unlink()

    def __call__(self, size: int) -> Body:
        """Return memory of this many bytes; OSError if there is no room."""
        if size < self._least:
            return np.empty(size, np.uint8)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{next(self._count)}.part"
        body = map_new(path, size)
        path.unlink()
        return body
