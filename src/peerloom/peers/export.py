"""Write a peer's model from its newest checkpoint, at any time and without a network."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..code import Loader, loading_code_by
from ..config import read_bytes, spec_hash
from ..errors import ConfigError, DataError
from ..experiment import Experiment
from ..runs.export import write_model
from ..transport import Home
from .experiments import only_experiment
from .folder import PeerFolder
from .site_code import SiteCode

__all__ = ["export_peer"]


def export_peer(
    home: Home, file: Path, run: str = "", code: Loader | None = None, peft: bool = False
) -> tuple[Experiment, dict[str, str]]:
    """Write the model of the newest checkpoint; return the experiment and the file's metadata.

    With `peft`, `file` becomes a folder with its adapters.
    """
    folder = _run(home, run)
    with loading_code_by(code or SiteCode(home.folder)):
        exp = only_experiment(folder / "experiment.toml", _experiment(folder))
    found = PeerFolder(folder, spec_hash(exp)).checkpoints()
    if not found:
        raise DataError(
            f"{folder} has no checkpoint that can be read: the peer has not trained there yet."
        )
    facts = {"round": str(found[0].t), "rounds": str(exp.rounds), "model": f"peer {home.name}"}
    return exp, write_model(file, exp, found[0].state["x"][0], facts, peft)


def _experiment(folder: Path) -> bytes:
    """The file that a run wrote, whose hash names its folder: nothing of another one is parsed."""
    data = read_bytes(folder / "experiment.toml")
    if not hashlib.sha256(data).hexdigest().startswith(folder.name):
        raise DataError(
            f"{folder / 'experiment.toml'} was changed: its hash is not the name of its folder. "
            "Start this run again, and it is written anew."
        )
    return data


def _run(home: Home, start: str) -> Path:
    """Return the folder of the run whose name starts so; refuse where it is not the only one."""
    runs = sorted(path.parent for path in home.state.glob("*/experiment.toml"))
    if not runs:
        raise DataError(
            f"No run was ever started in {home.folder}. Start one: peerloom peer start FILE"
        )
    found = [folder for folder in runs if folder.name.startswith(start)]
    if len(found) != 1:
        names = ", ".join(folder.name for folder in runs)
        what = (
            f"no run '{start}'"
            if not found
            else f"{len(found)} runs" + (f" that start with '{start}'" if start else "")
        )
        raise ConfigError(f"{home.folder} has {what}. Choose one with --run: {names}")
    return found[0]
