"""Schedules that pick some links per round: one pair, many, one node, one hop, random receivers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arguments import checked
from ..core import ConfigError, Draws, Links, Network
from .fixed import FixedActivity
from .rates import ActivityRates, Span

__all__ = ["Epidemic", "OneEdge", "OneNode", "OnePeer", "RandomPairs"]

Bools = NDArray[np.bool_]
Ids = NDArray[np.int64]
_ALL = np.zeros(1, np.int64)  # the id of a draw that belongs to no row


@checked
@dataclass(frozen=True)
class OneEdge:
    """Exactly one link, drawn uniformly, fires in each round (Boyd et al.).

    It fires in both directions where these share a coin.
    """

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """One coin number per round."""
        coins = {name: np.unique(links.coin) for name, links in network.layers.items()}

        def fires(t: int, layer: str) -> Bools:
            links, known = network.layers[layer], coins[layer]
            if not len(known):
                return np.zeros(0, bool)
            chosen = known[int(draws(f"one edge/{layer}", t, _ALL)[0, 0] * len(known))]
            return np.asarray(links.coin == chosen)

        return _computing_always(network, fires)

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """Every link once in as many rounds as there are coins."""
        return ActivityRates(
            coins=None,
            period=dict.fromkeys(network.layers, 1),
            links={
                name: np.full(len(links), 1 / max(1, len(np.unique(links.coin))))
                for name, links in network.layers.items()
            },
            nodes=np.ones(network.clients),
            fair=True,
            one_link=True,
        )


@checked
@dataclass(frozen=True)
class RandomPairs:
    """Clients meet in disjoint random pairs, drawn anew in each round.

    Links are taken in a random order, each whose two ends are still free. Where all know each other
    everyone has a partner, or all but one, and every pairing is as likely: NoLoCo's groups of two.
    On other graphs some more may stay alone for a round.
    """

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """A pairing per round."""
        if network.hubs or network.directed:
            raise ConfigError(
                f"RandomPairs needs undirected links between clients, but graph '{network.name}' "
                f"{'has hubs' if network.hubs else 'is directed'}. Use 'complete' or 'regular'."
            )
        coins = {
            name: np.unique(links.coin, return_index=True) for name, links in network.layers.items()
        }

        def fires(t: int, layer: str) -> Bools:
            links, (known, first) = network.layers[layer], coins[layer]
            order = np.argsort(draws(f"pairs/{layer}", t, known)[:, 0], kind="stable")
            chosen = _taken_in_turn(links.dst[first[order]], links.src[first[order]], links.rows)
            return np.isin(links.coin, known[order[chosen]])

        return _computing_always(network, fires)


@checked
@dataclass(frozen=True)
class OneNode:
    """One node, drawn uniformly, wakes and sends in each round.

    It sends along each of its links with probability `links`. It and those that hear it compute,
    and all others rest; so does a node that wakes and sends to nobody. For `GossipPushPull`.
    """

    links: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.links <= 1:
            raise ConfigError(f"OneNode.links must be a probability above 0, found {self.links}.")

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """One sender per round, and a coin for each of its links."""

        def fires(t: int, layer: str) -> Bools:
            links = network.layers[layer]
            awake = int(draws(f"one node/{layer}", t, _ALL)[0, 0] * links.rows)
            coins = draws(f"one node/{layer}/links", t, links.dst * links.rows + links.src)[:, 0]
            return np.asarray((links.src == awake) & (coins < self.links))

        def computes(t: int) -> Bools:
            takes_part = np.zeros(network.rows, bool)
            for name, links in network.layers.items():
                live = fires(t, name)
                takes_part[links.src[live]] = takes_part[links.dst[live]] = True
            return takes_part[: network.clients]

        return FixedActivity(network, computes, fires)

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """Every link alike; a client computes when it wakes and sends, or is sent to."""
        rests = np.ones(network.clients)
        for links in network.layers.values():
            sends = 1 - (1 - self.links) ** links.out_degree
            rests *= 1 - ((sends + self.links * links.in_degree) / links.rows)[: network.clients]
        return ActivityRates(
            coins=None,
            period=dict.fromkeys(network.layers, 1),
            links={
                name: np.full(len(links), self.links / links.rows)
                for name, links in network.layers.items()
            },
            nodes=1 - rests,
            fair=False,
        )


@checked
@dataclass(frozen=True)
class OnePeer:
    """The one-peer exponential graph: one hop per round, in turn.

    In round t client i sends to i + 2^((t - 1) mod tau) only, with tau the number of hops. For the
    graph `exponential`, which is the union of these.
    """

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """One hop per round, in turn."""
        hops = (network.rows - 1).bit_length()

        def fires(t: int, layer: str) -> Bools:
            links = network.layers[layer]
            hop = 2 ** (max(t - 1, 0) % hops)
            live = (links.dst - links.src) % links.rows == hop % links.rows
            if live.sum() != links.rows:
                raise ConfigError(
                    f"OnePeer needs every link i -> i + {hop}, which '{network.name}' lacks. "
                    "Use 'exponential'."
                )
            return np.asarray(live)

        return _computing_always(network, fires)


@checked
@dataclass(frozen=True)
class Epidemic:
    """Every client sends to `s` random others in each round (Epidemic Learning).

    By default each sender draws independently (EL-Local), so some clients receive many messages and
    some none. With `oracle` everyone also receives exactly s (EL-Oracle): clients are numbered at
    random, and each sends to those that come s random shifts after it. For the graph `complete`.
    """

    s: int
    oracle: bool = False

    def __post_init__(self) -> None:
        if self.s < 1:
            raise ConfigError(f"Epidemic.s must be at least 1, found {self.s}.")

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """Senders pick receivers."""
        for links in network.layers.values():
            if len(links) != links.rows * (links.rows - 1):
                raise ConfigError(
                    "Epidemic sends from anyone to anyone, "
                    f"but '{network.name}' has not all links. Use 'complete'."
                )
            if self.s >= links.rows:
                raise ConfigError(
                    f"Epidemic.s must be below the number of clients, {links.rows}; found {self.s}."
                )
        pick = self._regular if self.oracle else self._independent
        return _computing_always(network, lambda t, layer: pick(t, network.layers[layer], draws))

    def _independent(self, t: int, links: Links, draws: Draws) -> Bools:
        u = draws("epidemic", t, links.dst * links.rows + links.src)[:, 0]
        table = np.full((links.rows, links.rows), 2.0)  # by sender; nobody sends to itself
        table[links.src, links.dst] = u
        limit = np.partition(table, self.s - 1, axis=1)[:, self.s - 1]
        return np.asarray(u <= limit[links.src])

    def _regular(self, t: int, links: Links, draws: Draws) -> Bools:
        rows = np.arange(links.rows)
        place = np.argsort(np.argsort(draws("epidemic/place", t, rows)[:, 0]))
        shifts = 1 + np.argsort(draws("epidemic/shift", t, rows[1:])[:, 0])[: self.s]
        return np.isin((place[links.dst] - place[links.src]) % links.rows, shifts)


def _taken_in_turn(one: Ids, other: Ids, rows: int) -> Bools:
    """Which of some links are taken, one after the other, whose two ends are still free.

    All that come first at both of their ends at once, until none is left.
    """
    place, chosen, open_ = np.arange(len(one)), np.zeros(len(one), bool), np.ones(len(one), bool)
    while open_.any():
        earliest = np.full(rows, len(one))
        for end in (one, other):
            np.minimum.at(earliest, end[open_], place[open_])
        now = open_ & (earliest[one] == place) & (earliest[other] == place)
        chosen |= now
        taken = np.zeros(rows, bool)
        taken[one[now]] = taken[other[now]] = True
        open_ &= ~(taken[one] | taken[other])
    return chosen


def _computing_always(network: Network, fires: Callable[[int, str], Bools]) -> FixedActivity:
    every = np.ones(network.clients, bool)
    return FixedActivity(network, lambda t: every, fires)
