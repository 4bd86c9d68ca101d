"""Code that a file names as module:Name, and the loader that may import it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

__all__ = ["Loader", "import_code", "load_code", "loading_code_by"]

Loader = Callable[[str], Any]
"""From a name, module:Name, to what it names.

Raises ConfigError, ImportError, AttributeError or ValueError.
"""


def import_code(name: str) -> Any:
    """Import from wherever Python looks for modules: for files that the user wrote or chose.

    Commands look in the working directory, too, or where `--path` says.
    """
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


_loader: ContextVar[Loader] = ContextVar("code loader", default=import_code)


def load_code(name: str) -> Any:
    """Load what a name stands for by the loader in force: the only way from a file to an import."""
    return _loader.get()(name)


@contextmanager
def loading_code_by(loader: Loader) -> Iterator[None]:
    """Within the block, load the code that files name by this loader alone."""
    token = _loader.set(loader)
    try:
        yield
    finally:
        _loader.reset(token)
