"""The command line: `main` and, below it, one module per group of commands."""

from .app import main

__all__ = ["main"]
