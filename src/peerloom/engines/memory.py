"""What large models need: one setting of the C library's allocator, and a word beforehand where they will not fit."""

from __future__ import annotations

import ctypes
import os
import platform
import warnings
from functools import cache

from ..errors import Caution

__all__ = ["caution_of_size", "recycle_large_blocks"]

_BLOCKS = 5  # all models at once: as they are, as they last were good, their gradients, after the step, mixed
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


@cache
def recycle_large_blocks() -> bool:
    """Keep large freed blocks for the next round in place of handing them back to the system; says whether it could.

    Every round makes new tensors of the size of all models. By default glibc maps and unmaps each of them, and the kernel
    fills every page with zeros anew: at m = 1000 that takes longer than the arithmetic.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


def caution_of_size(models: int, numbers: int, itemsize: int) -> None:
    """Warn of a run that this machine will hardly hold: the system would end it without a word."""
    block = models * numbers * itemsize
    if hasattr(os, "sysconf") and _BLOCKS * block > (there := os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")):
        text = (
            f"{models} models of {numbers:,} numbers take {block / 1e9:.1f} GB, a round about {_BLOCKS} times that, and "
            f"this machine has {there / 1e9:.1f} GB. The run may be killed for want of memory. Take fewer clients or a "
            "smaller model."
        )
        warnings.warn(text, Caution, stacklevel=3)
