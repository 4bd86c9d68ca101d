"""Reading an archive that somebody else wrote."""

from __future__ import annotations

import zipfile
import zlib

from .documents import MALFORMED

__all__ = ["BROKEN", "unpacked"]

BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, *MALFORMED
)  # fmt: skip
"""What it may raise."""

_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> bytes:
    """An entry's bytes up to `most`, and one more if there are more, whatever the archive claims.

    Refuses what is packed by bzip2 or LZMA: `zipfile` unpacks these whole, however little is asked
    for, and a few KB of them become gigabytes.
    """
    if entry.compress_type not in _PACKED:
        raise zipfile.BadZipFile(f"{entry.filename!a} is neither stored nor deflated")
    with archive.open(entry) as file:
        return file.read(most + 1)
