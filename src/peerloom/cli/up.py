"""`peerloom up`: a whole federation of real processes on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from ..errors import ConfigError, PeerError
from ..peers.federation import Federation
from ..peers.peer import check_stop
from ..peers.rehearsal import Rehearsal
from ..peers.status import figures, own_figures
from ..runtime.offload import usable_device
from .console import err, show
from .run import folders_of, prepare, report_results

__all__ = ["rehearse_command", "up_command"]


def up_command(
    file: Path | None,
    settings: list[str],
    seed: int | None,
    out_dir: Path | None,
    device: str,
    deadline: float | None,
    enough: float | None,
    free: bool,
    as_json: bool,
) -> None:
    """Run the experiments of a file in turn, each as a federation, and report the results."""
    usable_device(device)
    comparison, out = prepare(file, settings, seed, out_dir, check_stop)
    folders = folders_of(comparison, out)
    with Live(console=err, transient=True, refresh_per_second=5) as live:
        for exp, folder in zip(comparison.experiments, folders, strict=True):
            federation = Federation(exp, folder, deadline, free, enough=enough, device=device)
            title = f"{exp.name}, seed {exp.seed}: {exp.graph.rows} processes"
            federation.run(lambda rows, title=title: live.update(_table(title, rows)))  # type: ignore[misc]
            federation.collect()
    report_results(folders, out / "report.html", comparison.title, as_json)


def rehearse_command(
    file: Path | None,
    settings: list[str],
    seed: int | None,
    out_dir: Path | None,
    deadline: float | None,
    enough: float | None,
    site: str,
    data: Path | None,
    label: str,
    relay: bool,
    as_json: bool,
) -> None:
    """Rehearse an experiment as one site, with its own file, and show what is to be fixed."""
    if not site or data is None:
        raise ConfigError("A rehearsal needs both --as SITE and --data FILE.")
    comparison, out = prepare(file, settings, seed, out_dir, check_stop)
    if len(comparison.experiments) != 1:
        raise ConfigError("A rehearsal runs one experiment: one algorithm, one seed.")
    rehearsal = Rehearsal(
        comparison.experiments[0], out / "run", site, data, label, deadline, enough, relay
    )
    found = rehearsal.run(lambda text: err.print(text, highlight=False, markup=False))
    show(found, _findings(found), as_json)
    if found["to_fix"]:
        raise PeerError("The rehearsal failed: " + " ".join(found["to_fix"]))


def _findings(found: dict[str, Any]) -> Table:
    names = ("peer", "samples", "port", "round", "rounds/s", "disk", "memory", "exit code")
    table = Table(*names, title=f"Rehearsal as {found['site']}")
    for peer in found["peers"]:
        table.add_row(
            peer["peer"],
            peer["samples"],
            peer["address"].rpartition(":")[2] or "none",
            str(peer["round"]),
            f"{peer['rounds_per_second']:.0f}",
            f"{peer['disk_bytes'] / 1e6:.1f} MB",
            f"{peer['peak_bytes'] / 1e6:.0f} MB",
            str(peer["exit_code"]),
        )
    notes = [*found["events"], *(f"to fix: {text}" for text in found["to_fix"])]
    table.caption = "\n".join(notes if found["to_fix"] else [*notes, "nothing is to be fixed"])
    return table


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    own = list(dict.fromkeys(name for row in rows for name in own_figures(row["last"])))
    table = Table("peer", "round", "rounds/s", "loss", *own, "links up", "restarts", title=title)
    for row in rows:
        links, judged = row["links"], figures(row["last"])
        table.add_row(
            row["name"],
            f"{row['round']} of {row['rounds']}",
            f"{row['rounds_per_second']:.0f}",
            *(f"{judged[name]:.4g}" if name in judged else "" for name in ("loss", *own)),
            f"{sum(link['up'] for link in links)} of {len(links)}",
            str(row["incarnation"] - 1),
        )
    return table
