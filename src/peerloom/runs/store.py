"""One folder per run: what was run, what came of it, and enough to run it again or to go on.

    config.toml      the experiment, complete; `peerloom run config.toml` repeats it
    run.json         status, seed, label, versions, times
    network.json     the graph as drawn: positions, links, weights and probabilities
    holdings.json    by class and client, how many samples were dealt, where there are classes
    advice.json      what theory predicted of it, or why nothing
    metrics.jsonl    one line per evaluation, written when it is made
    checkpoint.safetensors  the state and the ledger after the last round that was saved
    fired.npz        who computed and which links fired, where the run was asked to record it

Every other file is replaced as a whole, so a run that is killed leaves a folder that can be read.
Metrics are written before the state: what the state has seen, the metrics have too. Version 0.1
wrote metrics.parquet and state.npz, which are still read.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from .. import __version__
from ..config import Comparison, comparison_from, experiment_to_toml, read_file, table_hash
from ..core import Checkpoint, CheckpointError, ConfigError, DamagedError, DataError, Draws
from ..core.checkpoint_v0 import read_npz
from ..experiment import Experiment
from ..problems import Classification
from ..schedules import Bernoulli, Record
from ..theory import predict
from .table import Table, json_line, read_json_lines, read_parquet

__all__ = ["Run", "RunFolder", "comparison_at", "find_runs", "folder_name", "replace_file"]

_METRICS, _OLD_METRICS = "metrics.jsonl", "metrics.parquet"
_CHECKPOINT, _OLD_CHECKPOINT = "checkpoint.safetensors", "state.npz"
_FILES = ("run.json", _CHECKPOINT, _METRICS, "fired.npz", "advice.json", "holdings.json")


@dataclass(frozen=True)
class Run:
    """A run as it lies on disk, for reports."""

    path: Path
    info: dict[str, Any]
    config: dict[str, Any]
    network: dict[str, Any]
    metrics: Table
    advice: dict[str, Any] = field(default_factory=dict)
    holdings: list[list[int]] = field(
        default_factory=list
    )  # by class and client; empty where it is not known


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def config(self) -> Path:
        """The experiment's file."""
        return self.path / "config.toml"

    @classmethod
    def create(cls, path: Path, exp: Experiment, **facts: Any) -> RunFolder:
        """A new folder that says what will be run, and what else is known of the run."""
        text = experiment_to_toml(exp)
        path.mkdir(parents=True, exist_ok=True)
        folder = cls(path)
        # What an earlier run that ended here left over.
        for left_over in (*_FILES, _OLD_CHECKPOINT, _OLD_METRICS):
            (path / left_over).unlink(missing_ok=True)
        folder._text("config.toml", text)
        folder.save_network(exp)
        if held := _holdings(exp):
            folder._text("holdings.json", json.dumps(held))
        known = {"label": exp.name, "seed": exp.seed, "algorithm": type(exp.algorithm).__name__}
        folder.mark("running", **known, versions=_versions(), **facts)
        folder._text("advice.json", json.dumps(predict(exp), indent=1))
        return folder

    def mark(self, status: str, **facts: Any) -> None:
        """Note how the run stands: running, interrupted, diverged or done."""
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        known = self.info() if (self.path / "run.json").exists() else {"started": now}
        self._text(
            "run.json", json.dumps(known | facts | {"status": status, "updated": now}, indent=1)
        )

    def save_network(self, exp: Experiment) -> None:
        """The graph, and how able its rows and links are."""
        self._text("network.json", json.dumps(_network(exp)))

    def info(self) -> dict[str, Any]:
        """What run.json says."""
        found: dict[str, Any] = self._json("run.json")
        return found

    def save(self, checkpoint: Checkpoint) -> None:
        """The state after a round, once the metrics that belong to it are on disk."""
        with (self.path / _METRICS).open("rb") as metrics:
            os.fsync(metrics.fileno())
        parts = checkpoint.encode(table_hash(self._config()))
        self._replace(_CHECKPOINT, lambda file: file.writelines(parts))
        (self.path / _OLD_CHECKPOINT).unlink(missing_ok=True)

    def save_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Replace the evaluations so far."""
        self._text(_METRICS, "".join(map(json_line, rows)))
        (self.path / _OLD_METRICS).unlink(missing_ok=True)

    def add_metrics(self, row: dict[str, Any]) -> None:
        """Add one evaluation; whoever follows the file sees it at once."""
        with (self.path / _METRICS).open("a", encoding="utf-8") as file:
            file.write(json_line(row))

    def save_fired(self, record: Record) -> None:
        """What fired, for `schedules.Replay`."""
        self._replace(
            "fired.npz",
            lambda file: np.savez_compressed(file, allow_pickle=False, **record.arrays()),
        )

    def experiment(self) -> Experiment:
        """The experiment, made again from config.toml."""
        return comparison_from(self._config()).experiments[0]

    def check_same(self, exp: Experiment) -> None:
        """Refuse to go on with another experiment than the one that was begun here."""
        if self._config() != tomllib.loads(experiment_to_toml(exp)):
            raise ConfigError(
                f"{self.path} holds another experiment than the one to resume. Give another folder."
            )

    def rows(self) -> list[dict[str, Any]]:
        """The evaluations so far."""
        return self._metrics().rows()

    def checkpoint(self) -> Checkpoint | None:
        """Where the run can go on, if it was saved at all."""
        if (path := self.path / _CHECKPOINT).exists():
            try:
                return Checkpoint.read(path, table_hash(self._config()))
            except DamagedError as error:
                raise CheckpointError(f"{error} Delete the folder and run again.") from error
        old = self.path / _OLD_CHECKPOINT
        return read_npz(old, str(self.info()["algorithm"])) if old.exists() else None

    def read(self) -> Run:
        """The whole folder."""
        advice = self._json("advice.json") if (self.path / "advice.json").exists() else {}
        held = self._json("holdings.json") if (self.path / "holdings.json").exists() else []
        return Run(
            self.path,
            self.info(),
            self._config(),
            self._json("network.json"),
            self._metrics(),
            advice,
            held,
        )

    def _config(self) -> dict[str, Any]:
        if not (self.path / "config.toml").exists():
            raise DataError(f"{self.path} has no config.toml. Is it the folder of a run?")
        return read_file(self.path / "config.toml")

    def _metrics(self) -> Table:
        if (self.path / _METRICS).exists():
            return read_json_lines(self.path / _METRICS)
        old = self.path / _OLD_METRICS
        return read_parquet(old) if old.exists() else Table({})

    def _json(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(
                f"{self.path / name} cannot be read ({error}). Is {self.path} the folder of a run?"
            ) from error

    def _text(self, name: str, text: str) -> None:
        self._replace(name, lambda file: file.write(text.encode()))

    def _replace(self, name: str, write: Callable[[IO[bytes]], Any]) -> None:
        replace_file(self.path / name, write)


def replace_file(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Replace a file so that a reader, or a crash, finds the old content or all of the new."""
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def find_runs(path: Path) -> list[RunFolder]:
    """The run folders at or directly below a path, in the order in which they were started."""
    places = [path, *(entry for entry in path.iterdir() if entry.is_dir())] if path.is_dir() else []
    found = [RunFolder(place) for place in places if (place / "run.json").exists()]
    found.sort(key=lambda folder: str(folder.info().get("started")))
    if not found:
        raise DataError(
            f"{path} holds no run. "
            "Give a folder that `peerloom run` made, or one of the folders in it."
        )
    return found


