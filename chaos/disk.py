"""A small file system in memory, and how to fill it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from .figures import SkippedError

__all__ = ["fill", "small_disk"]

_SIZE = 16 << 20  # bytes: a few checkpoints, with what neighbours may need of them


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, in memory, of a few megabytes."""
    folder.mkdir(exist_ok=True)
    if os.geteuid() != 0:
        raise SkippedError("mounting a small file system needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        raise SkippedError(
            f"no file system can be mounted here ({mounted.stderr.decode().strip()})"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


def fill(disk: Path) -> Path:
    """Take every byte that is left; the file that holds them."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler
