"""The file in which a running peer says how it stands. Needs no torch, so that reading it takes no time."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..transport.files import write_whole

__all__ = ["WORKING", "read_status", "write_status"]

WORKING = (
    "measuring",
    "running",
)  # what a peer says that is at work: one that is not, and says so, was killed
_FILE = "status.json"


def write_status(folder: Path, facts: dict[str, Any]) -> None:
    """How the peer of this run stands now."""
    document = facts | {"pid": os.getpid(), "updated": time.time()}
    write_whole(folder / _FILE, json.dumps(document).encode(), durable=False)


def read_status(folder: Path) -> dict[str, Any]:
    """What a peer last told of itself."""
    try:
        found: dict[str, Any] = json.loads((folder / _FILE).read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder} has no status that can be read ({error}). Was the peer ever started here?"
        ) from error
    return found
