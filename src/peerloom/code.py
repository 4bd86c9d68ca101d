"""Code that a file names as module:Name, and whoever decides whether and from where it is imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["Loader", "import_from_here", "load_code", "loading_code_by"]

Loader = Callable[[str], Any]
"""From a name, module:Name, to what it names. Raises ConfigError, or ImportError, AttributeError, ValueError."""


def import_from_here(name: str) -> Any:
    """Import from the working directory or from what is installed: for files that the user wrote or chose."""
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return getattr(import_module(module), attribute)


_loader: ContextVar[Loader] = ContextVar("code loader", default=import_from_here)


def load_code(name: str) -> Any:
    """What a name stands for, by the loader in force. The only way from a file to an import."""
    return _loader.get()(name)


@contextmanager
def loading_code_by(loader: Loader) -> Iterator[None]:
    """Within, names in files become code by this loader alone."""
    token = _loader.set(loader)
    try:
        yield
    finally:
        _loader.reset(token)
