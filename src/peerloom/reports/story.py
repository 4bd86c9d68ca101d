"""What was compared, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .groups import Group, column, seed_of
from .network import link_count
from .summary import Summary
from .wording import capital, count_of, listed, plural

__all__ = ["basis", "compared"]


def compared(groups: Sequence[Group]) -> str:
    """Clients, graph, problem, seeds and rounds."""
    runs = [run for group in groups for run in group.runs]
    if not runs:
        return "There are no runs to report on."
    seeds = list(dict.fromkeys(seed_of(run) for run in runs))
    who = groups[0].label if len(groups) == 1 else plural(len(groups), "algorithm")
    rows = [int(run.network["rows"]) for run in runs if run.network.get("rows")]
    graphs = list(dict.fromkeys(str(run.network.get("name", "unknown")) for run in runs))
    links = [link_count(run.network) for run in runs if run.network.get("layers")]
    where = f"{count_of(rows or [0], 'client')} on {_article(graphs[0])} {listed(graphs)} graph"
    where += f" ({count_of(links, 'link')})" if links else ""
    done = [int(np.nanmax(column(run, "round"))) for run in runs if len(run.metrics)]
    length = count_of(done or [0], "round")
    over = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds ({listed(seeds)})"
    return f"{who}, {where}, {_problem(runs[0].config.get('problem'))}; {over}, runs of {length}."


def basis(summary: Summary) -> str:
    """How the numbers of the headline are defined."""
    seeds = {seed for one in summary.final for seed in one.seeds}
    over = f"; medians over {len(seeds)} seeds" if len(seeds) > 1 else ""
    kind = "" if summary.quality == "loss" else ", on the evaluation set"
    judged = f"{capital(summary.quality)}: mean over clients of each one's own model{kind}."
    return f"{judged} Delay: as run{over}."


def _problem(given: Any) -> str:
    """The problem as a file names it: its kind, model, data and partition."""
    if not isinstance(given, dict):
        return str(given or "a problem that was not recorded")
    kind = str(given.get("name", "problem"))
    model, data, deal = (_named(given.get(key)) for key in ("model", "data", "partition"))
    text = f"{kind.lower()} of {data}" if data else kind.lower()
    text += f" with model {model}" if model else ""
    return text + (f", samples dealt by {deal}" if deal else "")


def _named(given: Any) -> str:
    """A part by its name and its arguments: Labels(per_client = 1)."""
    if not isinstance(given, dict):
        return "" if given is None else str(given)
    simple = {
        key: value
        for key, value in given.items()
        if key != "name" and value is not False and not isinstance(value, list | dict)
    }
    rest = ", ".join(f"{key} = {value}" for key, value in simple.items())
    return f"{given.get('name', '')}({rest})" if rest else str(given.get("name", ""))


def _article(word: str) -> str:
    return "an" if word[:1].lower() in "aeiou" else "a"
