"""Lives: which process of a peer is the one that others know, kept in its state folder.

A life is one process on a state folder: its incarnation and the nonce that it drew. A greeting
names the lives of the same folder that the other side may have greeted last. So a process that
goes on where the known one ended is told from one on a copy of the folder.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .files import write_whole
from .json_files import COUNT, TEXT, Each, read_json

__all__ = ["MOST_PARENTS", "KnownLife", "Life", "Lives"]

_log = logging.getLogger("peerloom.transport")
MOST_PARENTS = 8
_FORM = {
    "writer": COUNT, "run": TEXT,
    "ours": Each(Each(Each(COUNT))), "certain": Each(Each(Each(COUNT))),
    "theirs": {},
}  # fmt: skip


class Life(NamedTuple):
    """One process of a peer."""

    incarnation: int
    nonce: int


class KnownLife(NamedTuple):
    """The life of a peer that was greeted last, by which version, and those before it."""

    life: Life
    version: int
    parents: tuple[Life, ...] = ()


class Lives:
    """What a state folder knows of lives; without a path it is kept in memory only.

    For every peer it has our lives that this peer may have greeted last: the last two that it
    has greeted for certain, and the newest that may have reached it.
    """

    def __init__(self, path: Path | None = None, run: str = "", incarnation: int = 0) -> None:
        self._path, self._run, self._incarnation = path, run, incarnation
        self._ours: dict[str, list[Life]] = {}
        self._certain: dict[str, list[Life]] = {}
        self._theirs: dict[str, KnownLife] = {}
        if path is not None and path.exists():
            read_json(path, _FORM, self._read)

    def parents(self, peer: str, mine: Life) -> list[Life]:
        """Our earlier lives that this peer may have greeted last."""
        return [life for life in self._ours.get(peer, ()) if life != mine][-MOST_PARENTS:]

    def begin(self, mine: Life, peers: Iterable[str]) -> None:
        """Write down that this life may greet these peers; call it before it does."""
        new = [peer for peer in peers if mine not in self._ours.get(peer, ())]
        for peer in new:
            certain = self._certain.get(peer, [])
            maybe = [life for life in self._ours.get(peer, ()) if life not in certain]
            self._ours[peer] = [*certain, *maybe[len(certain) - MOST_PARENTS + 1 :], mine]
        if new:
            self._save(durable=True)

    def confirm(self, peer: str, mine: Life) -> None:
        """Note that this peer has greeted this life."""
        certain = self._certain.get(peer, [])
        if certain[-1:] != [mine]:
            self._certain[peer] = self._ours[peer] = [*certain[-1:], mine]
            self._try_to_save()

    def known(self, peer: str) -> KnownLife | None:
        """The life of this peer that was greeted last in this run."""
        return self._theirs.get(peer)

    def learn(self, peer: str, known: KnownLife) -> None:
        """Note the life of a peer that is greeted now."""
        if self._theirs.get(peer) != known:
            self._theirs[peer] = known
            self._try_to_save()

    def forget(self, peer: str) -> None:
        """Forget the life of a peer: whoever comes next under its id is new."""
        if self._theirs.pop(peer, None) is not None:
            self._try_to_save()

    # -- on disk

    def _read(self, document: dict[str, Any]) -> None:
        for peer, lives in document["ours"].items():
            self._ours[peer] = _lives(lives)
        for peer, lives in document["certain"].items():
            self._certain[peer] = _lives(lives)
        # If the process before this one did not write here, it may have met others since.
        if document["run"] == self._run and document["writer"] == self._incarnation - 1:
            for peer, (life, version, parents) in document["theirs"].items():
                known = KnownLife(_life(life), _count(version), tuple(_lives(parents)))
                self._theirs[peer] = known

    def _try_to_save(self) -> None:
        """Save what may be lost: the lives before the last are known on both sides."""
        try:
            self._save(durable=False)
        except OSError as error:
            _log.warning("%s could not be written: %s", self._path, error)

    def _save(self, durable: bool) -> None:
        if self._path is not None:
            document = {
                "writer": self._incarnation, "run": self._run,
                "ours": self._ours, "certain": self._certain, "theirs": self._theirs,
            }  # fmt: skip
            write_whole(self._path, json.dumps(document).encode(), mode=0o600, durable=durable)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(value)
    return value


def _life(value: Any) -> Life:
    incarnation, nonce = value
    return Life(_count(incarnation), _count(nonce))


def _lives(values: Any) -> list[Life]:
    return [_life(value) for value in values][-MOST_PARENTS - 1 :]
