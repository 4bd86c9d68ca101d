"""The document as tables to read."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

__all__ = ["render"]


def render(document: dict[str, Any]) -> RenderableType:
    """Milliseconds per round first, then every figure with what is wanted of it."""
    parts: list[RenderableType] = [Text(_machine(document["machine"]), style="dim")]
    if document["rounds"]:
        parts.append(_rounds(document["rounds"]))
    parts.append(_figures(document["lines"]))
    return Group(*parts)


def _machine(found: dict[str, Any]) -> str:
    return (
        f"torch {found['torch']}, {found['threads']} threads on {found['cpus']} CPUs; "
        f"products {found['gemm_gflops']:.0f} GFLOP/s, copies {found['bandwidth_gbs']:.1f} GB/s"
    )


def _rounds(entries: list[dict[str, Any]]) -> Table:
    table = Table(title="Milliseconds per round, best of several turns")
    table.add_column("case")
    for head in ("simulator", "papers' style", "NumPy loop", "bound"):
        table.add_column(head, justify="right")
    table.add_column("bound by")
    for entry in entries:
        ms = entry["ms"]
        figures = [_number(ms.get(who)) for who in ("simulator", "papers", "numpy")]
        table.add_row(entry["case"], *figures, _number(entry["bound_ms"]), entry["bound_by"])
    return table


def _figures(lines: list[dict[str, Any]]) -> Table:
    table = Table(title="Figures")
    table.add_column("case")
    table.add_column("what")
    for head in ("found", "wanted", "met"):
        table.add_column(head, justify="right")
    verdicts = {True: Text("yes", style="green"), False: Text("no", style="red"), None: Text("")}
    for line in lines:
        wanted = (
            ""
            if line["wanted"] is None
            else f"{line['sense']} {_number(line['wanted'])} {line['unit']}"
        )
        found = "failed" if line["value"] is None else f"{_number(line['value'])} {line['unit']}"
        what = line["what"] if line["error"] is None else f"{line['what']}: {line['error']}"
        # Text, not str: an error may hold square brackets, which rich would take for markup.
        table.add_row(line["case"], Text(what), found, wanted, verdicts[line["met"]])
    return table


def _number(value: float | None) -> str:
    """Three digits that matter."""
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"
