"""All rows in one process, answered by a loop: every rule has the simulator's bits."""

import numpy as np
import pytest
import torch

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
