"""`peerloom up`: a whole federation of real processes on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from ..peers.federation import Federation
from ..peers.peer import check_stop
from .console import err
from .run import folders_of, prepare, report_results

__all__ = ["up_command"]


def up_command(
    file: Path | None,
    settings: list[str],
    seed: int | None,
    out_dir: Path | None,
    deadline: float | None,
    free: bool,
    as_json: bool,
) -> None:
    """Run the experiments of a file in turn, each as a federation, and report the results."""
    comparison, out = prepare(file, settings, seed, out_dir, check_stop)
    folders = folders_of(comparison, out)
    with Live(console=err, transient=True, refresh_per_second=5) as live:
        for exp, folder in zip(comparison.experiments, folders, strict=True):
            federation = Federation(exp, folder, deadline, free)
            title = f"{exp.name}, seed {exp.seed}: {exp.graph.rows} processes"
            federation.run(lambda rows, title=title: live.update(_table(title, rows)))  # type: ignore[misc]
            federation.collect()
    report_results(folders, out / "report.html", comparison.title, as_json)


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table("peer", "round", "rounds/s", "loss", "links up", "restarts", title=title)
    for row in rows:
        links, loss = row["links"], row["last"].get("loss")
        table.add_row(
            row["name"],
            f"{row['round']} of {row['rounds']}",
            f"{row['rounds_per_second']:.0f}",
            "" if loss is None else f"{loss:.4g}",
            f"{sum(link['up'] for link in links)} of {len(links)}",
            str(row["incarnation"] - 1),
        )
    return table
