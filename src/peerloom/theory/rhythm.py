"""How often links fire and clients compute under a schedule, as far as theory can use it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core import Activity, Draws, Links, Network, Schedule
from ..experiment import Experiment
from ..schedules import Always, Bernoulli, Cycle, Every, HubRounds, OneEdge, Sampled, Split
from ..schedules.bernoulli import has_coins

__all__ = ["LOOKED_AT", "Rhythm", "asked", "rhythm"]

Floats = NDArray[np.float64]

LOOKED_AT = 200  # rounds that are looked at where a schedule cannot be put in numbers


@dataclass(frozen=True, eq=False)
class Rhythm:
    """A schedule in numbers.

    coins   per layer, the chance that a link fires in a talking round, all links independent; None where they are not
    period  rounds from one talking round to the next, per layer
    links   per layer, how often each link fires per round
    nodes   how often each client computes per round
    fair    whether clients' coins are independent of each other and of the round
    """

    coins: dict[str, Floats] | None
    period: dict[str, int]
    links: dict[str, Floats]
    nodes: Floats
    fair: bool
    changes: bool = False  # probabilities are drawn anew now and then

    @property
    def beat(self) -> int:
        """Rounds after which everything has happened once."""
        return math.lcm(*self.period.values()) if self.period else 1


def rhythm(exp: Experiment) -> Rhythm:
    """The rhythm of the schedule that really runs."""
    return _of(exp.active_schedule, exp.graph, Draws(exp.seed), min(LOOKED_AT, exp.rounds))


def _of(schedule: Schedule, network: Network, draws: Draws, rounds: int) -> Rhythm:
    if isinstance(schedule, Split):
        links, nodes = (_of(half, network, draws, rounds) for half in (schedule.links, schedule.nodes))
        return replace(links, nodes=nodes.nodes, fair=nodes.fair, changes=nodes.changes or links.changes)
    if isinstance(schedule, Always):
        return _together(network, dict.fromkeys(network.layers, 1), np.ones(network.clients))
    if isinstance(schedule, Every):
        return _together(network, dict.fromkeys(network.layers, schedule.T0), np.ones(network.clients))
    if isinstance(schedule, Cycle):
        period = _cycle(schedule, network, draws)
        busy = 1.0 if schedule.sgd_while_aggregating else (period - 1) / period
        found = _together(network, dict.fromkeys(network.layers, period), np.full(network.clients, busy))
        return replace(found, fair=busy == 1)
    if isinstance(schedule, HubRounds):
        workers = _of(Bernoulli(nodes=schedule.nodes), network, draws, rounds)
        beats = {name: schedule.tau * (schedule.q if name == "across" else 1) for name in network.layers}
        return replace(_together(network, beats, workers.nodes), fair=workers.fair)
    if isinstance(schedule, Bernoulli):
        return _coins(schedule, network, draws, rounds)
    return _others(schedule, network, draws, rounds)


def _together(network: Network, period: dict[str, int], nodes: Floats) -> Rhythm:
    """All links of a layer fire together, every `period` rounds."""
    ones = {name: np.ones(len(links)) for name, links in network.layers.items()}
    return Rhythm(ones, period, {name: values / period[name] for name, values in ones.items()}, nodes, True)


def _coins(schedule: Bernoulli, network: Network, draws: Draws, rounds: int) -> Rhythm:
    activity, once = schedule.bind(network, draws), dict.fromkeys(network.layers, 1)
    fair, changes = has_coins(schedule.nodes), schedule.redraw is not None
    nodes = activity.node_chance(1) if fair else _seen_nodes(activity, network, rounds)
    if not has_coins(schedule.links):
        return Rhythm(None, once, _seen_links(activity, network, rounds), nodes, fair, changes)
    coins = {name: activity.link_chance(1, name) for name in network.layers}
    return Rhythm(coins, once, coins, nodes, fair, changes)


def _others(schedule: Schedule, network: Network, draws: Draws, rounds: int) -> Rhythm:
    """Links that are not independent: how often they fire is known, or seen."""
    once, nodes = dict.fromkeys(network.layers, 1), np.ones(network.clients)
    if isinstance(schedule, OneEdge):
        of = {name: np.full(len(links), 1 / max(1, len(np.unique(links.coin)))) for name, links in network.layers.items()}
        return Rhythm(None, once, of, nodes, True)
    if isinstance(schedule, Sampled):
        kappa = schedule.periods(network.rows, draws)
        of = {
            name: (asked(schedule, links) / links.in_degree.clip(1) / kappa)[links.dst]
            for name, links in network.layers.items()
        }
        return Rhythm(None, once, of, nodes, True)
    activity = schedule.bind(network, draws)
    return Rhythm(None, once, _seen_links(activity, network, rounds), _seen_nodes(activity, network, rounds), False)


def asked(schedule: Sampled, links: Links) -> NDArray[np.int64]:
    """How many neighbours each client hears when it listens: PaME's t_i."""
    return np.array([max(1, math.ceil(schedule.fraction * d - 1e-9)) for d in links.in_degree], np.int64)


def _cycle(schedule: Cycle, network: Network, draws: Draws) -> int:
    resources = None if schedule.resources is None else schedule.resources.bind(network, draws)
    return schedule.local_rounds(resources) + (schedule.period == "D+1")


def _seen_nodes(activity: Activity, network: Network, rounds: int) -> Floats:
    return np.mean([activity.nodes(t) for t in range(1, rounds + 1)], axis=0) if rounds else np.ones(network.clients)


def _seen_links(activity: Activity, network: Network, rounds: int) -> dict[str, Floats]:
    def mean(name: str) -> Floats:
        return np.asarray(np.mean([activity.links(t, name) for t in range(1, rounds + 1)], axis=0))

    return {name: mean(name) if rounds else np.ones(len(links)) for name, links in network.layers.items()}
