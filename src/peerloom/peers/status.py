"""The status file of a running peer. Needs no torch, so that reading it takes no time."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..transport.files import write_whole

__all__ = ["WORKING", "read_status", "write_status"]

WORKING = ("measuring", "running")  # with this status and no process, a peer was killed
_FILE = "status.json"


def write_status(folder: Path, facts: dict[str, Any]) -> None:
    """Write the status of the peer in this run folder."""
    document = facts | {"pid": os.getpid(), "updated": time.time()}
    write_whole(folder / _FILE, json.dumps(document).encode(), durable=False)


def read_status(folder: Path) -> dict[str, Any]:
    """Read the status that a peer wrote last."""
    try:
        found: dict[str, Any] = json.loads((folder / _FILE).read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder} has no status that can be read ({error}). Was the peer ever started here?"
        ) from error
    return found
