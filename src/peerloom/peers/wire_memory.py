"""What a checkpoint holds of a wire, as named arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Body
from .sent_files import SentFile, SentFiles

__all__ = [
    "Memory",
    "ParcelKey",
    "Pieces",
    "files_in",
    "reached_in",
    "reached_memory",
    "stack_bodies",
    "unstack_bodies",
]

Memory = dict[str, NDArray[Any]]
Pieces = dict[str, list[NDArray[Any]]]  # the same, each array in pieces that lie end to end
ParcelKey = tuple[int, int, int]  # row, round, mix_index


def reached_memory(t: int) -> Pieces:
    """Return the round that processes so far may have got to, as a checkpoint holds it."""
    return {"reached": [np.array([t], np.int64)]}


def reached_in(memory: Memory) -> int:
    """Return the round of `reached_memory`; 0 where there is none."""
    return int(memory["reached"][0]) if "reached" in memory else 0


def stack_bodies(
    what: str, entries: list[tuple[ParcelKey, Body]], files: SentFiles | None = None
) -> Pieces:
    """Join bodies to one array, each once, and an index: many small arrays are slow to write.

    Of a body that lies in a file only what names the file is held; its place in the index is
    below zero.
    """
    pieces, starts, end = list[Body](), dict[int, int](), 0
    named = list[SentFile]()
    for _, body in entries:
        if id(body) not in starts:
            file = None if files is None else files.of(body)
            if file is not None:
                named.append(file)
                starts[id(body)] = -len(named)
                continue
            pieces.append(body)
            starts[id(body)], end = end, end + len(body)
    about = np.array(
        [(*key, starts[id(body)], len(body)) for key, body in entries], np.int64
    ).reshape(-1, 5)
    found: Pieces = {f"{what}-about": [about], what: pieces or [np.empty(0, np.uint8)]}
    if named:
        found[f"{what}-files"] = [np.array(named, np.int64)]
    return found


def files_in(wire: Mapping[str, Sequence[NDArray[Any]]]) -> list[SentFile]:
    """Return the files that a checkpoint names."""
    return [
        SentFile(*facts)
        for name, pieces in wire.items()
        if name.endswith("-files")
        for piece in pieces
        for facts in piece.tolist()
    ]


def unstack_bodies(
    what: str, memory: Memory, files: SentFiles | None = None
) -> Iterator[tuple[ParcelKey, Body]]:
    """Yield what `stack_bodies` joined, without copies; nothing where there is none."""
    bodies: dict[tuple[int, int], Body] = {}
    if files is not None and f"{what}-files" in memory:
        for k, facts in enumerate(memory[f"{what}-files"].tolist(), start=1):
            file = SentFile(*facts)
            bodies[-k, file.length] = files.open(file)
    if what in memory:
        memory[what].flags.writeable = False
    for row, round, mix_index, start, length in (
        memory[f"{what}-about"].tolist() if f"{what}-about" in memory else ()
    ):
        yield (
            (row, round, mix_index),
            bodies.setdefault((start, length), memory[what][start : start + length]),
        )
