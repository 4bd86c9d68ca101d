"""How a rule mixes models, found by asking the rule: it is run where there is nothing to learn."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from ..codecs import Dense
from ..core import ConfigError
from ..experiment import Experiment
from .activity_rates import ActivityRates
from .linkwise import Linkwise
from .still import Still, random_rows

__all__ = ["Mixing", "mixing_of", "rounds_to_ask"]

_CLOSE = 1e-6  # of the models' size: float32 words pass for whole rows, float16 do not
_FIRINGS = 8  # of links that are waited for
_ROUNDS = 400  # that are looked at, at most
_COLUMNS = 64  # coordinates of the models that are run


@dataclass(frozen=True)
class Mixing:
    """How a rule mixes, on its experiment's network, schedule and message.

    still   the rule without gradients
    unknown why nothing can be said of how fast models agree; None where something can
    times   how often a round mixes the models by the links' weights; None where the rule has a
            mixing step of its own
    """

    still: Still
    unknown: str | None
    times: int | None = None


def mixing_of(exp: Experiment, rates: ActivityRates) -> Mixing:
    """Run a rule from random models, twice their sum, and at other scales.

    Nothing is known where what it makes of them is not linear: then there is no rate by which
    models of any size agree.
    """
    asked, often = Still(exp), sum(float(links.sum()) for links in rates.links.values())
    rounds = max(6, 2 * rates.common_period, math.ceil(_FIRINGS / max(often, 1e-9)))
    rounds = min(rounds, _ROUNDS, rounds_to_ask(exp, rates))
    if not asked.plain:
        return Mixing(asked, "its state is not made of one number per coordinate")
    try:
        why = _not_linear(asked, rounds)
    except ConfigError as error:  # the run will be refused as well
        why = str(error).rstrip(".")
    if why is not None:
        return Mixing(asked, why)
    whole = asked.under(replace(exp, message=Dense()))
    if exp.message.fit == "rounded":  # hardly: it was found to be linear
        asked = whole
    return Mixing(asked, None, None if asked.draws else _times(whole, rounds))


def rounds_to_ask(exp: Experiment, rates: ActivityRates) -> int:
    """The last round that a schedule can be asked for: a table ends, what is stated goes on."""
    stated = rates.fair and (rates.coins is not None or rates.one_link or rates.sampling)
    return 1 << 30 if stated else exp.rounds


def _not_linear(still: Still, rounds: int) -> str | None:
    exp = still.exp
    columns = min(exp.problem.n, _COLUMNS)
    one, two = (random_rows(exp.seed, f"probe/{k}", still.clients, columns) for k in (1, 2))
    first, second, both, small, large = (
        np.stack([state.x[: still.clients] for state in still.states(models, rounds)])
        for models in (one, two, one + two, 1e-6 * one, 1e6 * one)
    )
    size = np.abs(first).max() + np.abs(second).max()
    gaps = (both - first - second, 1e6 * small - first, 1e-6 * large - first)
    if max(float(np.abs(gap).max()) for gap in gaps) <= _CLOSE * size:
        return None
    told = f" with {exp.message!r}" if exp.message.fit != "whole" else ""
    return f"what {type(exp.algorithm).__name__}{told} makes of the models is not linear"


def _times(still: Still, rounds: int) -> int | None:
    """How often the links' own mixing must be done to give what the rule makes of models."""
    exp, clients = still.exp, still.clients
    states = list(still.states(random_rows(exp.seed, "probe/1", clients, 4), rounds))
    size = max(float(np.abs(state.x).max()) for state in states)  # small after a small step
    linkwise = Linkwise(exp, [exp.seed])
    for times in range(1, max(1, still.mixings) + 1):
        for before, after in itertools.pairwise(states):
            x = before.x
            for _ in range(times):
                x = linkwise(after.t, x)
            if not np.allclose(x[:clients], after.x[:clients], rtol=0, atol=1e-9 * size):
                break
        else:
            return times
    return None
