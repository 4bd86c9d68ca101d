"""How fast a network agrees: what a round leaves of the squared disagreement, under the schedule that really runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..core import Draws, Links, uniform
from ..experiment import Experiment
from ..messages import Coordinates
from ..schedules import Bernoulli, OneEdge
from .exact import mixing_rate
from .matrices import Moment, UnsettledError, expected, hub_modulus, laplacian, left_perron, pull_contraction, top_off
from .rhythm import LOOKED_AT, Rhythm
from .shape import strong_parts

__all__ = ["ENOUGH", "Contraction", "contraction", "drawn_rate", "hub_matrix", "pull_rate", "rounds_to_agree"]

Floats = NDArray[np.float64]

ENOUGH = 1e-6  # of the squared disagreement: models a thousand times closer count as agreed
_EPOCHS = 10  # draws of probabilities that are looked at, where they change
_LONG_RUN = 120  # clients up to which the rate in the long run is computed too
_UNWEIGHTED = {"PaME": "average", "EpidemicLearning": "share", "PairwiseGossip": "share"}  # what does not pull with weights


@dataclass(frozen=True, eq=False)
class Contraction:
    """What a round leaves of the expected squared disagreement: 0 is agreement at once, 1 none ever.

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
        """The rate to reckon with. What was drawn may look too good, but sporadic links never beat all of them."""
        known = [rate for rate in (self.lasting, self.per_round) if rate is not None]
        return known[0] if known else max(self.drawn, self.all_on or 0.0)


def contraction(exp: Experiment, beat: Rhythm, *, quick: bool = False) -> Contraction:
    """Exact where links are independent coins or all fire together, else as they were drawn."""
    drawn = drawn_rate(exp, beat, 60 if quick else LOOKED_AT)
    if exp.graph.hubs:
        zeta = hub_modulus(*hub_matrix(exp))
        if beat.coins is None or any(p.min(initial=1.0) < 1 for p in beat.coins.values()) or exp.message.fit != "whole":
            return Contraction(None, zeta**2, None, drawn, "drawn")
        return Contraction(zeta ** (2 / beat.period["across"]), zeta**2, None, drawn, "exact")
    links = exp.graph.peers
    kind = _UNWEIGHTED.get(type(exp.algorithm).__name__, "pull")
    plain = kind == "pull" and exp.message.fit == "whole"
    skipped: list[str] = []
    if exp.message.fit != "whole" and not isinstance(exp.message, Coordinates):
        skipped.append(f"what {type(exp.message).__name__} does to agreement: figures are those of whole messages")
    every = np.ones(len(links))
    try:
        all_on = pull_rate(links, every)[0] if plain else None
    except UnsettledError as error:
        all_on = None
        skipped.append(f"contraction with every link on: {error}")
    schedule: Any = exp.active_schedule
    pairs = isinstance(schedule, OneEdge) and kind != "average" and exp.message.fit == "whole"
    if not pairs and (not plain or beat.coins is None):
        return Contraction(None, all_on, None, drawn, "drawn", skipped=tuple(skipped))
    try:
        if beat.coins is None:
            per_round, worst = _one_edge(links, links.a if kind == "pull" else np.full(len(links), 0.5))
        else:
            per_round, worst = pull_rate(links, beat.coins["peers"])
    except UnsettledError as error:
        return Contraction(None, all_on, None, drawn, "drawn", skipped=(*skipped, f"contraction: {error}"))
    if beat.changes and isinstance(schedule, Bernoulli) and schedule.redraw:  # rho tilde is the largest over rounds
        activity = schedule.bind(exp.graph, Draws(exp.seed))
        starts = range(1 + schedule.redraw, exp.rounds + 1, schedule.redraw)[: _EPOCHS - 1]
        per_round = max([per_round, *(pull_rate(links, activity.link_chance(t, "peers"))[0] for t in starts)])
    root = 1 / beat.period["peers"]
    lasting = None
    if beat.coins is not None and not beat.changes and per_round < 1 - 1e-12 and links.rows <= _LONG_RUN and not quick:
        lasting = mixing_rate(links, beat.coins["peers"]) ** root
    mixings = getattr(exp.algorithm, "K", 1) if type(exp.algorithm).__name__ == "ProxGT" else 1
    found = Contraction(per_round**root, all_on, lasting, drawn, "exact", worst, tuple(skipped))
    if mixings == 1:
        return found
    return replace(
        found,
        per_round=per_round ** (root * mixings),
        all_on=None if all_on is None else all_on**mixings,
        lasting=None if lasting is None else lasting**mixings,
    )


