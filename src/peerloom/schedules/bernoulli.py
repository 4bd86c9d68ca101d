"""Sporadic compute and sporadic links: a coin per row and per link in every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import checked
from ..core import ConfigError, Draws, Links, Network, Rate, rate_at, uniform
from .distributions import Distribution
from .fixed import recorded
from .rates import ActivityRates, Span, observed_links, observed_nodes

__all__ = ["Bernoulli", "BernoulliActivity"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


@checked
@dataclass(frozen=True, eq=False)
class Bernoulli:
    """v_i ~ Bernoulli(d_i), vhat_ij ~ Bernoulli(b_ij), all independent (DSpodFL, Spod-GT).

    `nodes`: a probability, one per row [m], a law to draw them from, or the activity itself, bool
    [rounds + 1, m]. `links`: a probability, an array [m, m] (receiver first), a law, or the
    activity itself, bool [rounds + 1, m, m]. On undirected graphs both directions of a link share a
    coin and a probability; on directed ones each has its own.

    Probabilities are clipped to at least `clip`: their reciprocals are delays, which have no mean
    under most laws otherwise. A 0 that is given, not drawn, stays and means never. `redraw` = N
    draws probabilities that follow a law anew every N rounds. `seed` fixes these draws
    independently of the run's seed.

    With `nodes_follow`, a rate that shrinks, clients compute more often as it does (DSpodFL,
    Theorems I.5 and K.5): `nodes` are the d_i of the first round, and

        d_i^(k) = 1 - (1 - d_i) alpha^(k) / alpha^(0),   alpha^(k) the rate of round k + 1.

    A gradient then costs 1 / d_i^(k), that of its own round.

    `compat` lets links fire as in DSpodFL's published code, to explain a published number: "or"
    tosses a coin at both ends and takes either, "latch" leaves a link on for good once it has
    fired. Costs still use b_ij.
    """

    nodes: float | ArrayLike | Distribution = 1.0
    links: float | ArrayLike | Distribution = 1.0
    clip: float = 0.01
    redraw: int | None = None
    seed: int | None = None
    nodes_follow: Rate | None = None
    compat: tuple[Literal["or", "latch"], ...] = ()

    def __post_init__(self) -> None:
        if self.compat and not isinstance(self.links, Distribution) and not has_coins(self.links):
            raise ConfigError(
                f"Bernoulli.compat = {self.compat!r} would have no effect: it says how coins fall, "
                "but `links` says round by round which links fire. Leave one of the two out."
            )
        if not 0 < self.clip <= 1:
            raise ConfigError(f"Bernoulli.clip must be above 0 and at most 1, found {self.clip}.")
        if self.redraw is not None and self.redraw < 1:
            raise ConfigError(f"Bernoulli.redraw must be at least 1 round, found {self.redraw}.")
        for name, given in (("nodes", self.nodes), ("links", self.links)):
            if isinstance(given, Distribution) or not has_coins(given):
                continue
            table = np.asarray(given)
            if not (np.issubdtype(table.dtype, np.number) and ((table >= 0) & (table <= 1)).all()):
                raise ConfigError(
                    f"Bernoulli.{name} must be probabilities from 0 to 1, a law such as Beta, "
                    f"or bools; found {given!r}."
                )
        if self.nodes_follow is not None and not self._can_rise:
            raise ConfigError(
                "Bernoulli.nodes_follow has no effect where clients always compute, or where their "
                "activity is given: give probabilities below 1, or a law, as nodes."
            )

    @property
    def _can_rise(self) -> bool:
        nodes = self.nodes
        return isinstance(nodes, Distribution) or (has_coins(nodes) and bool(np.min(nodes) < 1))

    def bind(self, network: Network, draws: Draws) -> BernoulliActivity:
        """The coins of every row and link of this network."""
        return BernoulliActivity(self, network, draws)

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """The probabilities; an activity given as bools is observed."""
        activity, fair = self.bind(network, draws), has_coins(self.nodes)
        coins = None
        if has_coins(self.links):
            coins = {name: activity.link_chance(span.start, name) for name in network.layers}
        return ActivityRates(
            coins=coins,
            period=dict.fromkeys(network.layers, 1),
            links=coins or observed_links(activity, network, span.observed),
            nodes=activity.node_chance(span.start)
            if fair
            else observed_nodes(activity, network, span.observed),
            fair=fair and self.nodes_follow is None,
            observed=0 if coins else span.observed,
            redraw=self.redraw,
            nodes_follow=self.nodes_follow,
        )


class BernoulliActivity:
    """A Bernoulli schedule on a network: coins for the rows, and for each layer of links."""

    def __init__(self, schedule: Bernoulli, network: Network, draws: Draws) -> None:
        rows = network.rows
        self._nodes = Coins(
            "node", schedule.nodes, network.workers, schedule, draws, follow=schedule.nodes_follow
        )
        self._links = {
            name: Coins(
                f"link/{name}",
                _of_links(schedule.links, links),
                links.coin,
                schedule,
                draws,
                schedule.compat,
            )
            for name, links in network.layers.items()
        }
        self._written_nodes = recorded(
            "Bernoulli.nodes", _bools(schedule.nodes), (network.clients,)
        )
        self._written_links = recorded("Bernoulli.links", _bools(schedule.links), (rows, rows))
        self._network = network

    def nodes(self, t: int) -> Bools:
        """v_i ~ Bernoulli(d_i)."""
        return self._nodes.flip(t) if self._written_nodes is None else self._written_nodes(t)

    def links(self, t: int, layer: str) -> Bools:
        """vhat_ij ~ Bernoulli(b_ij), by the link's coin."""
        if self._written_links is None:
            return self._links[layer].flip(t)
        links = self._network.layers[layer]
        return self._written_links(t)[links.dst, links.src]

    def node_probability(self, t: int) -> Floats:
        """d_i."""
        return self._nodes.able(t)

    def link_probability(self, t: int, layer: str) -> Floats:
        """b_ij."""
        return self._links[layer].able(t)

    def node_chance(self, t: int) -> Floats:
        """The probability that each client computes: d_i, and 0 where a 0 was given."""
        return self._nodes.chance(t)

    def link_chance(self, t: int, layer: str) -> Floats:
        """The probability that each link fires: b_ij, and 0 where a 0 was given."""
        return self._links[layer].chance(t)

    def clipped(self) -> tuple[int, int]:
        """How many rows and (directed) links had their first probability clipped."""
        return self._nodes.clipped(0), sum(coins.clipped(0) for coins in self._links.values())


