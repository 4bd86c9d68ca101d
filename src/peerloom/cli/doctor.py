"""`peerloom doctor`: what is installed, found, missing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import torch
from rich.markup import escape
from rich.table import Table

from .. import __version__
from ..datasets import CATALOGUE, locate
from ..runtime import keep_freed_memory
from .console import show

__all__ = ["doctor_command"]

_EXTRAS = {
    "peer": "training between machines",
    "tables": "Parquet and polars",
    "png": "pictures as PNG",
}


def doctor_command(as_json: bool) -> None:
    """A table of facts, each with a verdict."""
    facts = [*_machine(), *_packages(), *_place(), _data()]
    table = Table("", "what", "found")
    for fact in facts:
        table.add_row(
            "[green]ok[/]" if fact["ok"] else "[red]missing[/]", fact["what"], escape(fact["found"])
        )
    show({"ok": all(fact["ok"] for fact in facts), "facts": facts}, table, as_json)
    if not all(fact["ok"] for fact in facts):
        sys.exit(2)


def _machine() -> list[dict[str, Any]]:
    gpu = "none; the CPU is used"
    if torch.cuda.is_available():
        gpu = f"{torch.cuda.get_device_name(0)}; runs have the same bits on one kind of device only"
    python_fits = sys.version_info >= (3, 11)
    return [
        _fact("peerloom", __version__),
        _fact("python", f"{platform.python_version()} ({sys.executable})", python_fits),
        _fact("processors", f"{os.cpu_count()}, torch uses {torch.get_num_threads()} threads"),
        _fact("GPU", gpu),
        _fact(
            "freed memory kept for the next round",
            "yes" if keep_freed_memory() else "no (not glibc): large models run slower",
        ),
    ]


def _packages() -> list[dict[str, Any]]:
    """Check every dependency's version; what is missing of an extra is no fault."""
    try:
        lines = [line for line in requires("peerloom") or [] if not line.startswith("peerloom[")]
    except PackageNotFoundError:
        return [_fact("package metadata", "peerloom is not installed; run pip install .", False)]
    wanted = [_Wanted.read(line) for line in lines]
    facts = [
        _fact(need.name, f"{need.found or 'not installed'} (wanted >={need.least})", need.fits)
        for need in wanted
        if not need.extra
    ]
    for extra, packages in _EXTRAS.items():
        lacking = [need.name for need in wanted if need.extra == extra and not need.fits]
        how = (
            f"without {', '.join(lacking)}: pip install 'peerloom[{extra}]'"
            if lacking
            else "installed"
        )
        facts.append(_fact(f"extra {extra}", f"{packages}: {how}"))
    return facts


@dataclass(frozen=True)
class _Wanted:
    """A line of the package's metadata, such as `polars>=1.0; extra == "tables"`."""

    name: str
    least: str
    extra: str

    @classmethod
    def read(cls, line: str) -> _Wanted:
        found = re.fullmatch(r"([\w.-]+)>=([\d.]+)(?:\s*;\s*extra == [\"'](\w+)[\"'])?", line)
        if found is None:
            raise ValueError(f"A dependency is not written as name>=version: {line}")
        return cls(found[1], found[2], found[3] or "")

    @property
    def found(self) -> str:
        """The version that is installed; empty where there is none."""
        try:
            return version(self.name)
        except PackageNotFoundError:
            return ""

    @property
    def fits(self) -> bool:
        """Whether it is installed, and new enough."""
        return _numbers(self.found) >= _numbers(self.least)


def _numbers(text: str) -> list[int]:
    """The numbers that a version begins with.

    >>> _numbers("2.10.0rc1+cpu") > _numbers("2.9")
    True
    """
    digits = re.match(r"\d+(\.\d+)*", text)
    return [int(part) for part in digits[0].split(".")] if digits else []


def _place() -> list[dict[str, Any]]:
    here = Path.cwd()
    free = shutil.disk_usage(here).free / 1e9
    return [
        _fact(
            "runs are kept in",
            f"{here / 'runs'} ({free:.0f} GB free)",
            os.access(here, os.W_OK) and free > 0.1,
        )
    ]


def _data() -> dict[str, Any]:
    """Never a fault: most experiments need none of them."""
    found = [name for name, source in CATALOGUE.items() if locate(source)]
    return _fact("public data sets", f"{', '.join(found) or 'none'} (peerloom data list)")


def _fact(what: str, found: str, ok: bool = True) -> dict[str, Any]:
    return {"what": what, "found": found, "ok": ok}
