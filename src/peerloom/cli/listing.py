"""`peerloom list`: what an experiment file may name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.table import Table

from ..core import Needs
from ..registry import KINDS, signature
from .app import show

__all__ = ["list_command"]


def list_command(kind: str | None, as_json: bool) -> None:
    """All of one kind, or a count of each."""
    if kind is None:
        counts = {name: sorted(parts) for name, parts in KINDS.items()}
        table = Table("kind", "names", title="peerloom list KIND tells more")
        for name, parts in counts.items():
            table.add_row(name, ", ".join(parts))
        return show(counts, table, as_json)
    entries = [_entry(name, part) for name, part in sorted(KINDS[kind].items())]
    more = ["graph"] if kind == "algorithms" else []
    table = Table("name", "arguments", *more, "what it is")
    for entry in entries:
        arguments = ", ".join(_argument(key, value) for key, value in entry["arguments"].items())
        table.add_row(entry["name"], arguments, *(entry[key] for key in more), entry["about"])
    return show(entries, table, as_json)


def _entry(name: str, part: Callable[..., Any]) -> dict[str, Any]:
    needed = inspect.Parameter.empty
    arguments = {key: "required" if p.default is needed else _plain(p.default) for key, p in signature(part).items()}
    target = part.func if isinstance(part, partial) else part
    text = inspect.getdoc(target) or ""
    entry = {"name": name, "arguments": arguments, "about": " ".join(text.split("\n\n")[0].split())}
    if hasattr(target, "needs"):
        entry["graph"] = _graph(target.needs)
        entry["regulariser"] = target.needs.prox
        entry["reference"] = " ".join(text.partition("Reference:")[2].split("\n\n")[0].split())
    return entry


def _graph(needs: Needs) -> str:
    if "up" in needs.layers:
        return "one hub" if needs.one_hub else "hubs"
    return "undirected" if needs.symmetric else "any"


def _argument(key: str, value: Any) -> str:
    return key if value == "required" else f"{key}={value}"


def _plain(default: Any) -> Any:
    if isinstance(default, str | int | float | bool) or default is None:
        return default
    return list(default) if isinstance(default, tuple) else "own default"
