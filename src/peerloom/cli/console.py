"""Where commands print: the answer to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

__all__ = ["err", "out", "show"]

out = Console()
err = Console(stderr=True)


def show(document: Any, text: Any, as_json: bool) -> None:
    """Print the answer of a command: for machines, or for people."""
    if as_json:
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        out.print(text)
