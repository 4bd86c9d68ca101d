"""Checkpoints: where a run can go on, in any engine, and the file that holds it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError
from .ledger import Ledger
from .network import Network
from .tensor_file import Array, Pieces, joined, lay_out, map_file, read_header, read_tensors

__all__ = ["Checkpoint", "DamagedError"]

FORMAT = "2"
_NO_DIGEST = "0" * 8


class DamagedError(CheckpointError):
    """The file was cut or changed: its digest is not that of its content."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The rows of a run after round t: their state, their ledger, what their wire remembers.

    `state` has the fields of the rule's state in their order, each [rows, width]. The file is a
    safetensors file: the arrays `t`, `rows`, `state/*`, `ledger/*`, `wire/*` and, for rows of which
    the problem keeps something, `problem/ROW`; and as metadata peerloom = "checkpoint", format,
    spec (the hash of the experiment), rule, fields and digest.
    """

    t: int
    rows: NDArray[np.int64]
    rule: str
    state: Mapping[str, Array]
    ledger: Mapping[str, Array]
    wire: Pieces = field(default_factory=dict)
    problem: Mapping[int, bytes] = field(default_factory=dict)  # see `Remembers`

    def encode(self, spec: str) -> list[bytes | memoryview]:
        """Return the file, in parts to be written one after the other."""
        arrays: dict[str, Sequence[Array]] = {"t": [np.array([self.t])], "rows": [self.rows]}
        arrays |= {f"state/{name}": [value] for name, value in self.state.items()}
        arrays |= {f"ledger/{name}": [value] for name, value in self.ledger.items()}
        arrays |= {f"wire/{name}": pieces for name, pieces in self.wire.items()}
        arrays |= {
            f"problem/{row}": [np.frombuffer(kept, np.uint8)] for row, kept in self.problem.items()
        }
        about = {
            "peerloom": "checkpoint", "format": FORMAT, "spec": spec, "rule": self.rule,
            "fields": ",".join(self.state), "digest": _NO_DIGEST,
        }  # fmt: skip
        length, header, *parts = lay_out(arrays, about)
        return [length, _with_digest(bytes(header), _digest(header, *parts)), *parts]

    @classmethod
    def read(cls, path: Path, spec: str | None = None) -> Checkpoint:
        """Read a checkpoint, which must be of the experiment with hash `spec`, if that is given.

        Its arrays are views of the file, which takes no memory of this process.
        """
        data = map_file(path)
        about, begin = _about(path, data)
        if (found := about.get("format")) != FORMAT and found is not None:
            raise CheckpointError(
                f"{path} has format {found}, and this Peerloom reads format {FORMAT}. "
                "Go on with the version that wrote it, or a later one."
            )
        digest = str(about.get("digest"))
        if _digest(_with_digest(bytes(data[8:begin]), _NO_DIGEST, digest), data[begin:]) != digest:
            raise DamagedError(f"{path} was cut or changed: its content does not have its digest.")
        if spec is not None and about["spec"] != spec:
            raise CheckpointError(
                f"{path} is of experiment {about['spec'][:12]}, another experiment than the one "
                f"to run ({spec[:12]}). Run that one, or give another folder."
            )
        arrays = read_tensors(data)
        fields = about["fields"].split(",")
        return cls(
            int(arrays["t"][0]), arrays["rows"], about["rule"],
            {name: arrays[f"state/{name}"] for name in fields},
            _below("ledger/", arrays),
            {name: [value] for name, value in _below("wire/", arrays).items()},
            {int(row): value.tobytes() for row, value in _below("problem/", arrays).items()},
        )  # fmt: skip

    @classmethod
    def merge(cls, parts: Sequence[Checkpoint]) -> Checkpoint:
        """Merge the parts of one run, of shards or peers; their ledgers are added up."""
        rounds = sorted({part.t for part in parts})
        if len(rounds) != 1:
            raise CheckpointError(
                f"The parts stand after rounds {rounds[0]} to {rounds[-1]}: only parts of one "
                "round make a whole. Let all go on to the same round."
            )
        if len({(part.rule, *part.state) for part in parts}) != 1:
            raise CheckpointError("The parts are of different rules. Give those of one run.")
        if any(part.wire for part in parts):
            raise CheckpointError(
                "A part remembers messages that may still be under way, "
                "which a whole has no place for."
            )
        rows = np.concatenate([part.rows for part in parts])
        if len(np.unique(rows)) != len(rows):
            raise CheckpointError("Two parts hold the same row. Give every row once.")
        order = np.argsort(rows)
        state = {
            name: np.concatenate([p.state[name] for p in parts])[order] for name in parts[0].state
        }
        ledger = {
            name: np.sum([part.ledger[name] for part in parts], axis=0) for name in parts[0].ledger
        }
        kept = {row: what for part in parts for row, what in part.problem.items()}
        return cls(rounds[0], rows[order], parts[0].rule, state, ledger, problem=kept)

    def select(self, rows: Sequence[int], network: Network) -> Checkpoint:
        """Select some rows, for a shard or a peer, with their part of the ledger."""
        wanted = np.asarray(sorted(rows), np.int64)
        missing = np.setdiff1d(wanted, self.rows)
        if len(missing):
            raise CheckpointError(f"The checkpoint does not hold row {missing[0]}.")
        at = np.searchsorted(self.rows, wanted)
        ledger = Ledger.of(network, self.ledger).part(wanted)
        state = {name: value[at] for name, value in self.state.items()}
        kept = {row: what for row, what in self.problem.items() if row in wanted}
        return replace(
            self, rows=wanted, state=state, ledger=ledger.arrays(), wire={}, problem=kept
        )

    def memory(self) -> dict[str, Array]:
        """Return what the wire remembers, each array in one piece."""
        return {name: joined(pieces) for name, pieces in self.wire.items()}


def _about(path: Path, data: memoryview) -> tuple[dict[str, str], int]:
    """Return the metadata of a checkpoint's file, and where its arrays begin."""
    try:
        header, begin = read_header(data)
        about = header.get("__metadata__")
        if not isinstance(about, dict) or about.get("peerloom") != "checkpoint":
            raise ValueError("it is another safetensors file")
    except (ValueError, AttributeError) as error:
        raise DamagedError(f"{path} cannot be read as a checkpoint ({error}).") from error
    return about, begin


def _below(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def _digest(*parts: bytes | memoryview) -> str:
    """Return a CRC, against faults of the disk: nobody else writes to its owner's folder."""
    found = 0
    for part in parts:
        found = zlib.crc32(part, found)
    return f"{found:08x}"


def _with_digest(header: bytes, digest: str, before: str = _NO_DIGEST) -> bytes:
    return header.replace(f'"digest": "{before}"'.encode(), f'"digest": "{digest}"'.encode(), 1)
