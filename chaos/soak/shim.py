"""Wall clocks that jump and disks that are slow, of one process each: a library loaded before C's.

The package knows nothing of it. A C compiler builds it once per run of the tester.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

from ..figures import SkippedError

__all__ = ["Shim", "build"]


def build(folder: Path) -> Path:
    """The library, compiled into a folder."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise SkippedError("a C compiler (cc) is needed to shift clocks and slow disks down")
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    words = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    built = subprocess.run(words, capture_output=True, text=True)
    if built.returncode:
        raise SkippedError(f"the library that shifts clocks does not compile: {built.stderr[:200]}")
    return library


class Shim:
    """What one row believes: how far its wall clock is off, how slow its disk is."""

    def __init__(self, library: Path, control: Path) -> None:
        control.write_bytes(bytes(16))
        with control.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), 16)
        self.environment = {"LD_PRELOAD": str(library), "CHAOS_SHIM": str(control)}

    def clock(self, seconds: float) -> None:
        """Set the wall clock ahead by so much from now on."""
        self._control[:8] = struct.pack("q", int(seconds * 1e9))

    def disk(self, seconds: float) -> None:
        """Let every fsync and rename take so much longer from now on."""
        self._control[8:] = struct.pack("q", int(seconds * 1e9))
