"""Loops of one's own: an ordinary PyTorch script whose optimizer is a rule over peers.

    opt = pl.live.optimizer(model, pl.live.peer("hospital-a", "hearts.toml"))

Names are loaded when they are first used: loops in one process need nothing of links.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..peers.site import Site
    from .all_rows import AllRows, rows
    from .batches import Batches
    from .live_optimizer import LiveOptimizer, optimizer
    from .one_peer import OnePeer, peer
    from .own_steps import Outer, outer
    from .seam import Question

__all__ = [
    "AllRows",
    "Batches",
    "LiveOptimizer",
    "OnePeer",
    "Outer",
    "Question",
    "Site",
    "optimizer",
    "outer",
    "peer",
    "rows",
]

_MODULES = {
    "..peers.site": ("Site",),
    ".all_rows": ("AllRows", "rows"),
    ".batches": ("Batches",),
    ".live_optimizer": ("LiveOptimizer", "optimizer"),
    ".one_peer": ("OnePeer", "peer"),
    ".own_steps": ("Outer", "outer"),
    ".seam": ("Question",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """The thing itself, from the module that holds it."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name], __name__), name)