def folder_name(exp: Experiment) -> str:
    """The name of a run's folder within its comparison."""
    letters = (letter if letter.isalnum() or letter in "-_." else "-" for letter in exp.name)
    safe = "".join(letters)[:60].strip(".")
    if safe != exp.name:  # two labels must not end in one folder
        safe += "-" + hashlib.blake2b(exp.name.encode(), digest_size=3).hexdigest()
    return f"{safe}-seed{exp.seed}"


def comparison_at(path: Path) -> Comparison:
    """The comparison a folder holds: its experiment.toml, or the runs that lie in it."""
    if (path / "experiment.toml").exists():
        return comparison_from(read_file(path / "experiment.toml"), path.name)
    return Comparison(path.name, tuple(folder.experiment() for folder in find_runs(path)))


def _network(exp: Experiment) -> dict[str, Any]:
    """Return the graph as a report draws it, with the probabilities of the first round.

    Those that are still to be measured are 1.
    """
    known = exp.measured(Bernoulli()) if exp.measures else exp
    resources = known.able.bind(exp.graph, Draws(exp.seed))
    where = exp.graph.positions
    clipped = resources.clipped() if hasattr(resources, "clipped") else (0, 0)
    return {
        "name": exp.graph.name,
        "rows": exp.graph.rows,
        "directed": exp.graph.directed,
        "positions": None if where is None else where.tolist(),
        "node_probability": resources.node_probability(0).tolist(),
        "clipped": {"nodes": clipped[0], "links": clipped[1]},
        "layers": {
            name: {
                "source": links.src.tolist(),
                "target": links.dst.tolist(),
                "weight": links.a.tolist(),
                "probability": resources.link_probability(0, name).tolist(),
            }
            for name, links in exp.graph.layers.items()
        },
    }


def _holdings(exp: Experiment) -> list[list[int]]:
    """Who holds how much of each class, as the run deals it."""
    return (
        exp.problem.holdings(exp.graph.clients, Draws(exp.seed))
        if isinstance(exp.problem, Classification)
        else []
    )


def _versions() -> dict[str, Any]:
    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "not installed as a package"

    packages = ("networkx", "numpy", "scipy", "torch")
    found: dict[str, Any] = {
        "peerloom": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
    }
    return found | {name: of(name) for name in packages} | {"threads": torch.get_num_threads()}
