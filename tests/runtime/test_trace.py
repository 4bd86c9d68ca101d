"""A trace says what a real round keeps and sends, for every rule, without data or a model."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.codecs import Dense
from peerloom.core import Draws, LocalWire, Requirements
from peerloom.errors import ConfigError
from peerloom.peers.wire_plan import WirePlan
from peerloom.rules import RULES
from peerloom.runtime import Width, build_port, trace
from peerloom.testing import graph_for, random_quadratic
from tests.every_rule import EVERY


class Noting(LocalWire):
    """A wire that notes what travels in every round."""

    def __init__(self):
        super().__init__(Dense(), Draws(0))
        self.sent = {}

    def exchange(self, tag, links, out, rows, into, parts):
        self.sent.setdefault(tag[0], []).append(
            (links, [(part.width, part.pushed) for part in parts])
        )
        return super().exchange(tag, links, out, rows, into, parts)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_a_trace_is_what_a_real_round_sends(name):
    rule, n = RULES[name](**EVERY[name]), 11
    graph, wire = graph_for(rule), Noting()
    exp = pl.Experiment(graph, random_quadratic(graph.clients, n), rule, dtype="float64", rounds=3)
    found, net = trace(rule), build_port(exp, mixer="links", wire=wire)
    with torch.no_grad():
        state = rule.init(exp.start(range(graph.rows)), net)
        for net.t in (1, 2, 3):
            before = net.ledger.copy()
            state = rule.step(state, net)
            sent = [
                (next(layer for layer, each in graph.layers.items() if each is links), parts)
                for links, parts in wire.sent[net.t]
            ]
            assert sent == [
                (mixing.layer, [(part.width.at(n), part.pushed) for part in mixing.parts])
                for mixing in found.mixings
            ]
            if net.activity.nodes(net.t).all():
                taken = net.ledger.rows.gradients - before.rows.gradients
                assert (taken == found.gradients + found.whole).all()  # a quadratic is one batch
    assert 0 not in wire.sent
    assert type(state) is found.state
    assert {field: value.shape[1] for field, value in state._asdict().items()} == {
        field: width.at(n) for field, width in found.widths.items()
    }


def test_constants_of_each_client_are_no_hindrance():
    found = trace(pl.rules.SpodGT(lr=(0.1,) * 40))
    assert found.widths == trace(pl.rules.SpodGT(lr=0.1)).widths


def test_what_is_compressed_is_known():
    parts = [part for mixing in trace(pl.rules.BEER(lr=0.1)).mixings for part in mixing.parts]
    assert [part.compressed for part in parts] == [True, True]
    assert not trace(pl.rules.DGD(lr=0.1)).mixings[0].parts[0].compressed


class Two(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@dataclass(frozen=True)
class Odd:
    """A rule whose rows are as long as the test wants them."""

    length: object
    needs = Requirements()

    def init(self, x, net):
        return Two(x, x.new_zeros(len(x), self.length(x.shape[1])))

    def step(self, s, net):
        return Two(net.mix(s.x), s.y)


def test_rows_must_grow_linearly_with_the_model():
    assert trace(Odd(lambda n: 2 * n + 3)).widths["y"] == Width(2, 3)
    with pytest.raises(
        ConfigError, match="Odd has rows of 2 numbers with 5 coordinates, but of 3 with 7"
    ):
        trace(Odd(lambda n: n // 2))


def test_a_rule_that_looks_at_the_models_size_is_refused():
    class Sizes(Odd):
        def step(self, s, net):
            x = net.mix(s.x)
            return Two(net.mix(x) if x.shape[1] > 5 else x, s.y)

    with pytest.raises(
        ConfigError, match="mixes 1 times in a round with 5 coordinates, but 2 times with 7"
    ):
        trace(Sizes(lambda n: n))


def test_no_data_are_loaded_and_no_model_is_built(monkeypatch):
    """Peers and theory ask of a rule what it sends before anything large is in memory."""
    exp = pl.Experiment(
        pl.graphs.ring(4),
        pl.problems.Classification("softmax", pl.problems.blobs(40, 4, 3)),
        pl.rules.DGD(lr=0.1),
    )
    for name in ("bind", "start"):
        monkeypatch.setattr(pl.problems.Classification, name, None)
    assert [part.width for part in WirePlan.of(exp).parts[1]] == [exp.problem.n]
    assert np.prod([3, 5]) == exp.problem.n
