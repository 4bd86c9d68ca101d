"""`peerloom export`: the model of a run as a safetensors file."""

from __future__ import annotations

from pathlib import Path

from ..experiment import Experiment
from ..runs import RunFolder
from ..runs.export import export_run, has_statistics
from .console import show

__all__ = ["describe_export", "export_command"]


def export_command(folder: Path, file: Path, row: int | None, as_json: bool) -> None:
    """Write the model and say what it is."""
    run = RunFolder(folder)
    about = export_run(run, file, row)
    show({"file": str(file), **about}, describe_export(file, run.experiment(), about), as_json)


def describe_export(file: Path, exp: Experiment, about: dict[str, str]) -> str:
    """Say what was written, for people."""
    rounds = f"round {about['round']} of {about['rounds']}"
    text = f"{file}: {about['model']}, {rounds}, {exp.problem.n} parameters"
    if has_statistics(exp):
        text += (
            "\nThe statistics of its batch norm are not trained, so they are not in it: before "
            "use, run samples of your own through the module in train() mode."
        )
    return text
