"""`peerloom doctor`: what is installed, found, missing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import torch
from packaging.requirements import Requirement
from rich.table import Table

from .. import __version__
from ..datasets import CATALOGUE, locate
from ..engines.memory import recycle_large_blocks
from .app import show

__all__ = ["doctor_command"]


def doctor_command(as_json: bool) -> None:
    """A table of facts, each with a verdict."""
    facts = [*_machine(), *_packages(), *_place(), _data()]
    table = Table("", "what", "found")
    for fact in facts:
        table.add_row("[green]ok[/]" if fact["ok"] else "[red]missing[/]", fact["what"], fact["found"])
    show({"ok": all(fact["ok"] for fact in facts), "facts": facts}, table, as_json)
    if not all(fact["ok"] for fact in facts):
        sys.exit(2)


def _machine() -> list[dict[str, Any]]:
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none; the CPU is used"
    python_fits = sys.version_info >= (3, 11)
    return [
        _fact("peerloom", __version__),
        _fact("python", f"{platform.python_version()} ({sys.executable})", python_fits),
        _fact("processors", f"{os.cpu_count()}, torch uses {torch.get_num_threads()} threads"),
        _fact("GPU", gpu),
        _fact("large blocks recycled", "yes" if recycle_large_blocks() else "no (not glibc): large models run slower"),
    ]


def _packages() -> list[dict[str, Any]]:
    """Every dependency, against the range that Peerloom asks for."""
    try:
        wanted = [Requirement(line) for line in requires("peerloom") or []]
    except PackageNotFoundError:
        return [_fact("package metadata", "peerloom is not installed; run pip install .", False)]
    facts = []
    for need in wanted:
        if need.marker is not None and not need.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(need.name)
            facts.append(
                _fact(need.name, f"{found} (wanted {need.specifier})", need.specifier.contains(found, prereleases=True))
            )
        except PackageNotFoundError:
            facts.append(_fact(need.name, f"not installed (wanted {need.specifier})", False))
    return facts


def _place() -> list[dict[str, Any]]:
    here = Path.cwd()
    free = shutil.disk_usage(here).free / 1e9
    return [_fact("runs are kept in", f"{here / 'runs'} ({free:.0f} GB free)", os.access(here, os.W_OK) and free > 0.1)]


def _data() -> dict[str, Any]:
    """Never a fault: most experiments need none of them."""
    found = [name for name, source in CATALOGUE.items() if locate(source)]
    return _fact("public data sets", f"{', '.join(found) or 'none'} (peerloom data list)")


def _fact(what: str, found: str, ok: bool = True) -> dict[str, Any]:
    return {"what": what, "found": found, "ok": ok}
