"""How fast a network agrees: what a round leaves of the squared disagreement."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..core import Links
from ..experiment import Experiment
from .activity_rates import OBSERVED, ActivityRates, activity_rates
from .drawn import ENOUGH, drawn_rate, typical_rate
from .graph_facts import strong_parts
from .long_run import steady_rate
from .matrices import (
    Moment,
    UnsettledError,
    expected,
    hub_modulus,
    laplacian,
    left_perron,
    pull_contraction,
    top_off,
)
from .mixing import mixing_of, rounds_to_ask

__all__ = ["ENOUGH", "Contraction", "contraction", "hub_matrix", "pull_rate", "rounds_to_agree"]

Floats = NDArray[np.float64]

_EPOCHS = 10  # draws of probabilities that are looked at, where they change


@dataclass(frozen=True, eq=False)
class Contraction:
    """What a round leaves of the squared disagreement, where there is nothing to learn.

    0 is agreement at once, 1 none ever.

    per_round  of the expected one, at the most, whatever the models; None where it is not known
    all_on     the same if every link fired in every round
    lasting    in the long run of a typical run
    drawn      as the run's own links fire in its first rounds: a sample of one
    how        whether per_round, or else lasting, is exact, or seen as links were drawn; "unknown"
               where nothing can be said, and then all are None
    worst      the disagreement that shrinks least in a round, one number per client
    times      how often a round mixes the models by the links' weights; None where the rule has a
               mixing step of its own
    why        why nothing can be said
    """

    per_round: float | None
    all_on: float | None
    lasting: float | None
    drawn: float | None
    how: Literal["exact", "drawn", "unknown"]
    worst: Floats | None = None
    times: int | None = None
    why: str = ""
    skipped: tuple[str, ...] = ()

    @property
    def best(self) -> float | None:
        """The rate to count on; None where there is none.

        What was drawn may look too good, but sporadic links never beat all of them.
        """
        for rate in (self.lasting, self.per_round):
            if rate is not None:
                return rate
        return None if self.drawn is None else max(self.drawn, self.all_on or 0.0)


def contraction(exp: Experiment, rates: ActivityRates, *, quick: bool = False) -> Contraction:
    """The contraction of an experiment's rule on its network, under its schedule.

    The rule is asked how it mixes. Exact where it mixes by the links' weights and these are
    independent coins, or where neither links nor the rule vary; else as they were drawn.
    """
    mixing = mixing_of(exp, rates)
    if mixing.unknown is not None:
        return Contraction(None, None, None, None, "unknown", why=mixing.unknown)
    found = Contraction(None, None, None, None, "drawn", times=mixing.times)
    if mixing.times is not None and exp.message.fit in ("whole", "rounded"):
        found = (_between_hubs if exp.graph.hubs else _by_weights)(exp, rates, found)
    last, period = rounds_to_ask(exp, rates), rates.common_period
    rounds = min(period * max(1, (60 if quick else OBSERVED) // period), 4 * OBSERVED, last - 1)
    if rounds < 1:
        return replace(found, drawn=1.0)
    found = replace(found, drawn=drawn_rate(mixing, rounds, period))
    by_chance = mixing.still.draws or exp.message.fit not in ("whole", "rounded")
    if by_chance or not _steady(rates):
        return replace(found, lasting=typical_rate(mixing, rounds, period, quick=quick))
    if found.per_round is not None and (exp.graph.hubs or exp.graph.peers.symmetric):
        return replace(found, lasting=found.per_round)  # the worst round is like any other
    lasting = steady_rate(mixing.still, period) if 2 * period < last else None
    return found if lasting is None else replace(found, lasting=lasting, how="exact")


def _by_weights(exp: Experiment, rates: ActivityRates, found: Contraction) -> Contraction:
    """What is exact of a rule that mixes by the links' weights."""
    links, combines = exp.graph.peers, exp.algorithm.needs.combines
    if combines == "pull":
        try:
            all_on = pull_rate(links, np.ones(len(links)))[0] ** (found.times or 1)
            found = replace(found, all_on=all_on)
        except UnsettledError as error:
            found = _skip(found, f"contraction with every link on: {error}")
    coins = rates.coins["peers"] if rates.coins is not None and combines == "pull" else None
    pairs = rates.one_link and combines != "average"
    # Several mixings over the same few links that fire are not several draws of them.
    if not pairs and (coins is None or (found.times != 1 and not _all(coins))):
        return found
    try:
        if coins is not None:
            per_talk, worst = pull_rate(links, coins)
        else:
            weights = links.a if combines == "pull" else np.full(len(links), 0.5)
            per_talk, worst = _one_edge(links, weights)
    except UnsettledError as error:
        return _skip(found, f"contraction: {error}")
    if coins is not None and rates.redraw is not None:
        per_talk = max(per_talk, *_later_rates(exp, rates.redraw))  # rho tilde is the largest
    root = (found.times or 1) / rates.period["peers"]
    return replace(found, how="exact", worst=worst, per_round=per_talk**root)


