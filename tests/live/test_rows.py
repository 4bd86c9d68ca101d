"""All rows in one process, answered by a loop: every rule has the simulator's bits."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.core import mean_model
from peerloom.errors import Caution
from peerloom.rules import RULES
from peerloom.runtime import simulation
from tests.memory_runs import experiment
from tests.own_loops import answered, looped


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_the_simulators_bits(name):
    exp = experiment(name, rounds=6)
    run = simulation(exp, path="links")
    expected = [snapshot.state for snapshot in run]
    states, found, _ = answered(looped(exp), exp.problem, path="links")
    assert len(states) == len(expected)
    for one, other in zip(states, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    for field, values in run.ledger.arrays().items():
        assert np.array_equal(found.session.ledger.arrays()[field], values), field


@pytest.mark.parametrize("path", ["matrix", "links"])
def test_a_regulariser_and_both_mixers_are_the_simulators(path):
    """And the model that is left in the end is the averaged one."""
    exp = experiment("Depositum", rounds=6)
    with pytest.warns(Caution, match="minimises f"):
        exp = replace(exp, problem=replace(exp.problem, h=pl.problems.L1(0.05)))
    with pytest.warns(Caution, match="minimises f"):
        live = looped(exp)
    # It was said, and is not said again.
    *_, last = simulation(exp, path=path)
    states, run, model = answered(live, exp.problem, path=path)
    assert torch.equal(states[-1].x, last.x)
    assert torch.equal(model.x.detach(), mean_model(last.x, last.mass))
    assert run.session.finished == "rounds"


def test_models_of_other_types_are_copied():
    """Rows have the run's type, parameters their own."""
    exp = pl.Experiment(pl.graphs.ring(3), pl.problems.Loop(), pl.rules.DSpodFL(lr=0.1), rounds=4)
    model = torch.nn.Linear(3, 2, dtype=torch.bfloat16)
    run = pl.live.rows(exp)
    opt = pl.live.optimizer(model, run)
    while not opt.finished:
        opt.zero_grad()
        model(torch.ones(1, 3, dtype=torch.bfloat16)).square().sum().backward()
        opt.step()
    assert run.session.state.x.dtype == torch.float32
    assert model.weight.dtype == torch.bfloat16
    mean = run.session.state.x.mean(dim=0)[:6].reshape(2, 3)
    torch.testing.assert_close(model.weight.detach().float(), mean, rtol=1e-2, atol=1e-2)
