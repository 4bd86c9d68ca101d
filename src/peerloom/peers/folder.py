"""What a peer keeps on disk: checkpoints that a kill cannot spoil, and its measurements."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..core import Checkpoint, CheckpointError, DamagedError, Ledger, Network
from ..core.tensor_file import Array, lay_out, read_tensors
from ..transport import Roster
from ..transport.files import append_lines, read_lines, write_whole
from .decisions import Journal
from .wire_memory import reached_in, reached_memory

__all__ = ["PeerFolder"]


class PeerFolder:
    """The folder of one peer's run.

    began.json                 the roster with which the run began; its members are the rows
    checkpoint-0.safetensors,
    checkpoint-1.safetensors   written in turn, so that one of them can always be read
    metrics.jsonl              one line per evaluation
    judged/ROUND.safetensors   the model that was evaluated, and the ledger then
    measured.json              seconds per gradient and message, if measured (see `resources`)
    experiment.toml            what is run, as it is hashed
    status.json                the state of the run, at most seconds old (see `status`)
    """

    def __init__(self, path: Path, spec: str) -> None:
        self.path, self._spec = path, spec
        path.mkdir(parents=True, exist_ok=True)
        self._measured: set[int] | None = None
        self._older: Path | None = None  # of the two checkpoints: known once they were read

    def begun(self) -> bool:
        """Whether this run was started here before."""
        return (self.path / "began.json").exists()

    def began(self, roster: Roster) -> Roster:
        """Return the roster with which the run began: `roster` itself if it begins now."""
        path = self.path / "began.json"
        if not self.begun():
            write_whole(path, roster.to_bytes())
        return Roster.from_bytes(path.read_bytes(), roster.founder)

    # -- checkpoints

    def save(self, at: Checkpoint) -> None:
        """Write a checkpoint in place of the older of the two."""
        if self._older is None:
            self._older = min(
                self._paths(), key=lambda path: at.t if (at := self._read(path)) else -1
            )
        write_whole(self._older, *at.encode(self._spec))
        self._older = next(path for path in self._paths() if path != self._older)

    def checkpoints(self) -> list[Checkpoint]:
        """Those that can be read, the newest first."""
        found = [at for path in self._paths() if (at := self._read(path)) is not None]
        return sorted(found, key=lambda at: -at.t)

    def newest(self) -> Checkpoint | None:
        """Where the peer can go on; None if it never got so far."""
        found = self.checkpoints()
        if found:
            reached = max(reached_in(at.memory()) for at in found)
            return (
                replace(found[0], wire={**found[0].wire, **reached_memory(reached)})
                if reached
                else found[0]
            )
        if any(path.exists() for path in self._paths()):
            raise CheckpointError(
                f"No checkpoint in {self.path} can be read. Delete the folder; the peer must join "
                "anew."
            )
        if any(self.path.glob("checkpoint-*.bin")):
            raise CheckpointError(
                f"{self.path} holds a run of Peerloom 0.1, whose peers spoke another protocol. "
                "Finish it with that version, or start a new run: delete this folder at every peer."
            )
        return None

    def begin_with(self, whole: Checkpoint, row: int, network: Network) -> None:
        """Begin with a row of a checkpoint that the simulator, shards or other peers wrote."""
        if self.checkpoints():
            raise CheckpointError(f"{self.path} has a run already. Give an empty folder.")
        self.save(whole.select([row], network))

    def delivered(self) -> list[Checkpoint]:
        """Return the checkpoints with nothing under way, as parts for `Checkpoint.merge`.

        Where every peer has done the same round, all messages up to it have arrived, unless a
        deadline gave some up or a link was removed. Running sums are never all delivered.
        """
        return [replace(at, wire={}) for at in self.checkpoints() if not self._under_way(at)]

    def _under_way(self, at: Checkpoint) -> bool:
        memory, journal = at.memory(), self.journal()
        if set(memory) - {"sent", "sent-about", "own", "own-about", "reached"} or len(
            memory.get("own-about", ())
        ):
            return True
        return bool(journal.outstanding(at.t + 1)) or bool(journal.gone((at.t + 1, 0)))

    def _paths(self) -> list[Path]:
        return [self.path / f"checkpoint-{k}.safetensors" for k in (0, 1)]

    def _read(self, path: Path) -> Checkpoint | None:
        """A checkpoint whose digest is right; one that was cut or changed counts as missing."""
        try:
            return Checkpoint.read(path, self._spec) if path.exists() else None
        except DamagedError:
            return None

    def journal(self) -> Journal:
        """What was decided when something was not there in time."""
        return Journal(self.path / "decisions.jsonl")

    # -- measurements

    def measured(self, row: dict[str, Any], model: Tensor, ledger: Ledger) -> None:
        """Keep an evaluation: its figures, the model and the ledger; each round only once."""
        if self._measured is None:
            self._measured = {known["round"] for known in self.measurements()}
        if row["round"] in self._measured:
            return
        folder = self.path / "judged"
        folder.mkdir(exist_ok=True)
        arrays = {"x": [model.numpy(force=True)]} | {
            name: [value] for name, value in ledger.arrays().items()
        }
        write_whole(folder / f"{row['round']}.safetensors", *lay_out(arrays, {}))
        # Last, since a line promises that its file is there.
        append_lines(self.path / "metrics.jsonl", [json.dumps(row)])
        self._measured.add(row["round"])

    def judged(self, round: int) -> dict[str, Array]:
        """Return the model and the ledger of an evaluation."""
        return read_tensors(
            memoryview((self.path / "judged" / f"{round}.safetensors").read_bytes())
        )

    def measurements(self) -> list[dict[str, Any]]:
        """All evaluations so far; a line that a kill cut short is left out."""
        return [json.loads(line) for line in read_lines(self.path / "metrics.jsonl")]