def _between_hubs(exp: Experiment, rates: ActivityRates, found: Contraction) -> Contraction:
    """What is exact where workers only take over what their hubs agree on."""
    zeta = hub_modulus(*hub_matrix(exp))
    found = replace(found, all_on=zeta**2)
    if not _steady(rates):
        return found
    return replace(found, how="exact", per_round=zeta ** (2 / rates.period["across"]))


def _steady(rates: ActivityRates) -> bool:
    """Whether the same links fire in every period."""
    return rates.coins is not None and rates.redraw is None and all(map(_all, rates.coins.values()))


def _all(coins: Floats) -> bool:
    return bool(np.isin(coins, (0.0, 1.0)).all())


def _later_rates(exp: Experiment, redraw: int) -> list[float]:
    """The contraction under the next probabilities that are drawn; 0 where there are none."""
    starts = range(1 + redraw, exp.rounds + 1, redraw)[: _EPOCHS - 1]
    coins = [activity_rates(exp, start).coins for start in starts]
    return [
        0.0,
        *(pull_rate(exp.graph.peers, some["peers"])[0] for some in coins if some is not None),
    ]


def _skip(found: Contraction, why: str) -> Contraction:
    return replace(found, skipped=(*found.skipped, why))


def pull_rate(links: Links, p: Floats) -> tuple[float, Floats]:
    """`pull_contraction` in the norm that fits: uniform for symmetric links, else Perron's.

    1 if cut apart.
    """
    if strong_parts(links, p > 0) > 1:
        return 1.0, np.zeros(links.rows)
    phi = None if links.symmetric else left_perron(expected(links, p))
    return pull_contraction(links, p, phi)


def hub_matrix(exp: Experiment) -> tuple[Floats, Floats]:
    """H between the hubs, columns summing to one, and b, the hubs' shares of all weight."""
    network = exp.graph
    first, across, up = network.clients, network.layers["across"], network.layers["up"]
    H = across.matrix("a")[first:, first:].T
    home = up.dst - first
    given = network.recipe.get("weights")
    w = np.ones(network.clients) if given is None else np.asarray(given, np.float64)
    heft = np.bincount(home, w[up.src], network.hubs)
    return H, heft / heft.sum()


def rounds_to_agree(rate: float | None) -> int | None:
    """Rounds until the squared disagreement is a millionth; None if it never is, or not known."""
    if rate is None or rate >= 1 - 1e-12:
        return None
    return 1 if rate < ENOUGH else math.ceil(math.log(ENOUGH) / math.log(rate))


def _one_edge(links: Links, a: Floats) -> tuple[float, Floats]:
    """The contraction where one random link fires per round, both ways.

    E[P'P] = I - (1/E) sum over pairs of 2 a (1 - a) (e_i - e_j)(e_i - e_j)'
    """
    m, chance = links.rows, 1 / max(1, len(np.unique(links.coin)))
    q = chance * a * (1 - a)  # a pair is there twice, once in each direction
    moment = Moment(sp.eye_array(m).tocsr(), np.ones(m), -laplacian(links, q))
    if not links.symmetric:
        raise UnsettledError("one random link per round is only reckoned with on undirected graphs")
    return top_off(moment, np.full(m, m**-0.5), moment, np.ones(m))
