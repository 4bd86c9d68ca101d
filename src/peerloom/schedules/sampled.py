"""Receivers that ask some neighbours now and then, and a schedule made of two."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import checked
from ..core import Activity, ConfigError, Draws, Links, Network, Schedule
from .fixed import Always, FixedActivity
from .rates import ActivityRates, Sampling, Span, observed_links, rates_of

__all__ = ["Sampled", "Split"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@checked
@dataclass(frozen=True, eq=False)
class Sampled:
    """Every kappa_i rounds client i receives from some random neighbours (PaME).

    It hears max(1, ceil(fraction_i |N_i|)) of them, drawn anew each time.
    `kappa` and `fraction` are one for all or one for each client; with `upto`, each client draws
    its own period from kappa to upto. In the first round everyone hears, as in PaME's iteration 0.
    Every client computes in every round; `Split` changes that.

    Where `resources` are given, such as `Bernoulli`, it hears the first that respond (section
    III-E). Round by round neighbour j needs

        T_ij = G_j + G_ij,   G_j ~ Geometric(d_j),  G_ij ~ Geometric(b_ij)

    tries until it has computed, which is the same for all that wait for it, and until its message
    is there; those with the least T_ij are heard, and among equals the draw decides, as it does
    without resources. Who never computes or sends is never heard. Gradients and messages then cost
    1 / d_i and 1 / b_ij, the means of these tries.
    """

    kappa: int | ArrayLike = 1
    fraction: float | ArrayLike = 1.0
    upto: int | None = None
    resources: Schedule | None = None

    def __post_init__(self) -> None:
        periods = np.asarray(self.kappa)
        if not np.issubdtype(periods.dtype, np.integer) or (periods < 1).any():
            raise ConfigError(
                f"Sampled.kappa must be whole numbers of at least 1 round, found {self.kappa!r}."
            )
        shares = np.asarray(self.fraction)
        numbers = shares.dtype.kind in "iuf" and shares.size > 0
        if not numbers or not ((shares > 0) & (shares <= 1)).all():
            raise ConfigError(
                "Sampled.fraction must be above 0 and at most 1, for all or for each client; "
                f"found {self.fraction!r}."
            )
        if self.upto is not None and (periods.ndim or self.upto < periods):
            raise ConfigError(
                "Sampled.upto must be at least kappa, one number; "
                f"found {self.upto} for {self.kappa!r}."
            )

    def periods(self, rows: int, draws: Draws) -> NDArray[np.int64]:
        """kappa_i of every client."""
        if self.upto is not None:
            u = draws.once("sampled/kappa", np.arange(rows))[:, 0]
            return np.asarray(self.kappa + np.floor(u * (self.upto - self.kappa + 1)), np.int64)  # type: ignore[operator]
        return np.asarray(_one_each("kappa", self.kappa, rows), np.int64)

    def heard(self, links: Links) -> NDArray[np.int64]:
        """How many neighbours each client hears when it listens: PaME's t_i."""
        shares = _one_each("fraction", self.fraction, links.rows)
        return np.asarray(np.maximum(1, np.ceil(shares * links.in_degree - 1e-9)), np.int64)

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """Every neighbour of a client as often as any other; with resources, as observed."""
        kappa = self.periods(network.rows, draws)
        heard = {name: self.heard(links) for name, links in network.layers.items()}
        if self.resources is not None:
            activity = self.bind(network, draws)
            return ActivityRates(
                coins=None,
                period=dict.fromkeys(network.layers, 1),
                links=observed_links(activity, network, span.observed),
                nodes=np.ones(network.clients),
                fair=True,
                observed=span.observed,
            )
        return ActivityRates(
            coins=None,
            period=dict.fromkeys(network.layers, 1),
            links={
                name: (heard[name] / links.in_degree.clip(1) / kappa)[links.dst]
                for name, links in network.layers.items()
            },
            nodes=np.ones(network.clients),
            fair=True,
            sampling=Sampling(heard, kappa),
        )

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """Per receiver, the neighbours with the least draws, or those that respond first."""
        kappa = self.periods(network.rows, draws)
        every_row = np.ones(network.clients, bool)
        wanted = {name: self.heard(links) for name, links in network.layers.items()}
        tries = None if self.resources is None else _Tries(self.resources, network, draws)

        def fires(t: int, layer: str) -> Bools:
            links = network.layers[layer]
            u = draws(f"sampled/{layer}", t, links.dst * links.rows + links.src)[:, 0]
            needed = np.zeros(len(links)) if tries is None else tries.at(t, layer)
            order = np.lexsort((u, needed, links.dst))
            rank = np.empty(len(u), np.int64)
            rank[order] = np.arange(len(u))
            rank -= np.searchsorted(links.dst, links.dst)  # links are sorted by receiver
            return np.asarray(
                (rank < wanted[layer][links.dst])
                & (max(t - 1, 0) % kappa[links.dst] == 0)
                & np.isfinite(needed)
            )

        resources = None if tries is None else tries.resources
        return FixedActivity(network, lambda t: every_row, fires, resources)


