"""Settings of the whole process, made by one explicit call: nothing here happens on import.

torch's Intel library (MKL) may sum in an order that depends on where in memory a matrix lies, on
processors of other makers. A row must get the same bits alone in a peer and among others in a
simulation, so the library is told not to (`MKL_CBWR`), which works until its first product.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..errors import Caution

__all__ = ["ProcessFacts", "keep_freed_memory", "prepare_process", "return_large_blocks"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4  # of mallopt
LARGE_BLOCK = 32 << 20  # bytes from which on blocks can be mapped one by one: glibc's most
_CBWR_AUTO = 2  # of MKL's function: the widest instructions, always in the same order
_TOO_LATE = (
    "torch had multiplied before Peerloom could ask for sums in a fixed order, so simulator and "
    "peers may differ in the last bits on AMD processors. Call peerloom.prepare_process() before "
    "torch computes, or set MKL_CBWR=AUTO in the environment."
)


class ProcessFacts(NamedTuple):
    """What holds in this process; kept with every run."""

    mkl_cbwr: str  # the order of MKL's sums: its own setting, or ours
    fixed_order: bool | None  # whether MKL follows it; None where nobody can tell
    freed_memory_kept: bool
    threads: int | None  # torch's; None while it is not loaded
    scheduler: str


def prepare_process(
    *, threads: int | None = None, batch: bool = False, keep_memory: bool = True
) -> ProcessFacts:
    """Set what makes rounds repeatable and fast, and return what holds now.

    Calling it again is harmless.

    `threads` are torch's. With `batch` those whom this thread wakes, and threads it starts, do not
    interrupt each other: a peer that waits for its neighbours wakes them with everything it sends,
    and where they share its processors each would push it aside half-way. `keep_memory` keeps large
    freed blocks for the next round.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO")
    fixed = _fixed_order()
    if fixed is False and not _is_intel():
        warnings.warn(_TOO_LATE, Caution, stacklevel=2)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    if batch:
        _schedule_in_batches()
    if keep_memory:
        keep_freed_memory()
    kept = bool(keep_freed_memory.cache_info().currsize) and keep_freed_memory()
    torch_threads = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None
    return ProcessFacts(os.environ["MKL_CBWR"], fixed, kept, torch_threads, _scheduler())


@cache
def keep_freed_memory() -> bool:
    """Keep large freed blocks in place of handing them back to the system; says whether it could.

    Every round makes new tensors of the size of all models. By default glibc maps and unmaps each
    of them, and the kernel fills every page with zeros anew.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


@cache
def return_large_blocks() -> bool:
    """Hand blocks of 32 MB and more back to the system after all; says whether it could.

    A kept block serves again only whole, and soon something small lies in it: where a row alone is
    so large, a process would take half as much again. It holds until the process ends, as
    `keep_freed_memory` does for all smaller blocks.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_MAX, 1 << 16) and mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK))


def _fixed_order() -> bool | None:
    """Whether MKL sums in a fixed order: it refuses a change after its first call."""
    if os.environ["MKL_CBWR"] != "AUTO":
        return None
    torch = sys.modules.get("torch")
    if torch is None:
        return True  # it reads the environment when it is loaded
    for path in Path(str(torch.__file__)).parent.glob("lib/libtorch_cpu.*"):
        library = ctypes.CDLL(str(path))
        for name in ("mkl_serv_cbwr_set", "MKL_CBWR_Set"):
            if hasattr(library, name):
                return bool(getattr(library, name)(_CBWR_AUTO) == 0)
    return None


@cache
def _is_intel() -> bool:
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


def _schedule_in_batches() -> None:
    """Take SCHED_BATCH; whoever chose another way of scheduling keeps it."""
    if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
        try:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except PermissionError:
            return  # a sandbox may forbid it: slower, and no worse; what holds is said


def _scheduler() -> str:
    if not hasattr(os, "sched_getscheduler"):
        return "unknown"
    names = ("SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE", "SCHED_FIFO", "SCHED_RR")
    known = {getattr(os, name): name for name in names if hasattr(os, name)}
    found = os.sched_getscheduler(0)
    return known.get(found, str(found))
