"""Every error Peerloom raises on purpose.

    PeerloomError
    +-- ConfigError      2   a wrong key, value, or combination of parts
    |   +-- MissingExtraError    a package that only part of Peerloom needs is not installed
    +-- DivergedError    3   a row is no longer finite
    +-- DataError        4   data that should be there is missing or unreadable
    |   +-- CheckpointError  a checkpoint cannot be read, or is of another run
    +-- PeerError        5   a peer, a roster or the network cannot be trusted or reached
        +-- CodecError   5   bytes that no encoder of their codec writes
        +-- ExcludedError 6  this peer may not go on as it is: removed, a copy, a forked roster

The number is the exit code of the command line. A message has three parts: what was found, where,
what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from typing import ClassVar

__all__ = [
    "Caution",
    "CheckpointError",
    "CodecError",
    "ConfigError",
    "DataError",
    "DivergedError",
    "ExcludedError",
    "MissingExtraError",
    "PeerError",
    "PeerloomError",
    "nearest",
    "require",
]


class PeerloomError(Exception):
    """Base of all errors raised on purpose."""

    exit_code: ClassVar[int] = 1


class ConfigError(PeerloomError):
    """The experiment cannot be built or run as written."""

    exit_code = 2


class MissingExtraError(ConfigError, ImportError):
    """A package that only part of Peerloom needs is not installed.

    >>> print(MissingExtraError("Table.to_polars", "polars", "tables"))
    Table.to_polars needs the package polars, which is not installed: pip install 'peerloom[tables]'
    """

    def __init__(self, what: str, package: str, extra: str = "") -> None:
        wanted = f"'peerloom[{extra}]'" if extra else package
        super().__init__(
            f"{what} needs the package {package}, which is not installed: pip install {wanted}"
        )


class DivergedError(PeerloomError):
    """A row of the state is NaN or infinite."""

    exit_code = 3

    def __init__(self, message: str, *, round: int, row: int) -> None:
        super().__init__(message)
        self.round = round
        self.row = row


class DataError(PeerloomError):
    """A data set is missing, incomplete or not what it claims to be."""

    exit_code = 4


class CheckpointError(DataError):
    """A checkpoint is damaged, of another format, or of another run."""


class PeerError(PeerloomError):
    """A key, a roster, an invitation or a link between peers is not as it must be."""

    exit_code = 5


class CodecError(PeerError):
    """A body that no encoder of its codec writes; `reason` is a word for counting."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"A body was refused: {reason}{f' ({detail})' if detail else ''}.")
        self.reason = reason


class ExcludedError(PeerError):
    """This peer may never go on as it is: starting it again cannot help, a person must decide.

    It was removed by the founder, is the copy of a peer that runs, or has a roster that forked.
    """

    exit_code = 6


class Caution(UserWarning):
    """Something that can be run, but does not do what one may expect."""


def require(what: str, extra: str, *packages: str) -> None:
    """Refuse to go on where a package of an extra is not installed, and say how to get it."""
    for package in packages:
        try:
            import_module(package)
        except ImportError as error:
            raise MissingExtraError(what, package, extra) from error


def nearest(word: str, known: Iterable[str]) -> str:
    """The hint that follows an unknown name: the closest right one, and all of them.

    >>> nearest("radus", ["radius", "seed"])
    "Did you mean 'radius'? Known: radius, seed."
    """
    known = sorted(known)
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.5)
    guess = f"Did you mean '{lowered[close[0]]}'? " if close else ""
    return f"{guess}Known: {', '.join(known)}."
