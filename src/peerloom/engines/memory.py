"""One setting of the C library's allocator that large models need."""

from __future__ import annotations

import ctypes
import platform
from functools import cache

__all__ = ["recycle_large_blocks"]

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
