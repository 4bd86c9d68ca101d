"""A rule on two halves in turn, against plain loops that run it on each half for itself."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import peerloom as pl
from peerloom.config import comparison_from
from peerloom.core import ConfigError, Draws
from peerloom.peers.experiments import check_deadline, check_free
from peerloom.problems import Task
from peerloom.registry import describe
from peerloom.rules import (
    AB,
    CHOCO,
    DGD,
    DSGT,
    SGP,
    Alternating,
    Chebyshev,
    DFedSAM,
    DSpodFL,
    LocalAdamW,
    NoLoCo,
)
from peerloom.runtime import iterate, trace
from peerloom.runtime.shards import run_sharded
from peerloom.schedules import Bernoulli
from peerloom.testing import check_rule
from tests.builders import experiment, paths, quadratic, trajectory

GRAPH, N, ROUNDS = pl.graphs.ring(5), 6, 24
FIRST = ((1, 2), (3, 5))
HALVES = ([1, 3, 4], [0, 2, 5])
PROBLEM = quadratic(5, N, seed=4)


def heads(seed, rounds=ROUNDS):
    """Whose turn it is in rounds 1, 2, ...: True for the first half."""
    draws = Draws(seed)
    return [bool(draws("rule/turn", t, np.zeros(1, int))[0, 0] < 0.5) for t in range(1, rounds + 1)]


def adamw_in_loops(lr, K, clip, seed):
    """LocalAdamW of each half, one number after the other; moments and counts of each its own."""
    W, (b1, b2), eps = GRAPH.peers.matrix(), (0.9, 0.999), 1e-8
    x, m, v = np.zeros((5, N)), np.zeros((5, N)), np.zeros((5, N))
    counts = {0: 0, 1: 0}
    for turn in heads(seed):
        which = 0 if turn else 1
        half = HALVES[which]
        for i in range(5):
            for k in range(K):
                full = PROBLEM.A[i] @ x[i] - PROBLEM.b[i]
                g = full[half]
                g = g * min(1.0, clip / (np.sqrt((g**2).sum()) + 1e-6))
                count = counts[which] + k + 1
                for at, c in enumerate(half):
                    m[i, c] = b1 * m[i, c] + (1 - b1) * g[at]
                    v[i, c] = b2 * v[i, c] + (1 - b2) * g[at] ** 2
                    root = np.sqrt(v[i, c] / (1 - b2**count)) + eps
                    x[i, c] = x[i, c] * (1 - lr * 0.01) - lr * m[i, c] / (1 - b1**count) / root
        counts[which] += K
        x[:, half] = W @ x[:, half]
        yield x.copy()


@paths
def test_adamw_of_each_half_is_that_of_plain_loops(path):
    rule = Alternating(LocalAdamW(lr=0.05, K=3, clip=0.5), FIRST)
    found = trajectory(experiment(GRAPH, rule, problem=PROBLEM, rounds=ROUNDS, seed=7), path=path)
    for got, wanted in zip(found[1:], adamw_in_loops(0.05, 3, 0.5, seed=7), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-9, atol=1e-12)
    assert 4 < sum(heads(7)) < 20


def block_problem():
    """Losses in which the halves do not meet, and those of each half alone."""
    A = np.array(PROBLEM.A)
    for one, other in (HALVES, HALVES[::-1]):
        A[:, np.ix_(one, other)[0], np.ix_(one, other)[1]] = 0
    parts = [
        pl.problems.Quadratic(A[:, half][:, :, half], np.array(PROBLEM.b)[:, half])
        for half in HALVES
    ]
    return pl.problems.Quadratic(A, PROBLEM.b), parts


RULES = [
    DSpodFL(lr=0.05),
    DSGT(lr=0.05),
    LocalAdamW(lr=0.05, K=2, moments="mixed"),
    NoLoCo(lr=0.02, K=3, clip=2.0),
    DFedSAM(lr=0.05, K=2),
    AB(lr=0.05),
    Chebyshev(DGD(lr=0.05), K=2, modulus=0.5),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_each_half_goes_the_rules_own_way_as_often_as_it_has_its_turn(rule):
    """Where halves do not meet, each is a run of the rule on a smaller model."""
    whole, parts = block_problem()
    *_, last = iterate(
        experiment(GRAPH, Alternating(rule, FIRST), problem=whole, rounds=ROUNDS, seed=3)
    )
    turns = sum(heads(3))
    for half, part, rounds in zip(HALVES, parts, (turns, ROUNDS - turns), strict=True):
        *_, alone = iterate(experiment(GRAPH, rule, problem=part, rounds=rounds))
        np.testing.assert_allclose(last.x[:, half].numpy(), alone.x.numpy(), rtol=1e-9, atol=1e-12)


def test_differences_of_a_frozen_half_are_zero():
    """What neighbours keep of it stays what they keep."""
    rule, message = CHOCO(0.05, gamma=0.3), pl.messages.TopK(0.5)
    whole, _ = block_problem()
    exp = experiment(
        GRAPH, Alternating(rule, FIRST), problem=whole, rounds=ROUNDS, seed=3, message=message
    )
    before = None
    for snapshot, turn in zip(iterate(exp), [None, *heads(3)], strict=True):
        if turn is not None:
            frozen = HALVES[1 if turn else 0]
            for name in ("x", "copy"):
                old, new = getattr(before, name), getattr(snapshot.state, name)
                assert torch.equal(old[:, frozen], new[:, frozen]), name
        before = snapshot.state


@pytest.mark.parametrize("rule", [*RULES, CHOCO(0.05)], ids=lambda rule: type(rule).__name__)
def test_it_keeps_the_contract(rule):
    check_rule(Alternating(rule, ((0, 2),)))
    wide = trace(Alternating(rule, FIRST))
    assert wide.draws
    assert wide.mixings == trace(rule).mixings
    assert not trace(rule).draws


def test_shards_have_the_same_bits():
    rule = Alternating(LocalAdamW(lr=0.05, K=2), FIRST)
    exp = experiment(
        GRAPH, rule, problem=PROBLEM, rounds=8, seed=2, schedule=Bernoulli(nodes=0.6, links=0.6)
    )
    *_, last = iterate(exp, path="links")
    found = run_sharded(exp, [[0, 3], [1, 2, 4]])
    assert torch.equal(found.path[-1], last.x)


def spans():
    """As a file names it."""
    return FIRST


def test_a_file_gives_spans_or_names_a_function():
    for first in ([[1, 2], [3, 5]], "tests.rules.test_alternating:spans"):
        given = {"name": "Alternating", "first": first, "rule": {"name": "DGD", "lr": 0.05}}
        (exp,) = comparison_from(
            {
                "rounds": 6,
                "graph": {"name": "ring", "clients": 5},
                "problem": describe(PROBLEM),
                "algorithm": given,
            }
        ).experiments
        again = replace(exp, algorithm=Alternating(DGD(lr=0.05), FIRST))
        assert torch.equal(pl.simulate(exp).x, pl.simulate(again).x)
        assert describe(exp.algorithm) == given


def test_spans_are_found_by_names():
    net = Task(lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), lambda m, b: 0, ((0,),))
    assert net.spans("0", "1") == ((0, 13),)
    assert net.spans("weight") == ((0, 6), (9, 12))
    with pytest.raises(ConfigError, match=r"has 'wight'.*Did you mean 'weight'"):
        net.spans("weight", "wight")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Alternating(DGD(lr=0.1), ()), r"must be spans .* found \(\)"),
        (lambda: Alternating(DGD(lr=0.1), ((3, 3),)), "start below end"),
        (lambda: Alternating(SGP(lr=0.1), FIRST), "the models of SGP count by one mass"),
    ],
)
def test_what_cannot_alternate_is_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def test_peers_must_be_in_one_round_and_nothing_may_come_late_that_is_counted_on():
    """A deadline silences links, which models bear; mass and flows would come to a frozen half."""
    made = {
        name: experiment(GRAPH, Alternating(rule, FIRST), problem=PROBLEM)
        for name, rule in {"models": LocalAdamW(lr=0.1), "trackers": DSGT(lr=0.1)}.items()
    }
    check_deadline(made["models"], 1.0)
    with pytest.raises(ConfigError, match="Alternating needs every message of every round"):
        check_deadline(made["trackers"], 1.0)
    with pytest.raises(ConfigError, match=r"are in different rounds\. Leave --free out"):
        check_free(made["models"])


def test_one_half_must_not_be_all_of_the_row():
    with pytest.raises(ConfigError, match="no second half"):
        pl.simulate(experiment(GRAPH, Alternating(DGD(lr=0.1), ((0, N),)), problem=PROBLEM))
    with pytest.raises(ConfigError, match="ends at 9, but a row has 6"):
        pl.simulate(experiment(GRAPH, Alternating(DGD(lr=0.1), ((2, 9),)), problem=PROBLEM))
