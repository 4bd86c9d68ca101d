"""The command line: `main` and, below it, one module per group of commands."""

from .entry import main

__all__ = ["main"]
