"""Where the files of a data set are looked for, and what to say when they are nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..core import DataError
from .catalogue import CATALOGUE, Item, Source
from .formats import read_item

__all__ = ["Found", "cache", "locate", "locations", "read"]


@dataclass(frozen=True)
class Found:
    """A data set on this machine."""

    location: str  # through which it was found, such as "cache" or "keras"
    files: dict[str, tuple[Path, str]]  # of each item, and the member in an archive

    @property
    def folder(self) -> Path:
        """Where the first file lies."""
        return next(iter(self.files.values()))[0].parent


def cache() -> Path:
    """Where `peerloom data get` keeps data sets."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "peerloom" / "data"


def locations() -> list[tuple[str, Path]]:
    """The folders that data sets are looked for in, in this order, each with what it is."""
    given = os.environ.get("PEERLOOM_DATA", "")
    return [
        *(
            ("PEERLOOM_DATA", Path(folder).expanduser())
            for folder in given.split(os.pathsep)
            if folder
        ),
        ("cache", cache()),
        ("torchvision", Path("data")),
        ("keras", Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras") / "datasets"),
        ("debian", Path("/usr/share/datasets")),
    ]


def locate(
    source: Source, path: str | Path | None = None, only: Iterable[str] | None = None
) -> Found | None:
    """The first location that holds all files of a data set, or of its items `only`.

    The files are not opened.
    """
    wanted = [item for item in source.items if only is None or item.file in set(only)]
    for name, base in [("path", Path(path).expanduser())] if path is not None else locations():
        folders = [base / folder for folder in source.folders]
        if name == "path":
            folders.insert(0, base)  # the folder that was named, itself
        files = {item.file: _file(item, base, folders) for item in wanted}
        found = {item: file for item, file in files.items() if file is not None}
        if len(found) == len(wanted):
            return Found(name, found)
    return None


def read(
    name: str, path: str | Path | None = None, only: Iterable[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Read and check all items of a data set, by file name.

    Raises DataError, which says how to get them, where they are nowhere.
    """
    source = CATALOGUE[name]
    found = locate(source, path, only)
    if found is None:
        raise DataError(missing(source, path))
    by_name = {item.file: item for item in source.items}
    return {file: read_item(by_name[file], *where) for file, where in found.files.items()}


def missing(source: Source, path: str | Path | None = None) -> str:
    """What to tell someone who does not have this data set."""
    looked = [
        f"{base} ({name})" for name, base in ([("path", path)] if path is not None else locations())
    ]
    unset = (
        " PEERLOOM_DATA is not set." if path is None and not os.environ.get("PEERLOOM_DATA") else ""
    )
    return (
        f"Data '{source.name}' are not on this machine: {source.items[0].file} and the rest were "
        f"looked for in {', '.join(looked)}, there below "
        f"{' or '.join(source.folders[:3])}.{unset} Get them by: peerloom data get {source.name} "
        f"({source.megabytes:g} MB), or set PEERLOOM_DATA to the folder that holds "
        f"{source.folders[0]}."
    )


def _file(item: Item, base: Path, folders: list[Path]) -> tuple[Path, str] | None:
    for folder in folders:
        for name in (item.file, f"{item.file}.gz"):
            if (folder / name).is_file():
                return folder / name, ""
    for folder in (*folders, base):
        for other in item.also:
            name, _, member = other.partition(":")
            if (folder / name).is_file():
                return folder / name, member
    return None
