"""Processes for the rows of a federation on one machine.

Each does what `peerloom peer start` does at a site. They are forked from a process that has loaded
everything, so that they start at once.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from dataclasses import replace
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .site import Site

__all__ = ["context", "start_row"]


@cache
def context() -> ForkServerContext:
    """What starts processes: one server that has loaded all that a peer needs, and forks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["peerloom.peers.forked"])
    return context


def start_row(file: Path, folder: Path, log: Path, site: Site) -> BaseProcess:
    """Start the peer of a folder on an experiment file; what it says goes to `log`."""
    process = context().Process(
        target=_row, args=(str(file), str(folder), str(log), site), daemon=True
    )
    process.start()
    return process


def _row(file: str, folder: str, log: str, site: Site) -> None:
    from ..code import import_code
    from .start import serve

    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(said, stream)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    site = replace(site, code=import_code)  # the file is this user's own
    sys.exit(serve(Path(folder), Path(file), site, say=lambda text: print(text, flush=True)))  # noqa: T201
