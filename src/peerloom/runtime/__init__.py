"""Rows that live in this process: the loop over a rule, its port, and what a rule sends.

Names are loaded when they are first used: whoever prepares a process must not load torch for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dry_run import Mixing, Part, Trace, Width, trace
    from .flat import Flat
    from .guard import Guard
    from .process import ProcessFacts, keep_freed_memory, prepare_process
    from .session import DurableWire, Session, Snapshot
    from .simulator import Path, build_port, iterate, simulation
    from .stop import StopRule

__all__ = [
    "DurableWire",
    "Flat",
    "Guard",
    "Mixing",
    "Part",
    "Path",
    "ProcessFacts",
    "Session",
    "Snapshot",
    "StopRule",
    "Trace",
    "Width",
    "build_port",
    "iterate",
    "keep_freed_memory",
    "prepare_process",
    "simulation",
    "trace",
]

_MODULES = {
    "dry_run": ("Mixing", "Part", "Trace", "Width", "trace"),
    "flat": ("Flat",),
    "guard": ("Guard",),
    "session": ("DurableWire", "Session", "Snapshot"),
    "simulator": ("Path", "build_port", "iterate", "simulation"),
    "stop": ("StopRule",),
    "process": ("ProcessFacts", "keep_freed_memory", "prepare_process"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """The thing itself, from the module that holds it."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