class _Tries:
    """How many tries the sender of every link needs in a round until its message is there."""

    def __init__(self, schedule: Schedule, network: Network, draws: Draws) -> None:
        self.resources = schedule.bind(network, draws)
        self._network, self._draws = network, draws
        rates = rates_of(schedule, network, draws, Span(observed=0))
        idle = np.append(rates.nodes == 0, np.zeros(network.hubs, bool))  # hubs compute nothing
        self._never = {
            name: (rates.links[name] == 0) | idle[links.src]
            for name, links in network.layers.items()
        }

    def at(self, t: int, layer: str) -> Floats:
        """T_ij of every link of a layer; infinite where no number of tries would do."""
        network, links = self._network, self._network.layers[layer]
        ids = links.dst * links.rows + links.src
        computing = np.zeros(network.rows)
        computing[: network.clients] = _until_success(
            self._draws("sampled/computing", t, network.workers)[:, 0],
            self.resources.node_probability(t),
        )
        sending = _until_success(
            self._draws(f"sampled/sending/{layer}", t, ids)[:, 0],
            self.resources.link_probability(t, layer),
        )
        return np.where(self._never[layer], np.inf, computing[links.src] + sending)


def _until_success(u: Floats, p: Floats) -> Floats:
    """Turn uniforms on [0, 1) into tries up to the first success: more than k with (1 - p)^k."""
    with np.errstate(divide="ignore"):  # a success that is certain takes one try
        return np.floor(np.log1p(-u) / np.log1p(-p)) + 1


def _one_each(name: str, given: ArrayLike, rows: int) -> NDArray[Any]:
    """A setting of every client, where one was given for all or one for each."""
    if np.ndim(given) and np.shape(given) != (rows,):
        raise ConfigError(
            f"Sampled.{name} has shape {np.shape(given)} for {rows} clients. Give one for each."
        )
    return np.broadcast_to(np.asarray(given), rows)


@checked
@dataclass(frozen=True, eq=False)
class Split:
    """Clients by one schedule, links by another, such as PaME with sporadic clients."""

    nodes: Schedule = field(default_factory=Always)
    links: Schedule = field(default_factory=Always)

    def bind(self, network: Network, draws: Draws) -> SplitActivity:
        """Both, bound."""
        return SplitActivity(self.nodes.bind(network, draws), self.links.bind(network, draws))

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """Those of the two halves."""
        links, nodes = (rates_of(half, network, draws, span) for half in (self.links, self.nodes))
        return replace(
            links,
            nodes=nodes.nodes,
            fair=nodes.fair,
            redraw=links.redraw or nodes.redraw,
            nodes_follow=nodes.nodes_follow,
        )


class SplitActivity:
    """Two activities, each asked for its own half."""

    def __init__(self, nodes: Activity, links: Activity) -> None:
        self._nodes, self._links = nodes, links

    def nodes(self, t: int) -> Bools:
        """Of the first."""
        return self._nodes.nodes(t)

    def links(self, t: int, layer: str) -> Bools:
        """Of the second."""
        return self._links.links(t, layer)

    def node_probability(self, t: int) -> Floats:
        """Of the first."""
        return self._nodes.node_probability(t)

    def link_probability(self, t: int, layer: str) -> Floats:
        """Of the second."""
        return self._links.link_probability(t, layer)
