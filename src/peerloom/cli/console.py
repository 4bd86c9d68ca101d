"""Where commands print: the answer to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

from rich.console import Console

__all__ = ["err", "out", "show", "tell"]

out = Console()
err = Console(stderr=True)


def show(document: Any, text: Any, as_json: bool) -> None:
    """Print the answer of a command: for machines, or for people."""
    if as_json:
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        out.print(text)


def tell(text: str) -> None:
    """Print a line of a process that runs on: no full disk or closed pipe behind it ends that."""
    with suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
