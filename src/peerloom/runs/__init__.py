"""Runs: carrying experiments out, and keeping what came of them."""

from .runner import Result, simulate
from .store import Run, RunFolder, comparison_at, find_runs, folder_name, replace_file
from .table import Table

__all__ = [
    "Result",
    "Run",
    "RunFolder",
    "Table",
    "comparison_at",
    "find_runs",
    "folder_name",
    "replace_file",
    "simulate",
]