class Coins:
    """A family of coins with ids: their probabilities, and how they fall in round t."""

    def __init__(
        self,
        stream: str,
        given: Any,
        ids: Ids,
        schedule: Bernoulli,
        draws: Draws,
        compat: tuple[str, ...] = (),
        follow: Rate | None = None,
    ) -> None:
        self._follow = follow
        self._either, self._latch = "or" in compat, "latch" in compat
        # Of a latch: the last round it has seen, and what is on after it.
        self._seen, self._on = 0, np.zeros(len(ids), bool)
        self._stream, self._given, self._ids = stream, given, ids
        self._schedule, self._draws = schedule, draws
        self._epoch, self._raw, self._used = -1, np.empty(0), np.empty(0)
        self._law_seed = draws.seed if schedule.seed is None else schedule.seed
        if (
            has_coins(given)
            and not isinstance(given, Distribution)
            and np.shape(given) not in ((), (len(ids),))
        ):
            raise ConfigError(
                f"Bernoulli: {np.size(given)} probabilities were given for {len(ids)} rows, "
                f"in shape {np.shape(given)}. Give one number, or [{len(ids)}]."
            )

    def flip(self, t: int) -> Bools:
        """How the coins of round t fall."""
        return self._latched(t) if self._latch else self._toss(t)

    def _toss(self, t: int) -> Bools:
        return self._draws(self._stream, t, self._ids)[:, 0] < self._tossed(t)

    def _latched(self, t: int) -> Bools:
        """On once fired; starts over when asked for an earlier round."""
        if t < self._seen:
            self._seen, self._on = 0, np.zeros(len(self._ids), bool)
        for earlier in range(self._seen + 1, t + 1):
            self._on = self._on | self._toss(earlier)
        self._seen = max(t, self._seen)
        return self._on

    def chance(self, t: int) -> Floats:
        """The probability that each fires in round t; 0 where a 0 was given."""
        if not self._latch:
            return self._tossed(t)
        return np.asarray(
            1 - np.prod([1 - self._tossed(earlier) for earlier in range(1, t + 1)], axis=0)
        )

    def _tossed(self, t: int) -> Floats:
        """The probability of one toss: of one coin, or of either of two with "or"."""
        return 1 - (1 - self._risen(t)) ** 2 if self._either else self._risen(t)

    def able(self, t: int) -> Floats:
        """The probabilities that delays are computed with: never below the clip."""
        return np.maximum(self._risen(t), self._schedule.clip)

    def clipped(self, t: int) -> int:
        """How many probabilities were raised to the clip."""
        return int((self._drawn(t) != self._raw).sum())

    def _risen(self, t: int) -> Floats:
        """The probabilities of round t: as drawn, or risen while the rate they follow shrinks."""
        if self._follow is None:
            return self._drawn(t)
        first, now = rate_at(self._follow, 1), rate_at(self._follow, t)
        if now > first:
            raise ConfigError(
                f"Bernoulli.nodes_follow must shrink, but it is {now:g} in round {t} and {first:g} "
                "in the first: probabilities would fall below those that were given."
            )
        return 1 - (1 - self._drawn(t)) * (now / first)

    def _drawn(self, t: int) -> Floats:
        """The probabilities: clipped, but 0 where a 0 was given."""
        redraw = self._schedule.redraw
        epoch = max(t - 1, 0) // redraw if redraw else 0  # rounds count from 1
        if epoch != self._epoch:
            self._epoch, clip = epoch, self._schedule.clip
            if isinstance(self._given, Distribution):
                self._raw = self._given.sample(
                    uniform(self._law_seed, f"law/{self._stream}", epoch, self._ids, lanes=2)
                )
                self._used = np.maximum(self._raw, clip)
            else:
                table = np.asarray(self._given)
                self._raw = np.broadcast_to(
                    1.0 if table.dtype == bool else table, len(self._ids)
                ).astype(np.float64)
                self._used = np.where(self._raw > 0, np.maximum(self._raw, clip), 0.0)
        return self._used


