"""How fast models agree is measured under every rule, and the prediction is held to it.

Steps are tiny, so that only mixing moves the models, and these start at random.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from peerloom import graphs
from peerloom.codecs import Coordinates, Dense, Quantised, RandK, Sign, TopK
from peerloom.core import ConfigError, InverseSqrt
from peerloom.rules import CHOCO, RULES, DSpodFL, LocalAdamW, ProxGT
from peerloom.runtime import Flat, iterate, trace
from peerloom.schedules import (
    Bernoulli,
    Epidemic,
    Every,
    Explicit,
    HubRounds,
    OneEdge,
    OneNode,
    Participation,
    RandomPairs,
    Sampled,
)
from peerloom.theory import advise
from peerloom.theory.activity_rates import activity_rates
from peerloom.theory.contraction import contraction
from tests.builders import experiment, quadratic, starts
from tests.every_rule import EVERY

TINY = 1e-16

GRAPHS = {
    "ring": graphs.ring(6),
    "geometric": graphs.geometric(8, 0.5, 1),
    "one way": graphs.from_edges(
        6, [(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 5), (5, 0)], directed=True
    ),
    "hubs": graphs.hubs(graphs.path(4), [2, 1, 3, 2]),
    "server": graphs.hubs(graphs.from_edges(1, []), [5]),
}


def tiny(name, **changes):
    """The rule with a step that moves nothing."""
    given = dict(EVERY[name])
    for step in {"lr", "alpha"} & set(given):
        constant = isinstance(given[step], int | float)
        given[step] = TINY if constant else InverseSqrt(TINY, 20)
    given |= {"PaME": {"sigma": 1 / TINY}, "SQuARM": {"c": 0.0}}.get(name, {}) | changes
    if "rule" in given:  # the step is that of the rule within
        given["rule"] = tiny(type(given["rule"]).__name__)
    return RULES[name](**given)


def far_apart(graph, rule, **options):
    """Models that differ, and nothing to learn but by tiny steps; 3000 rounds at the most."""
    options = {"problem": quadratic(graph.clients), "rounds": 3000, **options}
    first = starts(graph.clients, options["problem"].n)
    if rule.needs.common_start:  # a kick in the first round parts the models
        options["problem"] = Flat(first.shape[1], first / TINY)
    else:
        options["x0"] = first
    return experiment(graph, rule, **options)


def measured(exp, period=1):
    """The rate per round, by the line through the logarithms of the late squared disagreement."""
    sizes = []
    for snapshot in iterate(exp):
        x = snapshot.x.numpy()
        sizes.append(((x - x.mean(axis=0)) ** 2).sum())
        if snapshot.t > 1 and sizes[-1] <= 1e-26 * (x**2).sum():  # rounding
            sizes[-1] = 0.0
        if snapshot.t > 1 and sizes[-1] < 1e-26 * sizes[1]:
            sizes.pop()
            break
    if len(sizes) < 3 or sizes[1] <= 1e-26 * sizes[0]:  # they agree at once
        return 0.0
    heights = np.log(sizes[1:])[::period]
    late = heights[(len(heights) - 1) // 2 :]
    return math.exp(np.polyfit(np.arange(len(late)), late, 1)[0] / period)


def is_as_predicted(exp, seeds=()):
    rates = activity_rates(exp)
    found = contraction(exp, rates)
    runs = [replace(exp, seed=seed) for seed in seeds] or [exp]
    logs = [math.log(max(measured(run, rates.common_period), 1e-12)) for run in runs]
    assert found.best == pytest.approx(math.exp(np.mean(logs)), rel=0.03, abs=1e-9), found
    return found


PLACES = [(name, where) for name in sorted(RULES) for where in sorted(GRAPHS)]


@pytest.mark.parametrize(("name", "where"), PLACES)
def test_where_links_never_vary_the_rate_is_that_of_the_rules_own_map(name, where):
    schedule = {"schedule": HubRounds(tau=2, q=3)} if where == "hubs" else {}
    try:
        exp = far_apart(GRAPHS[where], tiny(name), **schedule)
        draws = trace(exp.algorithm).draws
        found = is_as_predicted(exp, seeds=range(500, 540) if draws else ())
    except ConfigError:
        return  # the rule is not for such a graph
    assert found.how == ("drawn" if draws else "exact")


def test_every_rule_is_for_one_of_the_graphs():
    for name in RULES:
        fits = 0
        for graph in GRAPHS.values():
            try:
                far_apart(graph, tiny(name))
                fits += 1
            except ConfigError:
                pass
        assert fits, name


# Rules under links that fall by chance, or in turns.
BY_CHANCE = {
    "DSpodFL": (GRAPHS["ring"], {"schedule": Bernoulli(links=0.4)}),
    "RandomizedGossip": (GRAPHS["geometric"], {"schedule": Bernoulli(links=0.6)}),
    "DSGD": (GRAPHS["ring"], {"schedule": Bernoulli(links=0.7)}),
    "Depositum": (GRAPHS["ring"], {"schedule": Bernoulli(links=0.5)}),
    "SpodGT": (GRAPHS["one way"], {"schedule": Bernoulli(links=0.6)}),
    "SporadicPushPull": (GRAPHS["one way"], {"schedule": Bernoulli(links=0.8)}),
    "PairwiseGossip": (GRAPHS["ring"], {"schedule": OneEdge()}),
    "EpidemicLearning": (graphs.complete(8), {"schedule": Epidemic(3)}),
    "GossipPushPull": (GRAPHS["ring"], {"schedule": OneNode()}),
    "NoLoCo": (graphs.complete(6), {"schedule": RandomPairs()}),
    "DiLoCo": (GRAPHS["ring"], {"schedule": Bernoulli(links=0.6)}),
    "LocalSGDM": (GRAPHS["ring"], {"schedule": Bernoulli(links=0.6)}),
    "LocalAdamW": (GRAPHS["ring"], {"schedule": Bernoulli(links=0.6)}),
    "DAdam": (GRAPHS["ring"], {"schedule": Bernoulli(links=0.6)}),
    "MLLSGD": (GRAPHS["hubs"], {"schedule": Bernoulli(links=0.6)}),
    "PaME": (graphs.complete(7), {"schedule": Sampled(kappa=2, fraction=0.5)}),
    "PaME, first to respond": (
        graphs.regular(10, 4, seed=1),
        {"schedule": Sampled(2, 0.75, resources=Bernoulli((1.0, 0.1, 0.5, 0.9, 0.3) * 2))},
    ),
}


# Their workers take over what one server has, or what all hubs have.
AT_ONCE = {
    "DistributedSGD",
    "FedADMM",
    "FedAvg",
    "FedDR",
    "FedDualAvg",
    "FedMiD",
    "HLSGD",
    "LocalSGD",
}


def test_every_rule_whose_links_may_fall_by_chance_is_measured():
    vary = set()
    for name in RULES:
        for graph in GRAPHS.values():
            try:
                exp = far_apart(graph, tiny(name), schedule=Bernoulli(links=0.6))
            except ConfigError:
                continue
            coins = activity_rates(exp).coins
            if any(not np.isin(some, (0.0, 1.0)).all() for some in coins.values()):
                vary.add(name)
    assert vary - AT_ONCE == {name.partition(",")[0] for name in BY_CHANCE}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BY_CHANCE))
def test_where_links_fall_by_chance_the_rate_is_that_of_a_typical_run(name):
    graph, options = BY_CHANCE[name]
    rule = tiny(name.partition(",")[0])
    is_as_predicted(far_apart(graph, rule, **options), seeds=range(500, 540))


@pytest.mark.parametrize(
    ("name", "changes", "options"),
    [
        ("Depositum", {}, {"schedule": Every(3)}),
        ("DFedAvg", {"D": 3}, {}),
        ("CooperativeSGD", {"tau": 4}, {}),
        ("SQuARM", {"H": 3}, {}),
        ("ProxGT", {"K": 2}, {}),
        ("DFedSAM", {"Q": 2}, {}),
        ("CHOCO", {"gamma": 0.5}, {}),
        ("GossipPushPull", {"gamma": 0.2}, {}),
    ],
)
def test_what_a_rule_is_given_counts(name, changes, options):
    is_as_predicted(far_apart(GRAPHS["ring"], tiny(name, **changes), **options))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"), [("FedDR", {}), ("FedDR", {"eta": 1e-15}), ("FedADMM", {})]
)
def test_who_takes_part_under_a_server_agrees_as_predicted(name, changes):
    """Who is not asked keeps the model it had; with eta as small as the step, models settle."""
    some = {"schedule": Participation(0.4), "rounds": 600}
    is_as_predicted(far_apart(GRAPHS["server"], tiny(name, **changes), **some), range(500, 520))


@pytest.mark.parametrize("lr", [1e-16, 0.05])
def test_what_only_differences_pull_together_never_agrees(lr):
    """x + W (y - x) with y = x stays where it is, however small the kick that parted the models."""
    found = advise(experiment(GRAPHS["ring"], RULES["QuantisedDFedAvgM"](lr=lr)))
    assert found.contraction.best == pytest.approx(1.0)
    assert found.contraction.times is None
    assert found.rounds_to_agree is None


def test_weight_decay_draws_models_together_and_a_count_of_steps_does_not_hide_it():
    values = np.linalg.eigvalsh(GRAPHS["ring"].peers.matrix())
    plain = max(values[0] ** 2, values[-2] ** 2)
    for rule in (LocalAdamW(lr=0.05, weight_decay=0.4), LocalAdamW(lr=0.05, K=2, weight_decay=0.4)):
        found = advise(experiment(GRAPHS["ring"], rule))
        assert found.contraction.how == "exact"
        assert found.contraction.best == pytest.approx(plain * 0.98 ** (2 * rule.K))
        assert "its own theory is not built in" in str(found.coverage.fails)


def test_choco_agrees_at_its_own_pace():
    """x + gamma (W - I) x leaves (1 - gamma (1 - lambda))^2, and not lambda^2, of each mode."""
    exp = experiment(GRAPHS["ring"], CHOCO(lr=0.1, gamma=0.1))
    values = np.linalg.eigvalsh(exp.graph.peers.matrix())[:-1]
    found = advise(exp).contraction
    assert found.best == pytest.approx((1 - 0.1 * (1 - values.max())) ** 2)
    assert (found.times, found.per_round) == (None, None)
    assert advise(exp).changes is None


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (CHOCO(lr=0.1), TopK(0.4)),
        (CHOCO(lr=0.1), Quantised(4)),
        (CHOCO(lr=0.1), Sign()),
        (DSpodFL(lr=0.1), Dense("float16")),
        (RULES["SQuARM"](lr=0.02, c=30.0), Dense()),
    ],
    ids=str,
)
def test_what_is_not_linear_is_not_known_and_nothing_follows(rule, message):
    found = advise(experiment(GRAPHS["ring"], rule, message=message))
    assert found.contraction.how == "unknown"
    assert found.contraction.why
    assert {found.contraction.best, found.rounds_to_agree, found.changes} == {None}
    assert not any([found.coverage.holds, found.coverage.floor, found.coverage.exact])
    assert any("not known" in one.text for one in found.findings)


@pytest.mark.slow
def test_some_coordinates_of_a_message_are_links_that_did_not_fire():
    problem = quadratic(5, n=30)
    exp = far_apart(graphs.ring(5), tiny("DSpodFL"), problem=problem, message=Coordinates(0.5))
    assert contraction(exp, activity_rates(exp)).how == "drawn"
    is_as_predicted(exp, seeds=range(500, 506))
    choco = far_apart(graphs.ring(5), tiny("CHOCO"), problem=problem, message=RandK(0.5))
    is_as_predicted(choco, seeds=range(500, 503))


def test_a_rule_that_its_schedule_does_not_fit_cannot_run():
    every_other = np.zeros((11, 6, 6), bool)
    every_other[::2] = True
    found = advise(experiment(GRAPHS["ring"], ProxGT(lr=0.1), schedule=Explicit(links=every_other)))
    assert found.works
    found = advise(experiment(GRAPHS["ring"], CHOCO(lr=0.1), schedule=Explicit(links=every_other)))
    assert not found.works
    assert "needs every link in every round" in found.findings[0].text
