"""A setting of a wrong type is refused by name, in every part that a file may name."""

import dataclasses
import itertools
from typing import Any, get_args

import numpy as np
import pytest
import torch

from peerloom import graphs
from peerloom.arguments import alternatives, checked, hints_of
from peerloom.codecs import CODECS, Coordinates, Dense
from peerloom.core import ConfigError, InverseSqrt
from peerloom.experiment import Experiment
from peerloom.problems import Classification, Quadratic
from peerloom.registry import KINDS, build, describe
from peerloom.rules import CHOCO, DSGT, EXTRA, RULES, Chebyshev, DSpodFL, PaME, SpodGT
from peerloom.schedules import SCHEDULES, Bernoulli, Explicit, HubRounds, Sampled, Split
from tests.every_rule import EVERY

# What a part cannot do without, where it is not a rule.
NEEDED = {
    "Coordinates": {"fraction": 0.5}, "RandK": {"fraction": 0.5}, "TopK": {"fraction": 0.5},
    "SignTopK": {"fraction": 0.5}, "Epidemic": {"s": 1}, "Cycle": {"D": 2}, "Every": {"T0": 2},
    "HubRounds": {"tau": 2}, "Waiting": {"tau": 2}, "Participation": {"share": 0.5},
    "Replay": {"run": "no/such"}, "Refresh": {"q": 2}, "BySize": {"sizes": (1.0, 2.0)},
    "Groups": {"shares": (1.0, 2.0)}, "Quadratic": {"A": [[[1.0]]], "b": [[1.0]]},
    "Beta": {"a": 0.5, "b": 0.5}, "TruncatedNormal": {"mean": 0.5, "std": 0.1},
    "BimodalTruncatedNormal": {"mean1": 0.2, "mean2": 0.8, "std": 0.1},
    "InverseSqrt": {"start": 0.1, "gamma": 10}, "Pieces": {"rates": (0.1,), "starts": (1,)},
    "Cosine": {"start": 0.1, "rounds": 9}, "Warmup": {"rounds": 3, "then": 0.1},
    "L1": {"lam": 0.1}, "L2": {"lam": 0.1}, "MCP": {"lam": 0.1, "theta": 3.0},
    "Task": {"model": torch.nn.Identity, "loss": max, "data": range},
    "SCAD": {"lam": 0.1, "theta": 3.0}, "Box": {"lo": -1.0, "hi": 1.0},
}  # fmt: skip
PARTS = {
    name: make
    for kind in KINDS.values()
    for name, make in kind.items()
    if dataclasses.is_dataclass(make)
}
SETTINGS = [
    pytest.param(name, field.name, id=f"{name}.{field.name}")
    for name, make in PARTS.items()
    for field in dataclasses.fields(make)
    if field.init
]


def wrong_for(hint):
    """Values of types that an annotation leaves no room for."""
    types = alternatives(hint)
    plain = {one for one in (*get_args(hint), hint) if not isinstance(one, list)}
    arrays = any("Array" in str(one) for one in types)
    yield from (object(), 1j, {1: 2}, (1, "x"), [[1], [2, 3]], [None], torch.nn.Linear)
    if type(None) not in plain:
        yield None
    if str not in plain:
        yield "0.1"
    if bool not in plain and not arrays:
        yield from (True, np.bool_(True))
    if not plain & {int, float} and not arrays:
        yield from (3, np.float32(0.5))
    if float not in plain and not arrays:
        yield from (2.5, float("nan"))
    if not arrays and "tuple" not in str(hint):
        yield from ((1, 2), [0.1, 0.2], np.ones(2))


@pytest.mark.parametrize(("name", "setting"), SETTINGS)
def test_a_wrong_type_is_refused_by_the_settings_name(name, setting):
    make, given = PARTS[name], EVERY.get(name) or NEEDED.get(name, {})
    hint = hints_of(make)[setting]
    for wrong in wrong_for(hint):
        if callable(wrong) and "Callable" in str(hint):
            continue  # a function that makes a module
        if (name, setting) == ("Task", "data") and isinstance(wrong, list | tuple):
            continue  # what is in a list is looked at when its client is
        with pytest.raises(ConfigError, match=rf"^{make.__name__}\.{setting} must be .*, found "):
            make(**given | {setting: wrong})


