"""Fetching a data set on request: resumable, checked, complete under its final name."""

from __future__ import annotations

import gzip
import http.client
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np

from ..core import DataError
from .catalogue import Item, Source
from .formats import HEADER, check, parse, read_item

__all__ = ["Progress", "fetch"]

# Called with the file, bytes so far, bytes in all where known.
Progress = Callable[[str, int, int | None], None]

_ATTEMPTS = 4  # per address, each going on where the last one broke off
_BLOCK = 1 << 16
_TIMEOUT = 30.0


def fetch(
    source: Source, folder: Path, address: str | None = None, progress: Progress = lambda *_: None
) -> list[Path]:
    """Fetch what is not there yet into `folder`, and return the files.

    It comes from the publisher, or from `address`. A transfer that breaks off is kept as NAME.part
    and goes on from there, now or at the next call.
    """
    addresses = [address] if address is not None else list(source.addresses)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lacking = [item for item in source.items if not _is_here(item, folder / item.file)]
        if source.archive and lacking:
            _take(lacking, source.archive, addresses, folder, progress)
        elif lacking:
            for item in lacking:
                _take([item], item.file + source.suffix, addresses, folder, progress)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be written: {error}. Make room, or name another folder by --to."
        ) from error
    return [folder / item.file for item in source.items]


def _take(
    items: list[Item], name: str, addresses: list[str], folder: Path, progress: Progress
) -> None:
    """Fetch one file and keep the items it holds.

    Each gets its own name only once its content has been checked.
    """
    part = _transfer(addresses, name, folder, progress)
    for item in items:
        try:
            content = _content(item, part, name)
            check(item, parse(item.file, np.frombuffer(content, np.uint8)), name)
        except (
            OSError,
            EOFError,
            zlib.error,
            zipfile.BadZipFile,
            tarfile.TarError,
            DataError,
        ) as error:
            part.unlink()
            raise DataError(
                f"What was fetched is not the data set, and was not kept: {error}"
            ) from error
        new = folder / f"{item.file}.new"
        new.write_bytes(content)
        new.replace(folder / item.file)
    part.unlink()


def _content(item: Item, part: Path, name: str) -> bytes:
    """The bytes of an item in the file that was fetched."""
    if name.endswith(".zip"):
        with (
            zipfile.ZipFile(part) as archive,
            archive.open(member := _member(archive.namelist(), item)) as file,
        ):
            return _read(file, member, item)
    if name.endswith(".tar.gz"):
        with tarfile.open(part) as tape:
            member = _member([entry.name for entry in tape if entry.isfile()], item)
            with cast("IO[bytes]", tape.extractfile(member)) as file:
                return _read(file, member, item)
    with part.open("rb") as file:
        return _read(file, name, item)


def _read(file: IO[bytes], name: str, item: Item) -> bytes:
    """Read a file, unpacked where its name says so, up to the size of the item."""
    most = item.size + HEADER
    if not name.endswith(".gz"):
        return file.read(most)
    with gzip.open(file) as unpacked:
        return unpacked.read(most)


def _member(names: list[str], item: Item) -> str:
    """The one member of an archive with the item's name, in whichever folder."""
    fitting = [name for name in names if PurePosixPath(name).name in (item.file, f"{item.file}.gz")]
    if len(fitting) != 1:
        raise DataError(f"The archive holds {len(fitting)} files named {item.file}.")
    return fitting[0]


def _is_here(item: Item, path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        read_item(item, path)
    except DataError:
        return False  # damaged since: fetched anew
    return True


def _transfer(addresses: list[str], name: str, folder: Path, progress: Progress) -> Path:
    """The file as NAME.part, whole."""
    part, failures = folder / f"{name}.part", []
    for address in addresses:
        url = f"{address.rstrip('/')}/{name}"
        if urlsplit(url).scheme not in ("http", "https"):
            raise DataError(
                f"{url} is no address that data can be fetched from. Use http:// or https://."
            )
        for attempt in range(_ATTEMPTS):
            try:
                _go_on(url, part, lambda done, total: progress(name, done, total))
                return part
            except HTTPError as error:
                failures.append(f"{url}: {error.code} {error.reason}")
                if error.code < 500:
                    break  # the server knows no better, and asking again will not change its mind
            except (URLError, OSError, http.client.HTTPException) as error:
                failures.append(f"{url}: {getattr(error, 'reason', error)}")
                time.sleep(0.2 * attempt)
    kept = (
        f" What came is kept in {part}; the same command goes on from there."
        if part.exists()
        else ""
    )
    offline = (
        " Without a network: copy the files from elsewhere, and let PEERLOOM_DATA name the folder "
        "they are in."
    )
    raise DataError(
        f"'{name}' could not be fetched. {'; '.join(dict.fromkeys(failures))}.{kept or offline}"
    )


def _go_on(url: str, part: Path, progress: Callable[[int, int | None], None]) -> None:
    """Fetch what `part` lacks of a file."""
    have = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310  (the scheme was checked)
    try:
        answer = urlopen(request, timeout=_TIMEOUT)  # noqa: S310
    except HTTPError as error:
        # Nothing beyond what is here: the check of the content decides.
        if error.code == 416 and have:
            error.close()
            return
        raise
    with answer, part.open("ab" if answer.status == 206 else "wb") as file:
        if answer.status == 206 and not str(answer.headers.get("Content-Range", "")).startswith(
            f"bytes {have}-"
        ):
            raise DataError(
                f"{url} answered with another part of the file than the one asked for. Use "
                "another address."
            )
        done = have if answer.status == 206 else 0
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length is not None else None
        progress(done, total)
        while block := answer.read(_BLOCK):
            file.write(block)
            done += len(block)
            progress(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the transfer broke off after {done:,} of {total:,} bytes")
