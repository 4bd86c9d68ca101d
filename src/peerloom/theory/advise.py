"""All that theory says about an experiment before it runs, in one document."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core import Links, Network
from ..experiment import Experiment
from .activity_rates import ActivityRates, activity_rates
from .constants import Constants, estimate
from .contraction import Contraction, contraction, hub_matrix, rounds_to_agree
from .costs import Costs, costs
from .coverage import Coverage, cover
from .findings import Finding, findings
from .graph_facts import ALL_PAIRS, GraphFacts, graph_facts
from .improve import (
    WEIGHTS_UP_TO,
    Improvement,
    better_weights,
    new_hub_links,
    new_links,
    surer_links,
)
from .matrices import UnsettledError

__all__ = ["Advice", "Changes", "Stochastic", "advise", "advise_all"]

Floats = NDArray[np.float64]
_SUGGEST_UP_TO = 2000  # clients for whom changes are tried


@dataclass(frozen=True)
class Stochastic:
    """What the weights of one layer sum to when every link fires, self-weights included."""

    layer: str
    weights: Literal["receiver", "sender", "neighbours"]
    rows_sum_to_one: bool
    columns_sum_to_one: bool
    symmetric: bool
    least_own: float  # the least weight a client keeps for itself

    @property
    def words(self) -> str:
        """The name of such a matrix."""
        both = self.rows_sum_to_one and self.columns_sum_to_one
        kind = (
            "doubly stochastic"
            if both
            else "row stochastic"
            if self.rows_sum_to_one
            else "column stochastic"
        )
        return f"symmetric, {kind}" if self.symmetric else kind


@dataclass(frozen=True)
class Changes:
    """What would make the network agree faster; contractions per talking round, squared."""

    now: float
    surer: tuple[Improvement, ...]
    fresh: tuple[Improvement, ...]
    weights: (
        float | None
    )  # the contraction of the best weights; None where they were not looked for
    tuned: tuple[tuple[int, int, float], ...] = ()  # the best weights, as (source, target, weight)


@dataclass(frozen=True, eq=False)
class Advice:
    """What theory says about one experiment."""

    label: str
    algorithm: str
    seed: int
    graph: str
    clients: int
    hubs: int
    shape: GraphFacts  # of the graph, or of the hubs' graph
    matrices: tuple[Stochastic, ...]
    links: tuple[float, float, float]  # least, mean and largest chance that a link fires in a round
    nodes: tuple[float, float, float]  # the same of clients computing
    period: int  # rounds from one talking round to the next
    contraction: Contraction
    rounds_to_agree: int | None
    rounds_all_on: int | None
    costs: Costs
    constants: Constants
    coverage: Coverage
    changes: Changes | None
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...]

    @property
    def works(self) -> bool:
        """Whether nothing was found that cannot work."""
        return not any(one.level == "error" for one in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The advice as JSON has it; infinity is the word "infinite"."""
        plain: dict[str, Any] = _plain(self)
        plain["contraction"].pop("worst")
        plain["costs"]["delay"] = self.costs.delay
        return plain | {"works": self.works}


def advise(
    exp: Experiment, given: Mapping[str, float] | None = None, *, quick: bool = False
) -> Advice:
    """What theory says about one experiment.

    `given` are constants known by hand, `quick` leaves out what takes longer.

    >>> import peerloom as pl
    >>> problem = pl.problems.Quadratic(A=[[[1.0]]] * 4, b=[[0.0], [1.0], [2.0], [3.0]])
    >>> found = advise(pl.Experiment(pl.graphs.ring(4), problem, pl.algorithms.DGD(lr=0.01)))
    >>> found.coverage.theorem, round(found.contraction.per_round, 4), found.rounds_to_agree
    ('DSpodFL, Theorem 4.11 (strongly convex)', 0.1111, 7)
    """
    return next(iter(advise_all([exp], given, quick=quick)))


def advise_all(
    experiments: Iterable[Experiment],
    given: Mapping[str, float] | None = None,
    *,
    quick: bool = False,
) -> Iterable[Advice]:
    """What theory says about several experiments; what they share is computed once."""
    shapes: dict[int, GraphFacts] = {}
    constants: dict[tuple[int, int, int], Constants] = {}
    changes: dict[tuple[int, bytes], tuple[Changes | None, tuple[str, ...]]] = {}
    for exp in experiments:
        rates = activity_rates(exp)
        who = (id(exp.problem), exp.graph.clients, exp.seed)
        if who not in constants:
            constants[who] = estimate(exp.problem, exp.graph.clients, exp.seed, given)
        if id(exp.graph) not in shapes:
            shapes[id(exp.graph)] = graph_facts(talking(exp.graph))
        mixing = contraction(exp, rates, quick=quick)
        what = (
            id(exp.graph),
            b"" if rates.coins is None else b"".join(p.tobytes() for p in rates.coins.values()),
        )
        if what not in changes:
            changes[what] = (None, ()) if quick else _changes(exp, rates, mixing)
        yield _advice(exp, rates, shapes[id(exp.graph)], mixing, constants[who], *changes[what])


def talking(network: Network) -> Links:
    """The layer that must hold the network together: the peers', or the hubs' among themselves."""
    if not network.hubs:
        return network.peers
    first, across = network.clients, network.layers["across"]
    return Links.make(network.hubs, across.src - first, across.dst - first, across.a, across.b)


