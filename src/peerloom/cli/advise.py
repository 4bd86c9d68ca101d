"""`peerloom advise`: what theory says about the experiments of a file."""

from __future__ import annotations

import sys
from pathlib import Path

from ..config import comparison_from
from ..core import ConfigError
from ..theory import advise_all
from .advice import render
from .console import err, show
from .files import load

__all__ = ["advise_command"]


def advise_command(
    file: Path | None, settings: list[str], seed: int | None, constants: list[str], as_json: bool
) -> None:
    """Advise on every experiment of a file; ends with 2 if one of them cannot work."""
    table, name = load(file, settings, seed)
    comparison = comparison_from(table, name)
    given = dict(_constant(text) for text in constants)
    found = []
    with err.status("reckoning") as status:
        for advice in advise_all(comparison.experiments, given):
            found.append(advice)
            status.update(f"reckoning: {advice.label}, seed {advice.seed}")
    works = all(advice.works for advice in found)
    document = {
        "title": comparison.title,
        "works": works,
        "experiments": [advice.to_dict() for advice in found],
    }
    show(document, render(comparison.title, found), as_json)
    if not works:
        sys.exit(ConfigError.exit_code)


def _constant(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError as error:
        raise ConfigError(f"--constant {text}: write NAME=NUMBER, such as smoothness=2.") from error