def has_coins(given: Any) -> bool:
    """Whether probabilities or a law were given, rather than the activity itself."""
    return isinstance(given, Distribution) or np.asarray(given).dtype != bool


def _bools(given: Any) -> NDArray[np.bool_] | None:
    return None if has_coins(given) else np.asarray(given)


def _of_links(given: Any, links: Links) -> Any:
    """Turn probabilities [m, m] into one per link; refuses two for one coin."""
    if isinstance(given, Distribution):
        return given
    table = np.asarray(given)
    if table.dtype == bool or table.ndim == 0:
        return given
    if table.shape != (links.rows, links.rows):
        raise ConfigError(
            f"Bernoulli.links has shape {table.shape}; give one number, "
            f"or [{links.rows}, {links.rows}]."
        )
    one_coin = links.coin != links.dst * links.rows + links.src
    uneven = np.flatnonzero(one_coin & (table[links.dst, links.src] != table[links.src, links.dst]))
    if len(uneven):
        i, j = links.dst[uneven[0]], links.src[uneven[0]]
        raise ConfigError(
            f"Bernoulli.links[{i}, {j}] is {table[i, j]}, but [{j}, {i}] is {table[j, i]}. "
            "On an undirected graph both directions share one coin: "
            "make them equal, or use a directed graph."
        )
    return table[links.dst, links.src]
