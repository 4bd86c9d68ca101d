"""`peerloom export`: the model of a run as a safetensors file, or its adapters as a folder."""

from __future__ import annotations

from pathlib import Path

from ..experiment import Experiment
from ..problems import Loop
from ..runs import RunFolder
from ..runs.export import export_run, has_statistics
from .console import show

__all__ = ["describe_export", "export_command", "target"]


def target(output: Path | None, peft: bool) -> Path:
    """Where to write, if nothing is said."""
    return output or Path("adapter" if peft else "model.safetensors")


def export_command(
    folder: Path, output: Path | None, row: int | None, peft: bool, as_json: bool
) -> None:
    """Write the model and say what it is."""
    run, file = RunFolder(folder), target(output, peft)
    about = export_run(run, file, row, peft)
    show({"file": str(file), **about}, describe_export(file, run.experiment(), about), as_json)


def describe_export(file: Path, exp: Experiment, about: dict[str, str]) -> str:
    """Say what was written, for people."""
    rounds = f"round {about['round']} of {about['rounds']}"
    text = f"{file}: {about['model']}, {rounds}"
    if isinstance(exp.problem, Loop):
        return f"{text}, as one tensor 'x': only the loop's script knows the names of its parts."
    text += f", {exp.problem.n} parameters"
    if has_statistics(exp):
        text += (
            "\nThe statistics of its batch norm are not trained, so they are not in it: before "
            "use, run samples of your own through the module in train() mode."
        )
    return text
