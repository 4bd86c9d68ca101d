"""The experiment file that a command speaks of, as the command line changes it."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from ..config import override, read_file

__all__ = ["load"]

EXAMPLE = "dspodfl.toml"


def load(file: Path | None, settings: list[str], seed: int | None) -> tuple[dict[str, Any], str]:
    """Return the table of a file or the built-in example, with --set and --seed; and its name."""
    with as_file(files("peerloom") / "examples" / EXAMPLE) as example:
        table = override(read_file(file or example), settings)
    if seed is not None:
        table.pop("seeds", None)
        table["seed"] = seed
    return table, file.stem if file else "example"
