"""`peerloom export`: the model of a run as a safetensors file."""

from __future__ import annotations

from pathlib import Path

from ..experiment import Experiment
from ..runs import RunFolder
from ..runs.export import export_run, has_statistics
from .app import show

__all__ = ["export_command", "told"]


def export_command(folder: Path, file: Path, row: int | None, as_json: bool) -> None:
    """Write the model and say what it is."""
    run = RunFolder(folder)
    about = export_run(run, file, row)
    show({"file": str(file), **about}, told(file, run.experiment(), about), as_json)


def told(file: Path, exp: Experiment, about: dict[str, str]) -> str:
    """What was written, for people."""
    text = f"{file}: {about['model']}, round {about['round']} of {about['rounds']}, {exp.problem.n} parameters"
    if has_statistics(exp):
        text += (
            "\nThe statistics of its batch norm are not trained, so they are not in it: before "
            "use, run samples of your own through the module in train() mode."
        )
    return text
