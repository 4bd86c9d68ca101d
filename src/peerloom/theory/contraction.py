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
from .drawn import drawn_rate
from .exact import mixing_rate
from .graph_facts import strong_parts
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
from .rule_facts import carried_share, mixings_of

__all__ = ["ENOUGH", "Contraction", "contraction", "hub_matrix", "pull_rate", "rounds_to_agree"]

Floats = NDArray[np.float64]

ENOUGH = 1e-6  # of the squared disagreement: models a thousand times closer count as agreed
_EPOCHS = 10  # draws of probabilities that are looked at, where they change
_LONG_RUN = 120  # clients up to which the rate in the long run is computed too


@dataclass(frozen=True, eq=False)
class Contraction:
    """What a round leaves of the expected squared disagreement.

    0 is agreement at once, 1 none ever.

    per_round  at the most, whatever the models; None where it is not known
    all_on     the same if every link fired in every round
    lasting    in the long run, at most per_round; None where it was not computed
    drawn      as the run's own links fire in its first rounds: a sample of one
    worst      the disagreement that shrinks least, one number per client
    """

    per_round: float | None
    all_on: float | None
    lasting: float | None
    drawn: float
    how: Literal["exact", "drawn"]
    worst: Floats | None = None
    skipped: tuple[str, ...] = ()

    @property
    def best(self) -> float:
        """The rate to count on.

        What was drawn may look too good, but sporadic links never beat all of them.
        """
        known = [rate for rate in (self.lasting, self.per_round) if rate is not None]
        return known[0] if known else max(self.drawn, self.all_on or 0.0)


def contraction(exp: Experiment, rates: ActivityRates, *, quick: bool = False) -> Contraction:
    """The contraction of an experiment's network under its schedule.

    Exact where links are independent coins or all fire together, else as they were drawn.
    """
    drawn = drawn_rate(exp, rates, 60 if quick else OBSERVED)
    if exp.graph.hubs:
        return _between_hubs(exp, rates, drawn)
    links, combines = exp.graph.peers, exp.algorithm.needs.combines
    whole = exp.message.fit == "whole"
    found = Contraction(None, None, None, drawn, "drawn")
    if carried_share(exp) is None:
        words = f"what {type(exp.message).__name__} does to agreement"
        found = _skip(found, f"{words}: figures are those of whole messages")
    if combines == "pull" and whole:
        try:
            found = replace(found, all_on=pull_rate(links, np.ones(len(links)))[0])
        except UnsettledError as error:
            found = _skip(found, f"contraction with every link on: {error}")
    pairs = rates.one_link and combines != "average" and whole
    coins = (
        rates.coins["peers"] if rates.coins is not None and combines == "pull" and whole else None
    )
    if coins is None and not pairs:
        return found
    try:
        if coins is not None:
            per_round, worst = pull_rate(links, coins)
        else:
            weights = links.a if combines == "pull" else np.full(len(links), 0.5)
            per_round, worst = _one_edge(links, weights)
    except UnsettledError as error:
        return _skip(found, f"contraction: {error}")
    lasting = None
    if coins is not None and rates.redraw is not None:
        per_round = max(per_round, *_later_rates(exp, rates.redraw))  # rho tilde is the largest
    elif coins is not None and per_round < 1 - 1e-12 and links.rows <= _LONG_RUN and not quick:
        lasting = mixing_rate(links, coins)
    return _per_round(exp, rates, replace(found, how="exact", worst=worst), per_round, lasting)


def _per_round(
    exp: Experiment,
    rates: ActivityRates,
    found: Contraction,
    per_talk: float,
    lasting: float | None,
) -> Contraction:
    """Turn rates of one mixing into rates of one round."""
    mixings, root = mixings_of(exp.algorithm), 1 / rates.period["peers"]
    return replace(
        found,
        per_round=per_talk ** (root * mixings),
        all_on=None if found.all_on is None else found.all_on**mixings,
        lasting=None if lasting is None else lasting ** (root * mixings),
    )


def _between_hubs(exp: Experiment, rates: ActivityRates, drawn: float) -> Contraction:
    zeta = hub_modulus(*hub_matrix(exp))
    together = rates.coins is not None and all(
        p.min(initial=1.0) == 1 for p in rates.coins.values()
    )
    if not together or exp.message.fit != "whole":
        return Contraction(None, zeta**2, None, drawn, "drawn")
    return Contraction(zeta ** (2 / rates.period["across"]), zeta**2, None, drawn, "exact")


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


def rounds_to_agree(rate: float) -> int | None:
    """Rounds until the squared disagreement is a millionth; None if it never is."""
    if rate >= 1 - 1e-12:
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
