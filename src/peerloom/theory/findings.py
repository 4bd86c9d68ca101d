"""What a user should know before a run: errors, warnings and notes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ..core import ConfigError, Draws, Links, check_links, own_settings
from ..experiment import Experiment
from .activity_rates import ActivityRates
from .constants import Constants
from .contraction import Contraction, rounds_to_agree
from .coverage import Coverage
from .graph_facts import GraphFacts, strong_parts
from .rule_facts import family_of

__all__ = ["Finding", "findings"]


@dataclass(frozen=True)
class Finding:
    """One sentence, and how grave it is.

    An error cannot work, a warning may not, a note is good to know.
    """

    level: Literal["error", "warning", "note"]
    text: str


def findings(
    exp: Experiment,
    rates: ActivityRates,
    shape: GraphFacts,
    mixing: Contraction,
    constants: Constants,
    coverage: Coverage,
) -> tuple[Finding, ...]:
    """All findings about an experiment, the gravest first."""
    found = [
        *_refused(exp),
        *_graph(exp, rates, shape),
        *_step(coverage),
        *_pace(exp, mixing),
        *_clients(exp, rates, constants),
        *_messages(exp),
    ]
    order = ["error", "warning", "note"]
    return tuple(sorted(found, key=lambda one: order.index(one.level)))


def _refused(exp: Experiment) -> Iterator[Finding]:
    activity = exp.active_schedule.bind(exp.graph, Draws(exp.seed))
    try:
        check_links(exp.algorithm, exp.graph, activity, exp.rounds)
    except ConfigError as error:
        yield Finding("error", str(error))


def _graph(exp: Experiment, rates: ActivityRates, shape: GraphFacts) -> Iterator[Finding]:
    of = "hubs' graph" if exp.graph.hubs else "graph"
    name, rule, needs = exp.graph.name, type(exp.algorithm).__name__, exp.algorithm.needs
    averages = needs.combines == "average"
    if not shape.connected and shape.parts > 1:
        yield Finding(
            "error",
            f"The {of} '{name}' falls into {shape.parts} parts that no link joins{_parts(exp)}. "
            "They can never agree: add links between them.",
        )
    elif not shape.connected:
        yield Finding(
            "error",
            f"In the {of} '{name}' not everyone reaches everyone ({shape.strong_parts} parts, "
            "joined one way only). Whoever is only heard from never learns what the others know: "
            "add links back.",
        )
    elif not exp.graph.hubs:
        links = exp.graph.peers
        live = rates.links["peers"] > 0
        silent, apart = int((~live).sum()), "and without them the graph falls apart"
        if strong_parts(links, live) > 1 and rates.observed:
            yield Finding(
                "warning",
                f"{silent} of the {len(links)} links do not fire in the first {rates.observed} "
                f"rounds, {apart}. Let links fire more often, unless these only come later.",
            )
        elif strong_parts(links, live) > 1:
            yield Finding(
                "error",
                f"{silent} of the {len(links)} links never fire, {apart}. Raise their probability "
                "above 0.",
            )
        elif averages and shape.bipartite:
            whole = exp.message.fit == "whole" and bool(np.all(rates.links["peers"] == 1))
            swap = "only swap their models and never agree" if whole else "mostly swap their models"
            yield Finding(
                "error" if whole else "warning",
                f"The graph is bipartite and {rule} drops a client's own value, so the two camps "
                f"{swap}. Use a graph with an odd circle, such as 'regular' or 'complete'.",
            )
    if needs.eigenvalues_above > -1 and exp.graph.peers.symmetric and exp.graph.rows <= 2000:
        least = float(np.linalg.eigvalsh(exp.graph.peers.matrix())[0])
        if least <= needs.eigenvalues_above:
            limit = Fraction(needs.eigenvalues_above).limit_denominator(100)
            yield Finding(
                "warning",
                f"{rule} needs weights whose eigenvalues are all above {limit}; the least is "
                f"{least:.3f}. Use NIDS.",
            )
    if averages and not shape.regular and shape.connected:
        yield Finding(
            "warning",
            f"The degrees differ, so {rule}'s limit leans to clients with many neighbours.",
        )


def _messages(exp: Experiment) -> Iterator[Finding]:
    if not exp.message.fixed_length and not own_settings(exp.message):
        yield Finding(
            "note",
            f"How long a message of {type(exp.message).__name__} is depends on its numbers. What "
            "is sent is reckoned for normally distributed ones; a run counts what it really sends.",
        )


def _parts(exp: Experiment) -> str:
    """The smaller parts by their members, where that fits a line."""
    links: Links = exp.graph.layers["across"] if exp.graph.hubs else exp.graph.peers
    _, part = connected_components(
        csr_array((np.ones(len(links)), (links.src, links.dst)), shape=(links.rows,) * 2)
    )
    rows = part[exp.graph.clients :] if exp.graph.hubs else part
    groups = [np.flatnonzero(rows == k) for k in np.unique(rows)]
    told = [
        f"{{{', '.join(map(str, group[:6]))}{', ...' if len(group) > 6 else ''}}}"
        for group in groups[:4]
    ]
    return f": {', '.join(told)}{', ...' if len(groups) > 4 else ''}"


def _step(coverage: Coverage) -> Iterator[Finding]:
    if (
        coverage.exact_step is not None
        and coverage.step is not None
        and coverage.step >= coverage.exact_step
    ):
        yield Finding(
            "error",
            f"The step {coverage.step:.3g} makes the models grow without end: on this problem it "
            f"must be below {coverage.exact_step:.3g} (exact).",
        )
    elif coverage.exact_step is not None:
        return  # what is exact needs no bound
    elif (
        coverage.step is not None
        and coverage.allowed is not None
        and coverage.step >= coverage.allowed
    ):
        yield Finding(
            "warning",
            f"The step {coverage.step:.3g} is above what theory can vouch for, "
            f"{coverage.allowed:.3g}. It may still work: bounds are careful.",
        )


def _pace(exp: Experiment, mixing: Contraction) -> Iterator[Finding]:
    if mixing.how == "unknown":
        yield Finding(
            "note",
            f"How fast models agree, and what follows from it, is not known here: {mixing.why}.",
        )
    needed = rounds_to_agree(mixing.best)
    if needed is not None and exp.rounds and needed > exp.rounds:
        yield Finding(
            "warning",
            f"Agreement (models a thousand times closer) takes about {needed:,} rounds, and the "
            f"run has {exp.rounds:,}. Make links surer, add some, or run longer.",
        )


def _clients(exp: Experiment, rates: ActivityRates, constants: Constants) -> Iterator[Finding]:
    d = rates.nodes
    if d.max() == 0:
        yield Finding(
            "error", "No client ever computes: nothing is learnt. Raise the probabilities above 0."
        )
    elif d.min() == 0:
        yield Finding(
            "warning",
            f"{int((d == 0).sum())} clients never compute, so their data count for nothing.",
        )
    skip: Any = getattr(exp.algorithm, "skip", "zero")
    weighs = family_of(exp.algorithm) in ("DSpodFL", "Spod-GT", "MLL-SGD") and skip != "hold"
    if rates.nodes_follow is not None:
        weighs = False  # less and less, as all come to compute as often
        yield Finding(
            "note",
            "Clients compute more often as the rate they follow shrinks: chances and costs are "
            "those of the first round.",
        )
    if weighs and d.min() > 0 and d.max() / d.min() > 1.5 and not constants.alike:
        yield Finding(
            "warning",
            f"Clients compute with probabilities from {d.min():.2g} to {d.max():.2g}, and one "
            "that computes seldom counts less: the run settles where sum of d_i grad F_i = 0, "
            "not at the optimum of all.",
        )
    if rates.redraw is not None:
        yield Finding(
            "note",
            "Probabilities are drawn anew now and then: contraction is the largest of the first "
            "ones.",
        )
