"""Room on disk for the one file that must be written although the disk is full: a roster."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from . import files

__all__ = ["RESERVE", "Reserve"]

RESERVE = 8 << 20  # bytes: two of the largest rosters
_LEAST = 1 << 17  # bytes of a reserve that is worth having


class Reserve:
    """A file whose blocks become those of another file; it exists while a peer runs.

    The blocks are written in place and the file renamed, so that no other program can take the
    room in between. Where a file system copies what is written (or the reserve is too small), it
    is removed first and its room used.

    `needed` says, at the end, whether another process of this peer still runs, which shares it.
    """

    def __init__(self, path: Path, needed: Callable[[], bool] = lambda: False) -> None:
        self.path, self._needed = path, needed

    def __enter__(self) -> Self:
        self.fill()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._needed():
            self.path.unlink(missing_ok=True)

    def fill(self) -> None:
        """Take as much room as there is, up to `RESERVE`; none if there is hardly any."""
        size = RESERVE
        while size >= _LEAST and not self._take(size):
            size //= 2

    def write_whole(self, path: Path, data: bytes) -> None:
        """Replace a file atomically, with room of the reserve where there is no other."""
        try:
            files.write_whole(path, data)
        except OSError:
            try:
                self._write_inside(path, data)
            except OSError:
                self.path.unlink(missing_ok=True)
                files.write_whole(path, data)
            self.fill()

    def _take(self, size: int) -> bool:
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        try:
            os.ftruncate(handle, min(size, os.fstat(handle).st_size))
            os.posix_fallocate(handle, 0, size)
        except OSError:
            with suppress(OSError):
                self.path.unlink()
            return False
        finally:
            os.close(handle)
        return True

    def _write_inside(self, path: Path, data: bytes) -> None:
        with self.path.open("r+b", buffering=0) as file:
            if os.fstat(file.fileno()).st_size < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            file.truncate()
            os.fsync(file.fileno())
        files.rename(self.path, path)
        files.sync_folder(path.parent)
