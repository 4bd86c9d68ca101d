"""What a peer keeps on disk: checkpoints that a kill cannot spoil, and its measurements."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch
import xxhash
from numpy.typing import NDArray
from torch import Tensor

from ..core import Ledger, Network
from ..errors import DataError
from ..transport import Roster
from ..transport.files import append_lines, read_lines, write_whole
from .decisions import Journal
from .wire import Memory, Pieces

__all__ = ["Keep", "Kept"]

_DTYPES = {"float64": "F64", "int64": "I64", "float32": "F32", "int32": "I32", "uint8": "U8", "bool": "BOOL"}


@dataclass(frozen=True)
class Kept:
    """Where a peer can go on: the round, its state, its account, which links fired."""

    t: int
    state: Any
    ledger: Ledger
    memory: Memory  # of the wire
    reached: int  # the round that the processes so far may have got to


class Keep:
    """The folder of one peer's run.

    began.json                           the roster with which the run began; its members are the rows
    checkpoint-0.bin, checkpoint-1.bin   written in turn, each with its own hash: one of them can always be read
    metrics.jsonl                        one line per evaluation
    judged/ROUND.safetensors             the model that was judged, and the account then
    measured.json                        seconds per gradient and message, where resources are measured (see `measuring`)
    experiment.toml                      what is run, as it is hashed
    status.json                          how it stands, a second or two old while it runs (see `status`)
    """

    def __init__(self, folder: Path, spec: str) -> None:
        self.folder, self._spec = folder, spec
        folder.mkdir(parents=True, exist_ok=True)
        self._measured: set[int] | None = None
        self._older: Path | None = None  # of the two checkpoints: known once they were read

    def begun(self) -> bool:
        """Whether this run was started here before."""
        return (self.folder / "began.json").exists()

    def began(self, roster: Roster) -> Roster:
        """The roster with which the run began, whose members are its rows; this one, if it begins now."""
        path = self.folder / "began.json"
        if not self.begun():
            write_whole(path, roster.to_bytes())
        return Roster.from_bytes(path.read_bytes(), roster.founder)

    # -- checkpoints

    def save(self, t: int, state: Any, ledger: Ledger, memory: Pieces, reached: int = 0) -> None:
        """The state after round t, in place of the older of the two."""
        arrays = {f"state/{name}": [value.cpu().numpy()] for name, value in state._asdict().items()}
        arrays |= {f"ledger/{name}": [value] for name, value in ledger.arrays().items()}
        arrays |= {f"wire/{name}": pieces for name, pieces in memory.items()}
        arrays |= {
            "t": [np.array([t])],
            "reached": [np.array([reached])],
            "spec": [np.frombuffer(self._spec.encode(), np.uint8)],
        }
        parts = _laid_out(arrays)
        if self._older is None:
            self._older = min(self._paths(), key=lambda path: kept[0] if (kept := self._read(path)) else -1)
        write_whole(self._older, _digest(*parts), *parts)
        self._older = next(path for path in self._paths() if path != self._older)

    def load(self, network: Network, state_type: type[Any]) -> Kept | None:
        """The newest checkpoint that can be read; None if there is none."""
        found = [kept for path in self._paths() if (kept := self._read(path)) is not None]
        if not found:
            if any(path.exists() for path in self._paths()):
                raise DataError(f"No checkpoint in {self.folder} can be read. Delete the folder; the peer must join anew.")
            return None
        t, arrays = max(found, key=lambda kept: kept[0])
        if bytes(arrays["spec"]).decode() != self._spec:
            raise DataError(f"{self.folder} holds another experiment than the one to run. Give another folder.")
        ledger = Ledger(network)
        for name, values in ledger.arrays().items():
            values[...] = arrays[f"ledger/{name}"]
        state = state_type(*(torch.from_numpy(np.array(arrays[f"state/{name}"])) for name in state_type._fields))
        memory = {name.removeprefix("wire/"): value for name, value in arrays.items() if name.startswith("wire/")}
        reached = max((int(other["reached"][0]) for _, other in found if "reached" in other), default=0)
        return Kept(t, state, ledger, memory, reached)

    def model(self) -> tuple[int, NDArray[Any]]:
        """The model of the newest checkpoint that can be read, and its round."""
        found = [kept for path in self._paths() if (kept := self._read(path)) is not None]
        if not found:
            raise DataError(f"{self.folder} has no checkpoint that can be read: the peer has not trained there yet.")
        t, arrays = max(found, key=lambda kept: kept[0])
        return t, arrays["state/x"][0]

    def _paths(self) -> list[Path]:
        return [self.folder / f"checkpoint-{k}.bin" for k in (0, 1)]

    def _read(self, path: Path) -> tuple[int, dict[str, NDArray[Any]]] | None:
        """A checkpoint whose hash is right; one that was cut or changed counts as missing."""
        if not path.exists():
            return None
        data = memoryview(path.read_bytes())
        length = len(_digest())
        if _digest(data[length:]) != data[:length]:
            return None
        arrays = safetensors.numpy.load(bytes(data[length:]))
        return int(arrays["t"][0]), arrays

    def journal(self) -> Journal:
        """What was decided when something was not there in time."""
        return Journal(self.folder / "decisions.jsonl")

    # -- measurements

    def measured(self, row: dict[str, Any], model: Tensor, ledger: Ledger) -> None:
        """One evaluation: a line of figures, the model it judged, the account then. None is written twice."""
        if self._measured is None:
            self._measured = {known["round"] for known in self.measurements()}
        if row["round"] in self._measured:
            return
        places = self.folder / "judged"
        places.mkdir(exist_ok=True)
        arrays: Pieces = {"x": [model.cpu().numpy()]} | {name: [value] for name, value in ledger.arrays().items()}
        write_whole(places / f"{row['round']}.safetensors", *_laid_out(arrays))
        append_lines(self.folder / "metrics.jsonl", [json.dumps(row)])  # a line says that its file is there
        self._measured.add(row["round"])

    def judged(self, round: int) -> dict[str, NDArray[Any]]:
        """The model and the account of an evaluation."""
        return safetensors.numpy.load((self.folder / "judged" / f"{round}.safetensors").read_bytes())

    def measurements(self) -> list[dict[str, Any]]:
        """All evaluations so far; a line that a kill cut short is left out."""
        return [json.loads(line) for line in read_lines(self.folder / "metrics.jsonl")]


def _laid_out(arrays: Pieces) -> list[bytes | memoryview]:
    """Arrays as a safetensors file has them. Half of a checkpoint is what neighbours may need, in hundreds of pieces: the
    library would have them joined, and copy them once more.
    """
    header, parts, end = dict[str, dict[str, Any]](), list[bytes | memoryview](), 0
    for name, pieces in sorted(arrays.items(), key=lambda entry: -entry[1][0].itemsize):  # readers want them aligned
        start, shape = end, pieces[0].shape if len(pieces) == 1 else (sum(map(len, pieces)),)
        for piece in pieces:
            parts.append(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
            end += piece.nbytes
        header[name] = {"dtype": _DTYPES[pieces[0].dtype.name], "shape": shape, "data_offsets": (start, end)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *parts]


def _digest(*parts: bytes | memoryview) -> bytes:
    """Against accidents of the disk, not against people: a checkpoint lies in the peer's own folder."""
    digest = xxhash.xxh3_128()
    for part in parts:
        digest.update(part)
    return digest.digest()
