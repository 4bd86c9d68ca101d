"""The disk that a run needs, and a budget that it keeps to."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..core import Draws, Ledger
from ..errors import ConfigError
from ..experiment import Experiment
from ..runtime import trace
from ..transport import History
from .folder import PeerFolder
from .wire_plan import WirePlan

__all__ = ["Disk", "checked_need", "disk_need", "disk_of", "parse_bytes", "show_bytes"]

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SAMPLED = 20  # rounds looked at, to know whether links of a row fire together
_LINE = 1024  # bytes of an evaluation's line, and of what else is noted with it
_ALARM = 0.9  # of the budget
_WRITTEN = 3  # checkpoints: two, and one that is being written


def parse_bytes(text: str) -> int:
    """Return the bytes of a text such as 50GB.

    >>> parse_bytes("1.5 GB")
    1500000000
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?B)\s*", text)
    if found is None:
        raise ConfigError(f"'{text}' is no amount of bytes: write it as 500MB or 50GB.")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def show_bytes(count: float) -> str:
    """Return an amount of bytes, for people.

    >>> show_bytes(1_500_000_000)
    '1.5 GB'
    """
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def disk_need(exp: Experiment, row: int, plan: WirePlan, judged: int | None) -> dict[str, int]:
    """Return the most bytes that a row's run takes, by what for; history, if kept, comes on top.

    `judged` is how many evaluated models are kept; None for all.
    """
    number = exp.torch_dtype.itemsize
    longest = max(channel.longest for channel in plan.channels.values())
    layers = [exp.graph.layers[name] for name in plan.layers.values()]
    receivers = max((int((part.src == row).sum()) for part in layers), default=0)
    sources = max((int((part.dst == row).sum()) for part in layers), default=0)
    bodies = 1 if _sends_alike(exp, row) else receivers
    kept = (plan.kept + plan.ahead + plan.mixings) * bodies * longest
    state = len(trace(exp.algorithm).state._fields) * number * exp.problem.n
    ledger = sum(values.nbytes for values in Ledger(exp.graph).arrays().values())
    evaluations = sum(exp.evaluate.due(t, exp.rounds) for t in range(exp.rounds + 1))
    models = evaluations if judged is None else min(evaluations, judged)
    large = plan.maps_rows
    inbox = plan.inbox + 2  # one that is coming, and the newest, which is shown
    return {
        "checkpoints": _WRITTEN * (state + ledger + (0 if large or plan.free else kept)),
        "sent": kept if large else 0,
        "inbox": inbox * sources * longest if large else 0,
        "judged": models * (number * exp.problem.n + ledger),
        "log": evaluations * _LINE,
    }


def _sends_alike(exp: Experiment, row: int) -> bool:
    """Whether a row sends all receivers the same bodies: then each is kept once."""
    if exp.message.per_link or exp.measures:
        return False
    activity = exp.active_schedule.bind(exp.graph, Draws(exp.seed))
    return all(
        len(np.unique(activity.links(t, name)[part.src == row])) <= 1
        for t in range(1, _SAMPLED + 1)
        for name, part in exp.graph.layers.items()
    )


def checked_need(
    exp: Experiment,
    row: int,
    plan: WirePlan,
    folder: Path,
    judged: int | None,
    budget: int | None,
    answers: int = 0,
) -> str:
    """Return the need as one line, for people. Refuses a need beyond the budget, with a table.

    `answers` are the bytes that the journal of a loop of one's own may take.
    """
    need = disk_need(exp, row, plan, judged) | {"answers": answers}
    total, free = sum(need.values()), shutil.disk_usage(folder).free
    if budget is not None and total > budget:
        rows = [*need.items(), ("together", total), ("budget", budget), ("free now", free)]
        table = "\n".join(f"  {what:<12} {show_bytes(count):>9}" for what, count in rows if count)
        raise ConfigError(
            "This run may need more disk than it is allowed.\n"
            f"{table}\nGive it more (--disk, or [disk] budget in site.toml), or evaluate less "
            "often."
        )
    parts = ", ".join(f"{what} {show_bytes(count)}" for what, count in need.items() if count)
    allowed = "no budget" if budget is None else f"a budget of {show_bytes(budget)}"
    there = f"{show_bytes(free)} free now"
    short = "; THAT IS TOO LITTLE" if total > free else ""
    return f"disk: up to {show_bytes(total)} ({parts}); {allowed}, {there}{short}"


def disk_of(folder: Path) -> int | None:
    """Return the budget that a site's `site.toml` sets; None for none.

    [disk]
    budget = "50GB"
    """
    file = folder / "site.toml"
    if not file.exists():
        return None
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8")).get("disk", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.") from error
    if not found:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("budget"), str):
        raise ConfigError(f'{file}: write [disk] budget = "50GB".')
    return parse_bytes(found["budget"])


class Disk:
    """Keeps a run within its budget: alarms, then gives up evaluated models, then the history.

    Rosters, checkpoints and what neighbours may ask for again are never given up.
    """

    def __init__(
        self,
        folder: PeerFolder,
        budget: int | None,
        history: History | None,
        alarm: Callable[[str], None],
    ) -> None:
        self._folder, self.budget, self._history, self._alarm = folder, budget, history, alarm
        self._told = ""

    def used(self) -> dict[str, int]:
        """Return the bytes in the run's folder, by what for."""
        found = dict.fromkeys(("checkpoints", "sent", "judged", "history", "log"), 0)
        for path in self._folder.path.rglob("*"):
            try:
                size = path.stat().st_size if path.is_file() else 0
            except FileNotFoundError:  # it was removed meanwhile
                continue
            found[_kind(path.relative_to(self._folder.path))] += size
        return found

    def check(self) -> None:
        """Compare use and budget, and make room if there is none left."""
        if self.budget is None:
            return
        used = sum(self.used().values())
        if used >= self.budget:
            used -= self._folder.give_up_judged(used - self.budget + 1)
            self._tell("full", "evaluated models are given up")
        if used >= self.budget and self._history is not None:
            self._history.give_up()
            self._history = None
            used = sum(self.used().values())
            self._alarm("disk: the history of links is given up, to keep to the budget")
        if used >= self.budget:
            self._tell("over", "nothing is left to give up; checkpoints go on")
        elif used >= _ALARM * self.budget:
            self._tell("near", f"{show_bytes(used)} are used")
        else:
            self._told = ""

    def _tell(self, what: str, text: str) -> None:
        if self._told != what:
            self._told = what
            self._alarm(f"disk: {text}, of a budget of {show_bytes(self.budget or 0)}")


def _kind(path: Path) -> str:
    first = path.parts[0]
    if first.startswith(("checkpoint-", ".checkpoint-")):
        return "checkpoints"
    if first in ("sent", "judged"):
        return first
    return "history" if first == "history.jsonl" else "log"
