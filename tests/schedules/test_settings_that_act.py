"""A setting that has no effect is refused, for every rule under every schedule."""

import dataclasses
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from peerloom import graphs, simulate
from peerloom.errors import ConfigError
from peerloom.rules import RULES, CooperativeSGD, DFedAvg, DSpodFL
from peerloom.schedules import (
    SCHEDULES,
    Always,
    Bernoulli,
    Cycle,
    Epidemic,
    Every,
    Explicit,
    HubRounds,
    Measured,
    OneEdge,
    OneNode,
    OnePeer,
    Participation,
    RandomPairs,
    Refresh,
    Replay,
    Sampled,
    Split,
    Waiting,
    distributions,
    plan_of,
)
from tests.builders import experiment, quadratic
from tests.every_rule import EVERY

OTHERS = {  # another value than the default; several where they are allowed only together
    ("DFedAvg", "D"): {"D": 3},
    ("DFedAvg", "period"): {"period": "D", "sgd_while_aggregating": True},
}
WRITTEN = np.ones((5, 4), bool)
GOVERNED = {  # they say who is able to act; a plan says when
    "Always": Always(),
    "Bernoulli": Bernoulli(distributions.Beta(0.5, 0.5), 0.3),
    "measured": Measured(),
    "Replay": Replay("a run under the same settings"),
}
NOT_GOVERNED = {
    "Cycle": Cycle(D=2),
    "Epidemic": Epidemic(1),
    "Every": Every(1),
    "Explicit": Explicit(),
    "HubRounds": HubRounds(2),
    "OneEdge": OneEdge(),
    "OneNode": OneNode(),
    "OnePeer": OnePeer(),
    "Participation": Participation(0.5),
    "RandomPairs": RandomPairs(),
    "Refresh": Refresh(2),
    "Sampled": Sampled(2, 0.5),
    "Split": Split(Bernoulli(0.5), Bernoulli(links=0.5)),
    "Waiting": Waiting(2),
    "written nodes": Bernoulli(nodes=WRITTEN),
    "written links": Bernoulli(links=np.ones((5, 4, 4), bool)),
}


def another(name, field, hint):
    """Arguments under which a setting is not its default; None where none is at hand."""
    if (name, field.name) in OTHERS:
        return OTHERS[name, field.name]
    kinds = get_args(hint) or (hint,)
    if get_origin(hint) is Literal:
        return {field.name: next(value for value in kinds if value != field.default)}
    if bool in kinds:
        return {field.name: not field.default}
    if isinstance(field.default, tuple):
        return {field.name: tuple(each / 2 for each in field.default)}
    if int in kinds:
        return {field.name: 4}
    return {field.name: field.default / 2} if float in kinds and field.default else None


def settings_of_plans():
    """Every rule with a setting that its plan depends on, found by trying all."""
    found = []
    for name, kind in sorted(RULES.items()):
        hints = get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if field.default is dataclasses.MISSING or field.name in EVERY[name]:
                continue
            given = another(name, field, hints[field.name])
            plain = {key: EVERY[name][key] for key in EVERY[name] if key not in (given or {})}
            if given and plan_of(kind(**plain)) != plan_of(kind(**plain, **given)):
                found.append((name, field.name, given))
    return [*found, ("SQuARM", "H", {"H": 4})]  # whose example has an H of its own


SETTINGS = settings_of_plans()


def graph_of(rule):
    if rule.needs.one_hub:
        return graphs.hubs(graphs.from_edges(1, []), [4])
    return (
        graphs.ring(4) if "peers" in rule.needs.layers else graphs.hubs(graphs.complete(2), [2, 2])
    )


def test_these_are_all_the_settings_that_act_through_a_plan():
    assert {(name, field) for name, field, _ in SETTINGS} == {
        ("CooperativeSGD", "tau"),
        ("DFedAvg", "D"),
        ("DFedAvg", "rounding"),
        ("DFedAvg", "period"),
        ("DFedAvg", "sgd_while_aggregating"),
        ("PeriodicGT", "K"),
        ("SQuARM", "H"),
    }
    ours = {name.split(" ")[0] for name in NOT_GOVERNED} - {"written"}
    assert ours | set(GOVERNED) == set(SCHEDULES)


@pytest.mark.parametrize("schedule", sorted(NOT_GOVERNED))
@pytest.mark.parametrize(("name", "field", "given"), SETTINGS)
def test_a_schedule_that_says_when_links_fire_refuses_them(name, field, given, schedule):
    rule = RULES[name](**EVERY[name] | given)
    said = rf"^{name} has .*{field} = .* would have no effect: the schedule .* Leave (it|them) out"
    with pytest.raises(ConfigError, match=said):
        experiment(graphs.ring(4), rule, schedule=NOT_GOVERNED[schedule])


@pytest.mark.parametrize("schedule", sorted(GOVERNED))
@pytest.mark.parametrize(("name", "field", "given"), SETTINGS)
def test_schedules_that_leave_it_open_take_them(name, field, given, schedule):
    rule = RULES[name](**EVERY[name] | given)
    assert experiment(graphs.ring(4), rule, schedule=GOVERNED[schedule]).algorithm is rule


@pytest.mark.parametrize("schedule", sorted(NOT_GOVERNED))
@pytest.mark.parametrize("name", sorted(RULES))
def test_rules_that_leave_periods_out_take_every_schedule(name, schedule):
    needed = [f.name for f in dataclasses.fields(RULES[name]) if f.default is dataclasses.MISSING]
    rule = RULES[name](**{key: EVERY[name][key] for key in needed})
    given = NOT_GOVERNED[schedule]
    exp = experiment(graph_of(rule), rule, schedule=given, problem=quadratic(4))
    assert plan_of(rule).cycle is None or type(exp.active_schedule) is type(given)


def test_what_governs_really_does():
    """tau = 4 mixes every fourth round under Always, and Every(1) never lets it be ignored."""
    ring = graphs.ring(4)
    ledger = simulate(experiment(ring, CooperativeSGD(0.1, tau=4), rounds=12)).ledger
    assert ledger.messages == 3 * 8
    with pytest.raises(ConfigError, match="CooperativeSGD has tau = 4, which would have no effect"):
        experiment(ring, CooperativeSGD(0.1, tau=4), schedule=Every(1))
    every = experiment(ring, CooperativeSGD(0.1), schedule=Every(3), rounds=12)
    assert simulate(every).ledger.messages == 3 * 8


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: DFedAvg(0.1, D=3, rounding="floor"), "DFedAvg.rounding = 'floor' would have no"),
        (lambda: Cycle(D=3, rounding="floor"), "Cycle.rounding = 'floor' would have no effect"),
        (lambda: DFedAvg(0.1, D=0), "DFedAvg.D must be at least 1 round"),
        (lambda: DFedAvg(0.1, D=1, period="D"), "no round computes"),
        (
            lambda: Bernoulli(links=np.ones((5, 4, 4), bool), compat=("or",)),
            r"Bernoulli.compat = \('or',\) would have no effect",
        ),
        (
            lambda: experiment(graphs.ring(4), DSpodFL(0.1), schedule=Cycle(D=2, rounding="floor")),
            "would have no effect",
        ),
    ],
)
def test_settings_that_another_one_makes_idle_are_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()
