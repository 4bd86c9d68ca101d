"""One table of all algorithms drives the contract; and the contract can fail."""

from dataclasses import dataclass
from typing import NamedTuple, get_type_hints

import pytest
import torch

import peerloom as pl
from peerloom import rules
from peerloom.arguments import alternatives
from peerloom.core import REGISTERED, Card, Rate, Requirements, average, preset, pull, push, rule
from peerloom.errors import ConfigError
from peerloom.rules import RULES
from peerloom.testing import check_rule
from tests.every_rule import EVERY

NAMES = """
AB ANQNIDS AcceleratedDSMT Alternating BEER CHOCO Chebyshev CooperativeSGD D2 DAdam DCD DFedAvg
DFedAvgM DFedSAM
DGD DSGD DSGT DSMT DSpodFL Depositum DiLoCo DistributedSGD EXTRA EpidemicLearning FedADMM FedAvg
FedDR FedDualAvg FedMiD GossipPushPull HLSGD KGT LocalAdamW LocalSGD LocalSGDM MLLSGD NIDS NoLoCo
PMGTSVRG PaME PairwiseGossip PeriodicGT ProxGT ProxGTSRE ProxGTSRO PushDIGing PushPull
QuantisedDFedAvgM RandomizedGossip SGP SQuARM SpodGT SporadicKGT SporadicPushPull SporadicSGD
SubgradientPush SynchronousGT
"""


def test_the_rules_are_these_and_each_is_public():
    assert list(RULES) == NAMES.split()
    for name, kind in RULES.items():
        assert getattr(rules, name) is kind
        assert kind.__name__ == kind.__qualname__ == name
    assert set(NAMES.split()) | {"RULES"} == set(rules.__all__)


def test_every_rule_has_its_card():
    for name, kind in RULES.items():
        assert all(kind.card), name
        assert all(len(text) < 80 for text in kind.card), name
        assert "card" in vars(kind), f"{name} has the card of another"
        assert "__doc__" in vars(kind), f"{name} has the docstring of another"


def test_a_preset_is_its_rule_under_another_plan():
    presets = {"DGD": "DSpodFL", "SporadicKGT": "SpodGT", "SynchronousGT": "SpodGT"}
    for name, base in presets.items():
        made, other = (RULES[each](lr=0.1) for each in (name, base))
        assert made.step.__func__ is other.step.__func__
        assert (made.needs, made.family) == (other.needs, other.family)
        assert made.plan != getattr(other, "plan", None)
        assert made != other
        assert repr(made).startswith(f"{name}(lr=0.1")
        with pytest.raises(ConfigError, match=rf"{name}.lr must be"):
            RULES[name](lr=-1.0)


def test_a_name_is_given_once():
    before = dict(REGISTERED)
    try:
        preset("Mine", rules.DSpodFL, Card("a", "b", "c"), doc="Mine.")
        with pytest.raises(
            ValueError, match=r"There is a rule 'Mine' already, in peerloom\.rules\.dspodfl"
        ):
            rule("a", "b", "c")(type("Mine", (), {"__module__": "elsewhere"}))
    finally:
        REGISTERED.clear()
        REGISTERED.update(before)
    assert "Mine" not in REGISTERED


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_rule_keeps_the_contract(name):
    check_rule(RULES[name](**EVERY[name]))


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_rule_that_takes_a_rate_bears_one_that_warms_up_and_falls_to_zero(name):
    hints = get_type_hints(RULES[name])
    if Rate in alternatives(hints.get("lr", float)):
        lr = pl.rates.Warmup(3, then=pl.rates.Cosine(0.05, rounds=5))
        check_rule(RULES[name](**EVERY[name] | {"lr": lr}))


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_rule_keeps_the_contract_with_random_coordinates_or_refuses_them(name):
    """Rules work with codecs that carry part of a row, or refuse them.

    A coordinate that was not carried is a link that did not fire.
    """
    rule = RULES[name](**EVERY[name])
    for message in (pl.messages.Coordinates(0.4), pl.messages.Coordinates(0.4, per_pair=True)):
        if message.fit in rule.needs.accepts:
            check_rule(rule, message=message)
        else:
            with pytest.raises(ConfigError, match="part of a row"):
                check_rule(rule, message=message)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_rule_keeps_the_contract_with_coarse_messages_or_refuses_them(name):
    rule = RULES[name](**EVERY[name])
    for message in (pl.messages.SignTopK(0.4), pl.messages.ANQ(), pl.messages.Dense("float16")):
        if message.fit in rule.needs.accepts:
            check_rule(rule, message=message)
        else:
            with pytest.raises(ConfigError, match=r"differences|rounds"):
                check_rule(rule, message=message)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_docstring_has_equation_and_reference(name):
    text = RULES[name].__doc__
    assert "Reference:" in text
    # Its own step; presets point to the rule they share.
    if RULES[name].step.__qualname__ == f"{name}.step":
        assert "<-" in text or "x[k+" in text


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@dataclass(frozen=True)
class Tracking:
    """A rule of another kind than ours: pull and push in one message, over a directed graph."""

    lr: float = 0.05
    needs = Requirements()

    def init(self, x, port):
        return Pair(x, port.grad(x))

    def step(self, s, port):
        x, y = port.mix(pull(s.x), push(s.y))
        x = x - self.lr * y
        return Pair(
            x,
            y
            + 0.1 * port.grad(x, port.active())
            + 0.01 * port.uniform("noise") * port.constant(2.0),
        )


@dataclass(frozen=True)
class Averaging(Tracking):
    def step(self, s, port):
        return Pair(port.mix(average(s.x)) - self.lr * port.grad(s.x), s.y)


def test_rules_of_other_kinds_pass():
    check_rule(Tracking())
    check_rule(Averaging())


class Meddling(Tracking):
    def step(self, s, port):
        return Pair(s.x - 0.1 * s.x.mean(dim=0), s.y)


class InPlace(Tracking):
    def step(self, s, port):
        s.x.mul_(0.9)
        return s


class Remembering(Tracking):
    def step(self, s, port):
        seen = self.__dict__.setdefault("seen", [])
        seen.append(port.t)
        return Pair(s.x + len(seen), s.y)


class GlobalChance(Tracking):
    def step(self, s, port):
        return Pair(s.x + 0 * torch.rand(1, dtype=s.x.dtype), s.y)


class NotNamed(Tracking):
    def init(self, x, port):
        return (x, x)


class WrongOrder(Tracking):
    def init(self, x, port):
        return NamedTuple("Swapped", [("y", torch.Tensor), ("x", torch.Tensor)])(x, x)

    def step(self, s, port):
        return s


class ByPosition(Tracking):
    """Uses a row's position in the process where its number among all was meant."""

    def step(self, s, port):
        return Pair(s.x + torch.arange(len(s.x), dtype=s.x.dtype)[:, None], s.y)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Meddling, "rows may meet in port.mix only"),
        (InPlace, "in place"),
        (Remembering, "keep all memory in the state"),
        (GlobalChance, "torch's own generator"),
        (WrongOrder, "first field"),
        (ByPosition, "shards give other bits"),
    ],
)
def test_a_rule_that_breaks_a_clause_is_caught(rule, said):
    with pytest.raises(AssertionError, match=said):
        check_rule(rule())


def test_a_state_that_is_no_named_tuple_is_caught():
    with pytest.raises((AssertionError, AttributeError)):
        check_rule(NotNamed())
