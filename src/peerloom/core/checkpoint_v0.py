"""Reads `state.npz`, the simulator's checkpoint up to Peerloom 0.1 (format 0).

To be removed after two minor versions.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from ..errors import CheckpointError
from .checkpoint import Checkpoint

__all__ = ["read_npz"]


def read_npz(path: Path, rule: str) -> Checkpoint:
    """Read the checkpoint of a `state.npz`; its folder says of which experiment it is."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            parts: dict[str, dict[str, np.ndarray]] = {"state": {}, "ledger": {}}
            for name in file.files:
                kind, _, field = name.partition("/")
                if kind in parts:
                    parts[kind][field] = file[name]
            rows = np.arange(len(parts["state"]["x"]))
            return Checkpoint(int(file["t"]), rows, rule, parts["state"], parts["ledger"])
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{path} cannot be read ({error}). Delete the folder and run again."
        ) from error
