"""Where rows live. Every engine runs the same port and the same algorithm; only the wire differs."""

from .simulator import Checkpoint, Path, Snapshot, build_net, iterate

__all__ = ["Checkpoint", "Path", "Snapshot", "build_net", "iterate"]
