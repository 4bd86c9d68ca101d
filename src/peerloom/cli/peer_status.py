"""`peerloom peer status`: what a peer last wrote of itself, for people."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..errors import DataError
from ..peers.status import WORKING, read_status
from ..transport import Home
from ..transport.files import is_locked
from ..transport.reasons import REASONS

__all__ = ["status_of", "told"]


def status_of(folder: Path) -> list[dict[str, Any]]:
    """Return the status of every run of this peer; `alive` if a process works on it now."""
    places = sorted(path.parent for path in Home.open(folder).state.glob("*/status.json"))
    if not places:
        raise DataError(
            f"No run was ever started in {folder}. Start one: peerloom peer start FILE --folder "
            f"{folder}"
        )
    found = []
    for place in places:
        run = {"run": place.name, **read_status(place), "alive": is_locked(place)}
        if run["status"] in WORKING and not run["alive"]:
            run["status"] = "killed"
        found.append(run)
    return found


def told(runs: list[dict[str, Any]]) -> RenderableType:
    """The same for people."""
    return Group(*(part for run in runs for part in _run(run)))


def _run(run: dict[str, Any]) -> list[RenderableType]:
    last, seconds = run["last"], run["seconds"]
    figures = [
        f"{name} {last[name]:.4g}" for name in ("loss", "accuracy") if last.get(name) is not None
    ]
    judged = f", {', '.join(figures)} at round {last['round']}" if figures else ""
    busy = seconds["compute"] + seconds["wait"]
    share = f", {seconds['wait'] / busy:.0%} of the time in mixing" if busy else ""
    place = f"run {run['run']}: {run['status']}, round {run['round']} of {run['rounds']}"
    lines = [f"{place}, {run['rounds_per_second']:.1f} rounds/s{share}{judged}"]
    if run["alive"] and seconds["waiting"] > 1:
        lines.append(f"waiting for neighbours for {seconds['waiting']:.0f} s")
    checkpoint = run["checkpoint"]
    lines.append(f"checkpoint of round {checkpoint['round']}, started {run['incarnation']} times, "
                 f"roster version {run['roster']['version']}, told {_ago(run['updated'])}")  # fmt: skip
    if run["agreement"]["consensus"] is not None:
        lines.append(f"consensus error of all peers about {run['agreement']['consensus']:.3g}, "
                     f"this peer's distance from the mean about {run['agreement']['distance']:.3g}")  # fmt: skip
    if run.get("error"):
        lines.append(f"it failed: {run['error']}")
    for why, count in sorted(run["refusals"].items()):
        meaning = REASONS.get(why.removeprefix("by_peer_"), "")
        by = "neighbours refused this peer" if why.startswith("by_peer_") else "refused"
        lines.append(f"{by} {count} times: {why.removeprefix('by_peer_')} ({meaning})")
    table = Table("neighbour", "from it", "to it", "lag", "trip", "received", "sent", "drops")
    for name in sorted({link["peer"] for link in run["links"]}):
        links = {link["direction"]: link for link in run["links"] if link["peer"] == name}
        into, out = links.get("in"), links.get("out")
        table.add_row(
            name, _state(into), _state(out), "" if into is None or into["lag"] is None else str(into["lag"]),
            "" if out is None or out["rtt"] is None else f"{1000 * out['rtt']:.1f} ms", _moved(into, "applied", "stale"),
            _moved(out, "acked"), str(sum(sum(link["reconnects"].values()) for link in links.values())),
        )  # fmt: skip
    return [Text("\n".join(lines)), table]


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
