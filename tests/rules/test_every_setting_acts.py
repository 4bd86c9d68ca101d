"""Every setting of every rule changes what happens, or is refused: none is idle in silence."""

import dataclasses
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom import graphs
from peerloom.core import ConfigError
from peerloom.problems import L1
from peerloom.rules import RULES
from peerloom.schedules import Always, Bernoulli, Explicit
from peerloom.testing import graph_for, random_quadratic
from tests.every_rule import EVERY

# What else a rule must be given for a setting to have a say, and values that it can have.
GIVEN = {("Depositum", "h_scale"): {"beta": 0.5}, ("SQuARM", "growth"): {"c": 100.0}}
VALUES = {
    ("Alternating", "first"): ((1, 3),),
    ("Alternating", "rule"): RULES["DSGT"](lr=0.02),
    ("Chebyshev", "rule"): RULES["DSGT"](lr=0.02),
    ("DFedAvg", "period"): "D",
    ("Depositum", "h_scale"): "beta",
    ("PaME", "growth"): 1.1,
    ("SQuARM", "c"): 1000.0,
    ("SQuARM", "growth"): 2.0,
    ("SporadicSGD", "lr"): pl.rates.InverseSqrt(0.2, 20),
    ("SubgradientPush", "lr"): pl.rates.InverseSqrt(0.2, 20),
}
# Under these plans all clients compute in every round.
IDLE = {(name, "skip") for name in ("SynchronousGT", "SporadicPushPull", "PeriodicGT")}
ALL = [(name, field.name) for name in sorted(RULES) for field in dataclasses.fields(RULES[name])]


def another(name, field):
    """A value of a setting that is not the one it has."""
    if (name, field.name) in VALUES:
        return VALUES[name, field.name]
    value, hint = (
        EVERY[name].get(field.name, field.default),
        get_type_hints(RULES[name])[field.name],
    )
    if get_origin(hint) is Literal:
        return next(other for other in get_args(hint) if other != value)
    if isinstance(value, tuple):
        return tuple(each / 2 for each in value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return 3 if value is None else value / 2 or 0.5


def run(rule):
    """The last state and the account of a short run with coins that fall differently."""
    graph = graph_for(rule)
    d = [0.5, 0.35, 0.8, 0.6, 0.7, 0.9, 0.45, 0.75][: graph.clients]
    problem = random_quadratic(graph.clients, 5, seed=3)
    if rule.needs.prox:
        problem = dataclasses.replace(problem, h=L1(0.05))
    steady = rule.needs.links in ("all", "together")
    schedule = Always() if steady else Bernoulli(nodes=d, links=0.6)
    exp = pl.Experiment(graph, problem, rule, schedule, rounds=12, dtype="float64", seed=1)
    found = pl.simulate(exp)
    return found.state, found.ledger.arrays()


@pytest.mark.filterwarnings("ignore::peerloom.core.Caution")
@pytest.mark.parametrize(("name", "setting"), ALL)
def test_another_value_changes_the_run_or_is_refused(name, setting):
    field = RULES[name].__dataclass_fields__[setting]
    given = EVERY[name] | GIVEN.get((name, setting), {})
    state, ledger = run(RULES[name](**given))
    changed = RULES[name](**given | {setting: another(name, field)})
    if (name, setting) in IDLE:
        with pytest.raises(ConfigError, match=f"{setting} = .* would have no effect"):
            run(changed)
        return
    other, account = run(changed)
    assert any((account[key] != ledger[key]).any() for key in ledger) or not all(
        torch.equal(one, two) for one, two in zip(state, other, strict=True)
    )


def test_settings_for_those_who_skip_may_stand_where_some_do():
    """A schedule that is followed as it is may let a preset's clients rest."""
    nodes = np.ones((14, 5), bool)
    nodes[3, 2] = False
    for name in ("SynchronousGT", "PeriodicGT"):
        rule = RULES[name](lr=0.05, skip="hold")
        for schedule in (Explicit(nodes=nodes), Bernoulli(nodes=nodes)):
            pl.Experiment(graphs.ring(5), random_quadratic(5, 3), rule, schedule, rounds=12)


def test_a_growth_of_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"SQuARM\.growth = 0\.5 would have no effect"):
        RULES["SQuARM"](lr=0.1, growth=0.5)
