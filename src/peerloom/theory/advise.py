"""All that theory says about an experiment before it runs, in one document."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Links, Network
from ..experiment import Experiment
from .activity_rates import ActivityRates, activity_rates
from .changes import Changes, changes_of
from .constants import Constants, estimate
from .contraction import Contraction, contraction, rounds_to_agree
from .costs import Costs, costs
from .coverage import Coverage, cover
from .findings import Finding, findings
from .graph_facts import ALL_PAIRS, GraphFacts, graph_facts
from .stochastic import Stochastic, stochastic_layers

__all__ = ["Advice", "advise", "advise_all"]

Floats = NDArray[np.float64]


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
    >>> found = advise(pl.Experiment(pl.graphs.ring(4), problem, pl.rules.DGD(lr=0.01)))
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
            changes[what] = (None, ()) if quick else changes_of(exp, rates, mixing)
        yield _advice(exp, rates, shapes[id(exp.graph)], mixing, constants[who], changes[what])


def talking(network: Network) -> Links:
    """The links that keep the network connected: the peers', or those between hubs."""
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
    changed: tuple[Changes | None, tuple[str, ...]],
) -> Advice:
    changes, not_tried = changed
    skipped = [*mixing.skipped, *not_tried]
    if shape.connected and shape.diameter is None:
        skipped.append(f"the exact diameter: more than {ALL_PAIRS:,} clients")
    coverage = cover(exp, rates, mixing, constants)
    fires = np.concatenate(list(rates.links.values()))
    return Advice(
        label=exp.name,
        algorithm=type(exp.algorithm).__name__,
        seed=exp.seed,
        graph=exp.graph.name,
        clients=exp.graph.clients,
        hubs=exp.graph.hubs,
        shape=shape,
        matrices=stochastic_layers(exp),
        links=_spread(fires if len(fires) else np.zeros(1)),
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
