"""`peerloom peer overview`: all members as their newest cards say, for people."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from .peer_status import status_of

__all__ = ["describe_overview", "overview_of"]


def overview_of(folder: Path) -> list[dict[str, Any]]:
    """Return the members of this peer's newest run; ages are those of now."""
    newest = max(status_of(folder), key=lambda run: float(run["updated"]))
    since = max(0.0, time.time() - newest["updated"])
    return [
        {**member, "age": None if member["age"] is None else member["age"] + since}
        for member in newest.get("members", [])
    ]


def describe_overview(members: list[dict[str, Any]]) -> Table:
    """Return the overview as a table, for people."""
    table = Table(
        "member", "card", "status", "round", "rounds/s", "loss", "links up", "version", "roster"
    )
    for member in members:
        if member["age"] is None:
            table.add_row(member["member"], "none")
            continue
        loss = member["loss"]
        table.add_row(
            member["member"],
            f"{member['age']:.0f} s ago",
            Text(member["status"]),
            str(member["round"]),
            f"{member['rounds_per_second']:.1f}",
            "" if loss is None else f"{loss:.4g}",
            Text(", ".join(sorted({link["peer"] for link in member["links"]}))),
            Text(member["version"]),
            str(member["roster"]),
        )
    return table
