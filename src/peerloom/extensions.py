"""Parts that other packages add, found by the entry points of installed distributions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["REINSTALL", "load", "names"]

# Entry points are recorded when a package is installed, so an installation that is older than its
# source lacks those that were added since.
REINSTALL = (
    "this installation does not know of it. Install Peerloom again: `pip install --editable .` "
    "in a clone (`make` does so), else `pip install --force-reinstall peerloom`"
)


def names(group: str) -> list[str]:
    """The names of a group's entry points, sorted."""
    return sorted(_entries(group))


def load(group: str, name: str) -> Any:
    """What an entry point names, imported now; None where no installed package has it."""
    entry = _entries(group).get(name)
    return None if entry is None else entry.load()


@cache
def _entries(group: str) -> dict[str, EntryPoint]:
    # Imported here: most commands need none of it, and it takes milliseconds to import.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=group)}
