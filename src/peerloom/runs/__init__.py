"""Runs: carrying experiments out, and keeping what came of them."""

from .runner import Result, simulate
from .store import Run, RunFolder, comparison_at, find_runs, folder_name

__all__ = ["Result", "Run", "RunFolder", "comparison_at", "find_runs", "folder_name", "simulate"]
