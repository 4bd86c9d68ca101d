"""Schedules without coins: always, every T0 rounds, DFedAvg's cycle, an explicit table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import checked
from ..core import Activity, ConfigError, CyclePlan, Draws, Network, Schedule
from .rates import ActivityRates, Span, all_together

__all__ = ["Always", "Cycle", "Every", "Explicit", "FixedActivity", "recorded", "recorded_at"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class FixedActivity:
    """Who acts, as two functions of the round; d and b are those of `resources`, or 1."""

    def __init__(
        self,
        network: Network,
        nodes: Callable[[int], Bools],
        links: Callable[[int, str], Bools],
        resources: Activity | None = None,
    ) -> None:
        self.nodes, self.links, self._resources = nodes, links, resources
        self._of_rows = np.ones(network.clients)
        self._of_links = {name: np.ones(len(layer)) for name, layer in network.layers.items()}

    def node_probability(self, t: int) -> Floats:
        """d_i = 1, or that of the resources."""
        return self._of_rows if self._resources is None else self._resources.node_probability(t)

    def link_probability(self, t: int, layer: str) -> Floats:
        """b_ij = 1, or that of the resources."""
        return (
            self._of_links[layer]
            if self._resources is None
            else self._resources.link_probability(t, layer)
        )


@checked
@dataclass(frozen=True)
class Always:
    """Every row computes and every link fires, in every round."""

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """The same arrays for every round."""
        return _when(network, lambda t: True, lambda t: True)

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """One of everything in every round."""
        return all_together(network, dict.fromkeys(network.layers, 1))


@checked
@dataclass(frozen=True)
class Every:
    """Every row computes in every round; all links fire in rounds T0 + 1, 2 T0 + 1, ...

    DEPOSITUM counts its steps from 0 and communicates in steps T0, 2 T0, ...; its step t is our
    round t + 1, so no link fires in the first round, not even for T0 = 1.
    """

    T0: int = 1

    def __post_init__(self) -> None:
        if self.T0 < 1:
            raise ConfigError(f"Every.T0 must be at least 1 round, found {self.T0}.")

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """Links fire in rounds T0 + 1, 2 T0 + 1, ..."""
        return _when(network, lambda t: True, lambda t: t > 1 and (t - 1) % self.T0 == 0)

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """All links every T0 rounds."""
        return all_together(network, dict.fromkeys(network.layers, self.T0))


@checked
@dataclass(frozen=True)
class Cycle:
    """DFedAvg's cycle: D rounds in which all compute, then one in which all links fire.

    The paper and its code give three readings (erratum E-D2), all of them here:

        code (the default)   D local rounds, then one round that only aggregates     period D + 1
        appendix P.3         sgd_while_aggregating=True: it computes as well         period D + 1
        main text            the same with period="D": talk in every D-th round      period D

    `opens` puts the aggregating round first in each period: K-GT as Spod-GT means it talks in
    iterations 0, K, 2K, ... Where D is None it is the mean of 1 / d_i over the rows of `resources`,
    rounded up, or down with rounding="floor".
    """

    D: int | None = None
    rounding: Literal["ceil", "floor"] = "ceil"
    sgd_while_aggregating: bool = False
    period: Literal["D+1", "D"] = "D+1"
    resources: Schedule | None = None
    opens: bool = False

    def __post_init__(self) -> None:
        if self.D is not None and self.D < 1:
            raise ConfigError(f"Cycle.D must be at least 1 round, found {self.D}.")
        if self.D is not None and self.rounding != "ceil":
            raise ConfigError(
                f"Cycle.rounding = '{self.rounding}' would have no effect: it rounds the mean of "
                f"1 / d_i, but D = {self.D} is given. Leave one of the two out."
            )
        if self.D is None and self.resources is None:
            raise ConfigError(
                "Cycle has neither D nor resources to take it from. "
                "Give D, or a schedule such as Bernoulli."
            )

    @classmethod
    def planned(cls, plan: CyclePlan, resources: Schedule) -> Cycle:
        """The cycle a preset asks for, on the resources it was given."""
        return cls(
            plan.D, plan.rounding, plan.sgd_while_aggregating, plan.period, resources, plan.opens
        )

    def local_rounds(self, resources: Activity | None) -> int:
        """D as given, or the rounded mean of 1 / d_i."""
        if self.D is not None or resources is None:
            return self.D or 1
        mean = float(np.mean(1 / resources.node_probability(0)))
        # 1 / d is rounded, so a mean that is a whole number may come out a hair above it.
        return max(
            1, math.floor(mean + 1e-9) if self.rounding == "floor" else math.ceil(mean - 1e-9)
        )

    def rates(self, network: Network, draws: Draws, span: Span) -> ActivityRates:
        """All links once in a period, all clients in its other rounds."""
        period, _ = self._period(network, draws)
        busy = 1.0 if self.sgd_while_aggregating else (period - 1) / period
        nodes = np.full(network.clients, busy)
        found = all_together(network, dict.fromkeys(network.layers, period), nodes)
        return replace(found, fair=busy == 1, cycle=True)

    def _period(self, network: Network, draws: Draws) -> tuple[int, Activity | None]:
        resources = None if self.resources is None else self.resources.bind(network, draws)
        return self.local_rounds(resources) + (self.period == "D+1"), resources

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """The last round of each period aggregates, or the first."""
        period, resources = self._period(network, draws)
        if period == 1 and not self.sgd_while_aggregating:
            raise ConfigError(
                'Cycle: with D = 1 and period="D" no round computes. '
                'Use sgd_while_aggregating or period="D+1".'
            )

        def aggregates(t: int) -> bool:
            return t > 0 and (t - self.opens) % period == 0

        return _when(
            network,
            lambda t: self.sgd_while_aggregating or not aggregates(t),
            aggregates,
            resources,
        )


@checked
@dataclass(frozen=True, eq=False)
class Explicit:
    """Exactly what you say, round by round.

    nodes [rounds + 1, m] and links [rounds + 1, m, m] are bool, indexed by round: links[t, i, j] is
    whether j sends to i in round t. Entry 0 serves an algorithm's `init`. What is
    left out is always on. The two directions of a link may differ, as when one message is lost; a
    symmetric rule then does not keep the mean.
    """

    nodes: ArrayLike | None = None
    links: ArrayLike | None = None

    def bind(self, network: Network, draws: Draws) -> FixedActivity:
        """Look-ups by round."""
        rows = network.rows
        nodes = recorded("Explicit.nodes", self.nodes, (network.clients,))
        links = recorded("Explicit.links", self.links, (rows, rows))
        every_row = np.ones(network.clients, bool)

        def fires(t: int, layer: str) -> Bools:
            those = network.layers[layer]
            return np.ones(len(those), bool) if links is None else links(t)[those.dst, those.src]

        return FixedActivity(network, lambda t: every_row if nodes is None else nodes(t), fires)


def recorded(
    what: str, given: ArrayLike | None, shape: tuple[int, ...]
) -> Callable[[int], Bools] | None:
    """An activity given as a table, as a function of the round; None stays None."""
    if given is None:
        return None
    table = np.asarray(given)
    if table.dtype != bool or table.ndim != len(shape) + 1 or table.shape[1:] != shape:
        wanted = ", ".join(map(str, shape))
        raise ConfigError(
            f"{what} must be bool of shape [rounds + 1, {wanted}]; "
            f"found {table.dtype} of {list(table.shape)}."
        )
    return recorded_at(what, table)


def recorded_at(what: str, table: Bools) -> Callable[[int], Bools]:
    """The entries of a table with one for each round, and one for round 0."""

    def at(t: int) -> Bools:
        if t >= len(table):
            raise ConfigError(
                f"{what} has entries for rounds 0 to {len(table) - 1}, but round {t} is asked for. "
                "Give one entry per round and one for round 0, or run fewer rounds."
            )
        return np.asarray(table[t], bool)

    return at


def _when(
    network: Network,
    computes: Callable[[int], bool],
    talks: Callable[[int], bool],
    resources: Activity | None = None,
) -> FixedActivity:
    """All rows when `computes`, all links when `talks`."""
    # The same arrays every round, so that a mixer sees by identity that nothing changed.
    rows = {flag: np.full(network.clients, flag) for flag in (False, True)}
    links = {
        name: {flag: np.full(len(layer), flag) for flag in (False, True)}
        for name, layer in network.layers.items()
    }
    return FixedActivity(
        network,
        lambda t: rows[bool(computes(t))],
        lambda t, layer: links[layer][bool(talks(t))],
        resources,
    )
