"""Sent rows that are too large for memory: a file each, which checkpoints name."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash

from ..core import Body, DamagedError, Tag
from ..core.tensor_file import map_file
from ..errors import PeerError
from ..transport.mapped import map_new, sync_file

__all__ = ["SentFile", "SentFiles"]


_log = logging.getLogger("peerloom.peers")


class SentFile(NamedTuple):
    """What a checkpoint says of a sent row: five whole numbers."""

    round: int
    mix_index: int
    number: int
    length: int
    digest: int  # xxh3 of the content, as a signed number

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.round}-{self.mix_index}-{self.number}"


class SentFiles:
    """The folder of sent rows, for all receivers together: a `Spool`.

    Numbers are never given twice, so a file that a checkpoint names is never written again. A file
    is on the disk before a checkpoint names it (`sync`) and stays until neither a checkpoint nor a
    parcel needs it (`keep`). What a crash leaves behind is named by nobody, and is removed at the
    next start (`clean`).
    """

    def __init__(self, folder: Path, least: int) -> None:
        self._folder, self.least = folder, least
        self._next = 0
        self._bodies: dict[int, tuple[SentFile, Body]] = {}  # by number
        self._numbers: dict[int, int] = {}  # by the id of a body that `_bodies` holds
        self._synced: set[int] = set()

    def write(self, tag: Tag, nbytes: int, pieces: Iterable[Body]) -> Body:
        """Write a row in pieces, and return the file as one body."""
        number, self._next = self._next, self._next + 1
        path = self._folder / SentFile(*tag, number, nbytes, 0).name
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            body = map_new(path, nbytes)
        except OSError as error:
            raise PeerError(
                f"What round {tag[0]} sends ({nbytes} bytes) cannot be written to {self._folder} "
                f"({error.strerror}). What was written before is whole: make room, then start "
                "this peer again."
            ) from error
        digest, end = xxhash.xxh3_64(), 0
        for piece in pieces:
            start, end = end, end + len(piece)
            body[start:end] = piece
            digest.update(piece.data)
        if end != nbytes:
            raise ValueError(f"{end} bytes came for a row of {nbytes}.")
        body.flags.writeable = False
        self._hold(SentFile(*tag, number, nbytes, _signed(digest.intdigest())), body)
        return body

    def of(self, body: Body) -> SentFile | None:
        """Return the file in which a body lies; None if it lies in memory."""
        number = self._numbers.get(id(body))
        return None if number is None else self._bodies[number][0]

    def open(self, file: SentFile) -> Body:
        """Return the row of a file that a checkpoint names; DamagedError if it is not that."""
        if file.number not in self._bodies:
            path = self._folder / file.name
            try:
                data = map_file(path)
            except OSError as error:
                raise DamagedError(f"{path} cannot be read ({error.strerror}).") from error
            if len(data) != file.length or _signed(xxhash.xxh3_64_intdigest(data)) != file.digest:
                raise DamagedError(f"{path} was cut or changed: it is not what was sent.")
            self._hold(file, np.frombuffer(data, np.uint8))
            self._synced.add(file.number)
        return self._bodies[file.number][1]

    def has(self, files: Iterable[SentFile]) -> bool:
        """Whether all these files are whole; the others are not held."""
        try:
            for file in files:
                self.open(file)
        except DamagedError as error:
            _log.warning("%s", error)
            return False
        return True

    def sync(self, numbers: Iterable[int]) -> None:
        """Wait until these files are on the disk."""
        for number in sorted(set(numbers) - self._synced):
            sync_file(self._folder / self._bodies[number][0].name)
            self._synced.add(number)

    def keep(self, numbers: set[int]) -> None:
        """Remove all other files; whoever holds such a body may still read it."""
        for number in [number for number in self._bodies if number not in numbers]:
            file, body = self._bodies.pop(number)
            del self._numbers[id(body)]
            self._synced.discard(number)
            (self._folder / file.name).unlink(missing_ok=True)

    def clean(self, numbers: set[int]) -> None:
        """Remove what an earlier process left behind, except these; count on from the highest."""
        for path in self._folder.glob("*-*-*"):
            if (found := re.fullmatch(r"\d+-\d+-(\d+)", path.name)) is None:
                continue
            number = int(found[1])
            self._next = max(self._next, number + 1)
            if number not in numbers:
                path.unlink()
        self._next = max([self._next, *(number + 1 for number in numbers)])

    def nbytes(self) -> int:
        """Return the bytes of all files that are held."""
        return sum(file.length for file, _ in self._bodies.values())

    def _hold(self, file: SentFile, body: Body) -> None:
        self._bodies[file.number] = (file, body)
        self._numbers[id(body)] = file.number


def _signed(digest: int) -> int:
    return digest - 2**64 if digest >= 2**63 else digest