def _advice(
    exp: Experiment,
    rates: ActivityRates,
    shape: GraphFacts,
    mixing: Contraction,
    constants: Constants,
    changes: Changes | None,
    unchanged: tuple[str, ...],
) -> Advice:
    skipped = [*mixing.skipped, *unchanged]
    if shape.connected and shape.diameter is None:
        skipped.append(f"the exact diameter: more than {ALL_PAIRS:,} clients")
    coverage = cover(exp, rates, mixing, constants)
    fires = (
        np.concatenate(list(rates.links.values()))
        if any(map(len, rates.links.values()))
        else np.zeros(1)
    )
    return Advice(
        label=exp.name,
        algorithm=type(exp.algorithm).__name__,
        seed=exp.seed,
        graph=exp.graph.name,
        clients=exp.graph.clients,
        hubs=exp.graph.hubs,
        shape=shape,
        matrices=_matrices(exp),
        links=_spread(fires),
        nodes=_spread(rates.nodes),
        period=rates.common_period,
        contraction=mixing,
        rounds_to_agree=rounds_to_agree(mixing.best),
        rounds_all_on=None if mixing.all_on is None else rounds_to_agree(mixing.all_on),
        costs=costs(exp, rates),
        constants=constants,
        coverage=coverage,
        changes=changes,
        findings=findings(exp, rates, shape, mixing, constants, coverage),
        skipped=tuple(skipped),
    )


def _changes(
    exp: Experiment, rates: ActivityRates, mixing: Contraction
) -> tuple[Changes | None, tuple[str, ...]]:
    if exp.graph.hubs:
        return _hub_changes(exp, mixing)
    links = exp.graph.peers
    if rates.coins is None or mixing.worst is None or mixing.how != "exact":
        return None, ("changes to links: they need links that are independent coins",)
    if links.rows > _SUGGEST_UP_TO:
        return None, (f"changes to links: more than {_SUGGEST_UP_TO:,} clients",)
    now = (mixing.per_round or 0.0) ** rates.period["peers"]
    if now >= 1 - 1e-12:
        return None, ()
    p, skipped = rates.coins["peers"], []
    try:
        surer = surer_links(links, p, mixing.worst, now)
        fresh = new_links(links, p, mixing.worst, now)
    except UnsettledError as error:
        return None, (f"changes to links: {error}",)
    if fresh is None:
        skipped.append(
            "new links: the weights are your own, and a new link would not know how to change them"
        )
    best, tuned = None, np.empty(0)
    if not links.symmetric:
        skipped.append("better weights: only looked for on undirected graphs")
    elif links.rows > WEIGHTS_UP_TO:
        skipped.append(f"better weights: more than {WEIGHTS_UP_TO} clients")
    else:
        best, tuned = better_weights(links, p, now)
    weights = (
        tuple(zip(links.src.tolist(), links.dst.tolist(), tuned.tolist(), strict=True))
        if len(tuned)
        else ()
    )
    return Changes(now, tuple(surer), tuple(fresh or ()), best, weights), tuple(skipped)


def _hub_changes(exp: Experiment, mixing: Contraction) -> tuple[Changes | None, tuple[str, ...]]:
    """New links between the hubs; what ties a worker to its hub is not for choosing."""
    recipe, now = exp.graph.recipe, mixing.all_on or 0.0
    if recipe.get("H") is not None or "hub_graph" not in recipe:
        return None, (
            "new links between hubs: H is your own, and a new link would not know how to change it",
        )
    if now >= 1 - 1e-12 or exp.graph.hubs < 3:
        return None, ()
    return Changes(
        now, (), tuple(new_hub_links(recipe["hub_graph"], hub_matrix(exp)[1], now)), None
    ), ()


def _matrices(exp: Experiment) -> tuple[Stochastic, ...]:
    """Of every layer the rule mixes over, with the weights it uses there."""
    found = []
    for name in exp.algorithm.needs.layers:
        links = exp.graph.layers[name]
        if exp.algorithm.needs.combines == "average":
            even = bool(np.allclose(np.bincount(links.src, links.share, links.rows), 1))
            found.append(Stochastic(name, "neighbours", True, even, even and links.symmetric, 0.0))
            continue
        given, taken = (
            np.bincount(links.dst, links.a, links.rows),
            np.bincount(links.src, links.a, links.rows),
        )
        even = bool(np.allclose(given, taken, atol=1e-9))
        found.append(
            Stochastic(
                name, "receiver", True, even, links.symmetric, float((1 - given).min(initial=1.0))
            )
        )
        if not np.allclose(links.a, links.b, atol=1e-9) and not exp.graph.hubs:
            sent, got = (
                np.bincount(links.src, links.b, links.rows),
                np.bincount(links.dst, links.b, links.rows),
            )
            even = bool(np.allclose(sent, got, atol=1e-9))
            found.append(
                Stochastic(name, "sender", even, True, False, float((1 - sent).min(initial=1.0)))
            )
    return tuple(found)


def _spread(values: Floats) -> tuple[float, float, float]:
    return float(values.min()), float(values.mean()), float(values.max())


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float) and math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    return value
