"""Which changes to its links would make an experiment's network agree faster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..experiment import Experiment
from .activity_rates import ActivityRates
from .contraction import Contraction, hub_matrix
from .improve import (
    WEIGHTS_UP_TO,
    Improvement,
    better_weights,
    new_hub_links,
    new_links,
    surer_links,
)
from .matrices import UnsettledError

__all__ = ["Changes", "changes_of"]

_SUGGEST_UP_TO = 2000  # clients for whom changes are tried


@dataclass(frozen=True)
class Changes:
    """What would make the network agree faster; contractions per mixing, squared."""

    now: float
    surer: tuple[Improvement, ...]
    fresh: tuple[Improvement, ...]
    # the contraction of the best weights; None where they were not looked for
    weights: float | None
    tuned: tuple[tuple[int, int, float], ...] = ()  # the best weights, as (source, target, weight)


def changes_of(
    exp: Experiment, rates: ActivityRates, mixing: Contraction
) -> tuple[Changes | None, tuple[str, ...]]:
    """The changes worth trying, and what was not looked for, with the reason."""
    if exp.graph.hubs:
        return _hub_changes(exp, mixing)
    links = exp.graph.peers
    if mixing.how == "unknown":
        return None, ()
    if mixing.times is None:
        return None, ("changes to links: this rule does not mix by their weights alone",)
    if rates.coins is None or mixing.worst is None:
        return None, ("changes to links: they need links that are independent coins",)
    if links.rows > _SUGGEST_UP_TO:
        return None, (f"changes to links: more than {_SUGGEST_UP_TO:,} clients",)
    now = (mixing.per_round or 0.0) ** (rates.period["peers"] / mixing.times)
    if now >= 1 - 1e-12:
        return None, ()
    p, skipped = rates.coins["peers"], []
    try:
        surer = surer_links(links, p, mixing.worst, now)
        fresh = new_links(links, p, mixing.worst, now)
    except UnsettledError as error:
        return None, (f"changes to links: {error}",)
    if fresh is None:
        skipped.append(
            "new links: the weights are your own, and a new link would not know how to change them"
        )
    best, tuned = None, np.empty(0)
    if not links.symmetric:
        skipped.append("better weights: only looked for on undirected graphs")
    elif links.rows > WEIGHTS_UP_TO:
        skipped.append(f"better weights: more than {WEIGHTS_UP_TO} clients")
    else:
        best, tuned = better_weights(links, p, now)
    # Not strict: there are none where better weights were not looked for.
    weights = zip(links.src.tolist(), links.dst.tolist(), tuned.tolist(), strict=False)
    return Changes(now, tuple(surer), tuple(fresh or ()), best, tuple(weights)), tuple(skipped)


def _hub_changes(exp: Experiment, mixing: Contraction) -> tuple[Changes | None, tuple[str, ...]]:
    """New links between the hubs; what ties a worker to its hub is not for choosing."""
    if mixing.all_on is None:
        return None, () if mixing.how == "unknown" else ("changes to links between hubs",)
    recipe, now = exp.graph.recipe, mixing.all_on
    if recipe.get("H") is not None or "hub_graph" not in recipe:
        return None, (
            "new links between hubs: H is your own, and a new link would not know how to change it",
        )
    if now >= 1 - 1e-12 or exp.graph.hubs < 3:
        return None, ()
    fresh = new_hub_links(recipe["hub_graph"], hub_matrix(exp)[1], now)
    return Changes(now, (), tuple(fresh), None), ()
