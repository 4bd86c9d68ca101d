"""Rows in processes of their own, on one machine or many: the same rules, over TLS."""

from .federation import Federation
from .keep import Keep, read_status
from .row import AskedToStop, RowResult, RowRun, spec_hash
from .start import check_roster, only_experiment, run_folder, start_peer
from .wire import PostWire, Shape

__all__ = [
    "AskedToStop",
    "Federation",
    "Keep",
    "PostWire",
    "RowResult",
    "RowRun",
    "Shape",
    "check_roster",
    "only_experiment",
    "read_status",
    "run_folder",
    "spec_hash",
    "start_peer",
]