def pull_rate(links: Links, p: Floats) -> tuple[float, Floats]:
    """`pull_contraction` in the norm that fits: uniform for symmetric links, else the Perron vector's; 1 if cut apart."""
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


def drawn_rate(exp: Experiment, beat: Rhythm, rounds: int) -> float:
    """The mean factor per round of the squared disagreement, as the run's own links fire, from models without pattern.

    The second half of the rounds counts, when what shrinks fast is gone. Where messages carry some coordinates only, each of
    several coordinates has its own luck.
    """
    network, seed = exp.graph, exp.seed
    activity = exp.active_schedule.bind(network, Draws(seed))
    kind = _UNWEIGHTED.get(type(exp.algorithm).__name__, "pull")
    share = exp.message.count(exp.problem.n) / exp.problem.n if isinstance(exp.message, Coordinates) else 1.0
    layers = {name: _Layer(network.layers[name]) for name in exp.algorithm.needs.layers}
    many = max(1, *(len(layer.links) for layer in layers.values()))
    lanes = 4 if share == 1 else max(4, min(64, 1_000_000 // many))
    x = uniform(seed, "theory/probe", 0, np.arange(network.rows), lanes=lanes) - 0.5
    first = min(2, exp.rounds)  # the first round may be special: under Every it never talks
    length = min(beat.beat * max(1, rounds // beat.beat), exp.rounds - first + 1, 4 * rounds)
    logs: list[float] = []
    for t in range(first, first + length) if exp.rounds else ():
        before = _apart(x[: network.clients])
        for name, layer in layers.items():
            live = activity.links(t, name)[:, None]
            if share < 1:
                live = live & (uniform(seed, f"theory/coordinate/{name}", t, layer.ids, lanes=lanes) < share)
            x = layer.mixed(live.astype(np.float64), x, kind)
        size = _apart(x[: network.clients])
        if size <= 1e-24 * before:  # agreed to the last digit
            break
        logs.append(math.log(size / before))
        x = (x - x[: network.clients].mean(axis=0)) / math.sqrt(size)
    if len(logs) < length and not any(log < -1e-9 for log in logs):
        return 0.0 if exp.rounds and network.clients else 1.0
    late = logs[len(logs) // 2 // beat.beat * beat.beat :]
    return math.exp(sum(late) / len(late))


class _Layer:
    """A layer as matrices that gather at senders and add up at receivers."""

    def __init__(self, links: Links) -> None:
        self.links, self.ids = links, np.arange(len(links))
        self._into: Any = sp.csr_array((np.ones(len(links)), (links.dst, self.ids)), shape=(links.rows, len(links)))

    def mixed(self, live: Floats, x: Floats, kind: str) -> Floats:
        """What the live links make of x, one column of `live` for all columns of x or one for each."""
        weight = live * (self.links.a[:, None] if kind == "pull" else 1.0)
        mass, total = (np.asarray(self._into @ terms) for terms in (weight, weight * x[self.links.src]))
        if kind == "pull":
            return np.asarray(total + (1 - mass) * x)
        if kind == "share":
            return np.asarray((total + x) / (1 + mass))
        return np.asarray(np.where(mass > 0, total / np.maximum(mass, 1), x))


def _apart(x: Floats) -> float:
    return float(((x - x.mean(axis=0)) ** 2).sum())


def _one_edge(links: Links, a: Floats) -> tuple[float, Floats]:
    """One random link per round, both ways: E[P'P] = I - (1/E) sum over pairs of 2 a (1 - a) (e_i - e_j)(e_i - e_j)'."""
    m, chance = links.rows, 1 / max(1, len(np.unique(links.coin)))
    q = chance * a * (1 - a)  # a pair is there twice, once in each direction
    moment = Moment(sp.eye_array(m).tocsr(), np.ones(m), -laplacian(links, q))
    if not links.symmetric:
        raise UnsettledError("one random link per round is only reckoned with on undirected graphs")
    return top_off(moment, np.full(m, m**-0.5), moment, np.ones(m))
