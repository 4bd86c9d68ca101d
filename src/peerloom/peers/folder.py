"""What a peer keeps on disk: checkpoints that a kill cannot spoil, and its measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..core import Checkpoint, CheckpointError, DamagedError, Ledger, Network
from ..core.tensor_file import Array, lay_out, map_file, read_tensors
from ..transport import Roster
from ..transport.files import append_lines, write_whole
from ..transport.json_files import COUNT, read_json_lines
from .decisions import Journal
from .sent_files import SentFiles
from .wire_memory import files_in, reached_in, reached_memory

__all__ = ["PeerFolder"]


class PeerFolder:
    """The folder of one peer's run.

    began.json                 the roster with which the run began; its members are the rows
    checkpoint-0.safetensors,
    checkpoint-1.safetensors   written in turn, so that one of them can always be read
    metrics.jsonl              one line per evaluation
    judged/ROUND.safetensors   the model that was evaluated, and the ledger then
    measured.json              seconds per gradient and message, if measured (see `resources`)
    sent/ROUND-MIX-NUMBER      large rows as they were sent (see `sent_files`)
    inbox/                     large rows as they come: files without a name
    answers-COUNT.bin          what a training loop of one's own answered (see `live`)
    experiment.toml            what is run, as it is hashed
    status.json                the state of the run, at most seconds old (see `status`)
    """

    def __init__(self, path: Path, spec: str, judged: int | None = None) -> None:
        """Open it; `judged` models are kept, the best and the newest others; None keeps all."""
        self.path, self._spec, self._most_judged = path, spec, judged
        path.mkdir(parents=True, exist_ok=True)
        self._measured: set[int] | None = None
        self._older: Path | None = None  # of the two checkpoints: known once they were read
        self._names: dict[Path, set[int]] = {}  # the sent files that each checkpoint names

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
        self._names[self._older] = {file.number for file in files_in(at.wire)}
        self._older = next(path for path in self._paths() if path != self._older)

    def checkpoints(self) -> list[Checkpoint]:
        """Those that can be read, the newest first."""
        found = [at for path in self._paths() if (at := self._read(path)) is not None]
        return sorted(found, key=lambda at: -at.t)

    def files_named(self) -> set[int]:
        """Return the numbers of the sent files that the checkpoints name, once they were read."""
        return set().union(*self._names.values())

    def newest(self, files: SentFiles | None = None) -> Checkpoint | None:
        """Where the peer can go on; None if it never got so far.

        With `files`, a checkpoint that names a sent row which is cut, changed or gone counts as
        missing.
        """
        found = [at for at in self.checkpoints() if files is None or files.has(files_in(at.wire))]
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
        harmless = {"sent", "sent-about", "sent-files", "reached", "had-deadline"}
        harmless |= {"own", "own-about", "late", "late-about"}  # where they are empty
        if set(memory) - harmless or len(memory.get("own-about", ())):
            return True
        given_up = journal.outstanding(at.t + 1) or journal.gaps(at.t + 1)
        return bool(given_up) or bool(journal.gone((at.t + 1, 0)))

    def _paths(self) -> list[Path]:
        return [self.path / f"checkpoint-{k}.safetensors" for k in (0, 1)]

    def _read(self, path: Path) -> Checkpoint | None:
        """A checkpoint whose digest is right; one that was cut or changed counts as missing."""
        try:
            found = Checkpoint.read(path, self._spec) if path.exists() else None
        except DamagedError:
            found = None
        self._names[path] = set() if found is None else {f.number for f in files_in(found.wire)}
        return found

    def journal(self) -> Journal:
        """What was decided when something was not there in time."""
        return Journal(self.path / "decisions.jsonl")

    # -- measurements

    def measured(self, row: dict[str, Any], judged: Mapping[str, Tensor], ledger: Ledger) -> None:
        """Keep an evaluation: its figures, what was judged and the ledger; each round only once."""
        if self._measured is None:
            self._measured = {known["round"] for known in self.measurements()}
        if row["round"] in self._measured:
            return
        folder = self.path / "judged"
        folder.mkdir(exist_ok=True)
        arrays = {name: [value.numpy(force=True)] for name, value in judged.items()} | {
            name: [value] for name, value in ledger.arrays().items()
        }
        write_whole(folder / f"{row['round']}.safetensors", *lay_out(arrays, {}))
        # Last, since a line promises that its file is there.
        append_lines(self.path / "metrics.jsonl", [json.dumps(row)])
        self._measured.add(row["round"])
        if self._most_judged is not None:
            for round in self._judged_rounds()[: -self._most_judged]:
                self._forget_judged(round)

    def _judged_rounds(self) -> list[int]:
        """Return the rounds of the models that are kept, in the order in which they are given up.

        The best, by its loss, is last, and before it the newest.
        """
        kept = sorted(int(path.stem) for path in (self.path / "judged").glob("*.safetensors"))
        losses = [
            (row["loss"], row["round"])
            for row in self.measurements()
            if row["round"] in kept and row.get("loss") is not None
        ]
        best = min(losses)[1] if losses else -1
        return [*(other for other in kept if other != best), *(at for at in kept if at == best)]

    def _forget_judged(self, round: int) -> int:
        path = self.path / "judged" / f"{round}.safetensors"
        size = path.stat().st_size
        path.unlink()
        return size

    def give_up_judged(self, nbytes: int) -> int:
        """Remove models, the oldest first and the best last, to free so many bytes; how many."""
        freed = 0
        for round in self._judged_rounds():
            if freed >= nbytes:
                break
            freed += self._forget_judged(round)
        return freed

    def judged(self, round: int) -> dict[str, Array]:
        """Return the model of an evaluation, what it counts by, and the ledger."""
        return read_tensors(map_file(self.path / "judged" / f"{round}.safetensors"))

    def measurements(self) -> list[dict[str, Any]]:
        """All evaluations so far; a line that a kill cut short is left out."""
        return read_json_lines(self.path / "metrics.jsonl", {"round": COUNT})