@pytest.mark.parametrize("name", [*RULES, *CODECS, *SCHEDULES])
def test_what_a_part_needs_fits_by_position_and_by_name(name):
    make, given = PARTS[name], EVERY.get(name) or NEEDED.get(name, {})
    if name == "Replay":
        return  # wants a run
    names = [field.name for field in dataclasses.fields(make)]
    first = list(itertools.takewhile(given.__contains__, names))
    rest = {key: value for key, value in given.items() if key not in first}
    one, other = make(*(given[key] for key in first), **rest), make(**given)
    assert describe(one) == describe(other)
    assert describe(dataclasses.replace(one)) == describe(other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DSpodFL(lr="0.1"), "DSpodFL.lr must be a number or a rate, found '0.1'."),
        (lambda: DSpodFL(None), "DSpodFL.lr must be a number or a rate, found None."),
        (lambda: RULES["DGD"](lr=(1, 2)), "DGD.lr must be a number or a rate, found (1, 2)."),
        (lambda: DSGT(lr=0.1, form=7), "DSGT.form must be 6 or 8, found 7."),
        (lambda: RULES["DFedAvgM"](0.1, K=2.5), "DFedAvgM.K must be a whole number, found 2.5."),
        (lambda: RULES["DAdam"](1, (0.5, 0.9)), "DAdam.betas must be a list of 3 numbers, found"),
        (lambda: Chebyshev(DSGT, 2, 0.5), "Chebyshev.rule must be a rule, found "),
        (lambda: EXTRA(InverseSqrt(0.1, 10)), "EXTRA.lr must be a number, found Inverse"),
        (lambda: CHOCO(0.1, "a" * 300), f"CHOCO.gamma must be a number, found '{'a' * 99} ..."),
        (lambda: HubRounds(tau="4"), "HubRounds.tau must be a whole number, found '4'."),
        (lambda: Split(nodes=3), "Split.nodes must be a schedule, found 3."),
        (lambda: Dense("float8"), "Dense.word must be 'float32', 'float16', 'bfloat16' or left"),
        (lambda: Classification(3), "Classification.model must be a string, a model or a function"),
        (lambda: Bernoulli(nodes_follow=0.1), "Bernoulli.nodes_follow must be a rate or left out"),
        (lambda: PaME(sigma=10**400), "PaME.sigma must be a number or a list of numbers, found"),
    ],
)  # fmt: skip
def test_it_says_what_was_found_and_what_is_allowed(make, message):
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_what_fits_is_as_a_file_would_have_it():
    """Numbers of numpy and whole ones, lists and tuples: the same part, with the same hash."""
    assert DSpodFL(np.float64(1)) == DSpodFL(1) == DSpodFL(1.0)
    assert repr(DSpodFL(1)) == "DSpodFL(lr=1.0)"
    assert SpodGT([1, InverseSqrt(1, 2)]) == SpodGT((1.0, InverseSqrt(1.0, 2.0)))
    assert describe(PaME(np.float32(0.5))) == {"name": "PaME", "sigma": 0.5, "growth": 1.0}
    for part in (DSpodFL(1), Coordinates([0.5, 1]), Sampled(kappa=np.array([1, 2]))):
        kind = "messages" if isinstance(part, Coordinates) else "algorithms"
        kind = "schedules" if isinstance(part, Sampled) else kind
        assert describe(build(kind, describe(part), "here")) == describe(part)
    whole = Experiment(graphs.ring(3), Quadratic([[[1]]] * 3, [[1]] * 3), DSpodFL(1))
    real = Experiment(graphs.ring(3), Quadratic([[[1.0]]] * 3, [[1.0]] * 3), DSpodFL(1.0))
    assert whole.rounds == real.rounds
    assert Explicit(links=np.ones((2, 3, 3), bool)).links.shape == (2, 3, 3)


def test_a_rule_of_ones_own_is_checked_as_well():
    @dataclasses.dataclass(frozen=True)
    class Mine:
        lr: float
        anything: Any = None

    own = checked(Mine)
    assert own(1, anything="x") == own(1.0, "x")
    with pytest.raises(ConfigError, match=r"^Mine\.lr must be a number, found '1'"):
        own("1")
    with pytest.raises(TypeError, match="unexpected keyword"):
        own(lr=1, ls=2)
    with pytest.raises(TypeError, match="positional"):
        own(1, 2, 3)
