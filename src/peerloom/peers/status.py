"""The status file of a running peer. Needs no torch, so that reading it takes no time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import PeerError
from ..transport.files import write_whole
from ..transport.json_files import COUNT, NUMBER, TEXT, Each, Optional, read_json

__all__ = ["WORKING", "figures", "is_complete", "own_figures", "read_status", "write_status"]

WORKING = ("measuring", "running")  # with this status and no process, a peer was killed
_FILE = "status.json"
_JUDGED = ("loss", "accuracy")
_BESIDE = ("consensus", "cpu_seconds", "round", "seconds")  # what an evaluation says of itself
_LINK = {
    "peer": TEXT,
    "direction": TEXT,
    "up": bool,
    "since": NUMBER,
    "rtt": Optional(NUMBER),
    "lag": Optional(COUNT),
    "bytes": Each(COUNT),
    "reconnects": Each(COUNT),
}
_FORM = {
    "status": TEXT,
    "pid": COUNT,
    "updated": NUMBER,
    "round": COUNT,
    "rounds": COUNT,
    "rounds_per_second": NUMBER,
    "incarnation": COUNT,
    "roster": {"version": COUNT},
    "seconds": {"compute": NUMBER, "wait": NUMBER, "waiting": NUMBER},
    "checkpoint": {"round": COUNT},
    "refusals": Each(COUNT),
    "last": Each(Optional(NUMBER)),
    "agreement": {"consensus": Optional(NUMBER), "distance": Optional(NUMBER)},
    "links": Each(_LINK),
}


def write_status(folder: Path, facts: dict[str, Any]) -> None:
    """Write the status of the peer in this run folder."""
    document = facts | {"pid": os.getpid(), "updated": time.time()}
    write_whole(folder / _FILE, json.dumps(document).encode(), durable=False)


def is_complete(folder: Path) -> bool:
    """Whether every round of this run is done, here and at every neighbour.

    Without a status that says so, it is not: neighbours may still need the last rounds.
    """
    try:
        return read_status(folder).get("complete") is True
    except PeerError:
        return False


def read_status(folder: Path) -> dict[str, Any]:
    """Read the status that a peer wrote last."""
    found: dict[str, Any] = read_json(folder / _FILE, _FORM)
    return found


def figures(last: Mapping[str, Any]) -> dict[str, float]:
    """What an evaluation found of the model: loss, accuracy, what the problem measures besides.

    >>> figures({"round": 3, "f1": 0.8, "loss": 0.2, "accuracy": None})
    {'loss': 0.2, 'f1': 0.8}
    """
    judged = {name: last.get(name) for name in _JUDGED} | own_figures(last)
    return {name: value for name, value in judged.items() if value is not None}


def own_figures(last: Mapping[str, Any]) -> dict[str, float | None]:
    """What the problem measures besides loss and accuracy, by the names that it gives."""
    return {name: value for name, value in last.items() if name not in (*_JUDGED, *_BESIDE)}
