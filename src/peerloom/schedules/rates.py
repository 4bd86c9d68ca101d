"""How often links fire and clients compute, as a schedule states it or as observed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..core import Activity, Draws, Network, Rate, Schedule

__all__ = [
    "ActivityRates",
    "HasRates",
    "Sampling",
    "Span",
    "all_together",
    "observed_links",
    "observed_nodes",
    "rates_of",
]

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


class Span(NamedTuple):
    """The rounds that rates are asked for."""

    start: int = 1  # the round whose probabilities count, where they are drawn anew
    observed: int = 200  # first rounds to look at, where a schedule cannot be put in numbers


class Sampling(NamedTuple):
    """Clients that ask some of their neighbours now and then."""

    heard: dict[str, Ids]  # per layer, how many neighbours each client hears when it listens
    period: Ids  # rounds from one time to the next, of every client


@dataclass(frozen=True, eq=False)
class ActivityRates:
    """A schedule on a network in numbers.

    coins     per layer, the chance that a link fires in a talking round; None unless links are
              independent of each other
    period    per layer, rounds from one talking round to the next
    links     per layer, how often each link fires per round
    nodes     how often each client computes per round
    fair      whether clients compute independently of each other and of the round
    redraw    rounds after which probabilities are drawn anew; None if never
    one_link  whether exactly one link, drawn uniformly, fires in each round
    cycle     whether clients and links take turns: rounds of computing, then one of mixing
    sampling  who hears how many, where receivers draw their neighbours
    nodes_follow  the rate with which clients' idle rounds grow rarer; `nodes` are then those of the
              first round asked for
    observed  in how many first rounds links were counted; 0 where their rates are known
    """

    coins: dict[str, Floats] | None
    period: dict[str, int]
    links: dict[str, Floats]
    nodes: Floats
    fair: bool
    redraw: int | None = None
    one_link: bool = False
    cycle: bool = False
    sampling: Sampling | None = None
    nodes_follow: Rate | None = None
    observed: int = 0

    @property
    def common_period(self) -> int:
        """Rounds after which everything has happened once."""
        return math.lcm(*self.period.values()) if self.period else 1


@runtime_checkable
class HasRates(Protocol):
    """A schedule that states its rates, so that they need not be observed. Optional."""

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """The rates on this network, with these draws."""


def rates_of(schedule: Schedule, network: Network, draws: Draws, span: Span) -> ActivityRates:
    """The rates that a schedule states; where it does not, those of its first rounds."""
    if isinstance(schedule, HasRates):
        return schedule.rates(network, draws, span)
    activity = schedule.bind(network, draws)
    return ActivityRates(
        coins=None,
        period=dict.fromkeys(network.layers, 1),
        links=observed_links(activity, network, span.observed),
        nodes=observed_nodes(activity, network, span.observed),
        fair=False,
        observed=span.observed,
    )


def all_together(
    network: Network, period: dict[str, int], nodes: Floats | None = None
) -> ActivityRates:
    """Rates where a layer's links fire together, every `period` rounds.

    All clients compute in every round, unless `nodes` says how often.
    """
    ones = {name: np.ones(len(links)) for name, links in network.layers.items()}
    links = {name: values / period[name] for name, values in ones.items()}
    return ActivityRates(
        ones, period, links, np.ones(network.clients) if nodes is None else nodes, fair=True
    )


def observed_nodes(activity: Activity, network: Network, rounds: int) -> Floats:
    """How often clients compute in the first rounds."""
    if not rounds:
        return np.ones(network.clients)
    return np.asarray(np.mean([activity.nodes(t) for t in range(1, rounds + 1)], axis=0))


def observed_links(activity: Activity, network: Network, rounds: int) -> dict[str, Floats]:
    """How often links fire in the first rounds, per layer."""
    if not rounds:
        return {name: np.ones(len(links)) for name, links in network.layers.items()}
    return {
        name: np.asarray(np.mean([activity.links(t, name) for t in range(1, rounds + 1)], axis=0))
        for name in network.layers
    }
