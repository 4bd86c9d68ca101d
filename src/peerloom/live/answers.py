"""The journal of a loop's answers: what neighbours may have built on is a fact.

A peer that was killed does the rounds since its checkpoint once more. A rule that sends models
bears it if the loop then answers otherwise. One that tracks does not: what the first life sent and
what the second one goes on with would never again sum to the gradients. So under such rules the
journal holds the answers themselves, each on disk before anything follows from it; under others it
holds their digests, to tell whether the loop repeats itself.
"""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import xxhash
from torch import Tensor

from ..errors import CheckpointError, PeerError
from .seam import Question

__all__ = ["ENTRY", "Answers", "digest_of"]

_HEAD = struct.Struct("<qqqQq")  # index, round, batch (-1 for all), digest, bytes that follow

ENTRY = _HEAD.size
"""Bytes of an entry beside the answer itself."""


class _Known(NamedTuple):
    """Where an answer of an earlier life lies."""

    round: int
    batch: int
    digest: int
    path: Path
    begin: int
    length: int


class Answers:
    """The journal in a peer's folder, in files of which each begins with a checkpoint's count."""

    def __init__(self, folder: Path, whole: bool) -> None:
        """With `whole`, answers are kept themselves, else only their digests."""
        self._folder, self.whole = folder, whole
        self._known: dict[int, _Known] = {}
        for path in sorted(self._files(), key=_first_of):
            self._read(path)
        self._handle: int | None = None
        self._saved: list[int] = []  # how many answers the last checkpoints hold

    def known(self, index: int) -> int | None:
        """The digest of this answer in an earlier life; None if none is known."""
        return self._known[index].digest if index in self._known else None

    def question(self, index: int, client: int) -> Question | None:
        """What this answer was for; None if it is not known."""
        if (at := self._known.get(index)) is None:
            return None
        return Question(client, at.round, "all" if at.batch < 0 else at.batch)

    def repeated(self, index: int, like: Tensor) -> Tensor:
        """The answer of an earlier life itself."""
        at = self._known[index]
        with at.path.open("rb") as file:
            file.seek(at.begin)
            body = file.read(at.length)
        return torch.from_numpy(np.frombuffer(bytearray(body), _numpy(like))).to(like)

    def add(self, index: int, round: int, batch: int, digest: int, g: Tensor) -> None:
        """Write an answer down; when this returns, a kill does not lose it."""
        body = _bytes_of(g) if self.whole else memoryview(b"")
        try:
            if self._handle is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                path = self._folder / f"answers-{index}.bin"
                self._handle = os.open(path, flags, 0o600)
            os.write(self._handle, _HEAD.pack(index, round, batch, digest, len(body)))
            while body:
                body = body[os.write(self._handle, body) :]
            if self.whole:
                os.fdatasync(self._handle)
        except OSError as error:
            raise PeerError(
                f"The journal of answers in {self._folder} cannot be written "
                f"({error.strerror or error}), and without it a restart would spoil what "
                "neighbours have. Make room, then start this peer again."
            ) from error

    def saved(self, count: int) -> None:
        """A checkpoint needs none of so many answers: nobody needs those before the older one."""
        self._saved = [*self._saved[-1:], count]
        self.close()
        if len(self._saved) < 2:
            return
        files = sorted(self._files(), key=_first_of)
        for path, after in pairwise(files):
            if _first_of(after) <= self._saved[0]:
                path.unlink()

    def close(self) -> None:
        """Close the file; the next answer begins another."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _files(self) -> list[Path]:
        return list(self._folder.glob("answers-*.bin"))

    def _read(self, path: Path) -> None:
        """Take note of what a file holds; a last entry that a kill cut short was never acted on."""
        size, expected = path.stat().st_size, _first_of(path)
        if self._known and expected > max(self._known) + 1:
            self._spoilt(path)
        with path.open("rb") as file:
            while len(head := file.read(ENTRY)) == ENTRY:
                index, t, batch, digest, length = _HEAD.unpack(head)
                begin = file.tell()
                if index == expected and begin + length > size:
                    return
                if index != expected or (length and digest_of(file.read(length)) != digest):
                    if file.tell() < size or index != expected:
                        self._spoilt(path)
                    return
                self._known[index] = _Known(t, batch, digest, path, begin, length)
                expected += 1

    def _spoilt(self, path: Path) -> None:
        """Refuse to go on without answers that neighbours may have built on."""
        if self.whole:
            raise CheckpointError(
                f"{path} was cut or changed: the journal of answers lacks some, and without them "
                "what neighbours have would not fit what this peer goes on with. Begin the run "
                "anew: delete this folder at every peer."
            )


def digest_of(g: Tensor | bytes) -> int:
    """A digest of an answer's bits."""
    return xxhash.xxh3_64_intdigest(g if isinstance(g, bytes) else _bytes_of(g))


def _bytes_of(g: Tensor) -> memoryview:
    return g.numpy(force=True).reshape(-1).view(np.uint8).data


def _first_of(path: Path) -> int:
    return int(path.stem.partition("-")[2])


def _numpy(like: Tensor) -> np.dtype[np.floating]:
    return np.dtype("float64" if like.dtype == torch.float64 else "float32")
