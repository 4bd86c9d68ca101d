"""`peerloom peer status`: what a peer last wrote of itself, for people."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..errors import DataError
from ..peers.status import WORKING, figures, read_status
from ..transport import Home
from ..transport.files import is_locked
from ..transport.reasons import REASONS
from ..transport.rostertime import warning

__all__ = ["describe_status", "status_of"]


def status_of(folder: Path) -> list[dict[str, Any]]:
    """Return the status of every run of this peer; `alive` if a process works on it now.

    Without one, `pid` is None: the number may be another process's by now.
    """
    runs = sorted(path.parent for path in Home.open(folder).state.glob("*/status.json"))
    if not runs:
        raise DataError(
            f"No run was ever started in {folder}. Start one: peerloom peer start FILE --folder "
            f"{folder}"
        )
    found = []
    for path in runs:
        run = {"run": path.name, **read_status(path), "alive": is_locked(path)}
        if not run["alive"]:
            run["pid"] = None
            if run["status"] in WORKING:
                run["status"] = "killed"
        found.append(run)
    return found


def describe_status(runs: list[dict[str, Any]]) -> RenderableType:
    """Return the status of runs as text and tables, for people."""
    parts: list[RenderableType] = []
    for run in runs:
        parts += [Text("\n".join(_lines(run))), _links(run["links"])]
    return Group(*parts)


def _lines(run: dict[str, Any]) -> list[str]:
    last, seconds = run["last"], run["seconds"]
    found = [f"{name} {value:.4g}" for name, value in figures(last).items()]
    judged = f", {', '.join(found)} at round {last['round']}" if found else ""
    busy = seconds["compute"] + seconds["wait"]
    share = f", {seconds['wait'] / busy:.0%} of the time in mixing" if busy else ""
    state = f"run {run['run']}: {run['status']}, round {run['round']} of {run['rounds']}"
    lines = [f"{state}, {run['rounds_per_second']:.1f} rounds/s{share}{judged}"]
    if run["alive"] and seconds["waiting"] > 1:
        lines.append(f"waiting for neighbours for {seconds['waiting']:.0f} s")
    lines.append(
        f"checkpoint of round {run['checkpoint']['round']}, started {run['incarnation']} times, "
        f"roster version {run['roster']['version']}, told {_ago(run['updated'])}"
    )
    about = warning(run["roster"]["version"], run["roster"].get("expires", 0), time.time())
    if about:
        lines.append(about)
    if run["agreement"]["consensus"] is not None:
        lines.append(
            f"consensus error of all peers about {run['agreement']['consensus']:.3g}, "
            f"this peer's distance from the mean about {run['agreement']['distance']:.3g}"
        )
    elif run["agreement"].get("unknown"):
        lines.append(f"how far peers agree is not known: {run['agreement']['unknown']}")
    if run.get("error"):
        lines.append(f"it failed: {run['error']}")
    for why, count in sorted(run["refusals"].items()):
        meaning = REASONS.get(why.removeprefix("by_peer_"), "")
        by = "neighbours refused this peer" if why.startswith("by_peer_") else "refused"
        lines.append(f"{by} {count} times: {why.removeprefix('by_peer_')} ({meaning})")
    return lines


def _links(links: list[dict[str, Any]]) -> Table:
    table = Table(
        "neighbour", "from it", "to it", "way", "lag", "trip", "received", "sent", "drops"
    )
    for name in sorted({link["peer"] for link in links}):
        ends = {link["direction"]: link for link in links if link["peer"] == name}
        into, out = ends.get("in"), ends.get("out")
        table.add_row(
            name,
            _state(into),
            _state(out),
            next((end["way"] for end in ends.values() if end.get("way")), ""),
            "" if into is None or into["lag"] is None else str(into["lag"]),
            "" if out is None or out["rtt"] is None else f"{1000 * out['rtt']:.1f} ms",
            _moved(into, "applied", "stale"),
            _moved(out, "acked"),
            str(sum(sum(end["reconnects"].values()) for end in ends.values())),
        )
    return table


def _state(link: dict[str, Any] | None) -> str:
    return "" if link is None else f"{'up' if link['up'] else 'DOWN'} {_span(link['since'])}"


def _moved(link: dict[str, Any] | None, *results: str) -> str:
    return "" if link is None else _bytes(sum(link["bytes"].get(result, 0) for result in results))


def _ago(then: float) -> str:
    return f"{_span(max(0.0, time.time() - then))} ago"


def _span(seconds: float) -> str:
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
