"""What reading an archive that somebody else wrote may raise."""

from __future__ import annotations

import lzma
import zipfile
import zlib

from .documents import MALFORMED

__all__ = ["BROKEN"]

BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, NotImplementedError,
    RuntimeError, *MALFORMED,
)  # fmt: skip
