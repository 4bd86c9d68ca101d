"""The command line. Heavy rooms are imported inside the commands, so that help comes at once."""

from .app import main

__all__ = ["main"]
