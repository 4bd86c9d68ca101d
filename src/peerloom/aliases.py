"""Former names of public things: they still work, and say what the thing is called now."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable

from .errors import Caution

__all__ = ["former_names"]


def former_names(module: str, names: dict[str, str]) -> Callable[[str], object]:
    """Make the `__getattr__` of a module: former name to present name, with a `Caution`."""

    def getattr_of_module(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        new = names[name]
        warnings.warn(
            f"{module}.{name} is now called {new}: rename it in your code.", Caution, stacklevel=2
        )
        return getattr(sys.modules[module], new)

    return getattr_of_module
