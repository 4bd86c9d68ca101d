"""What rules say of themselves to theory is what they do when there is nothing to learn."""

import numpy as np
import pytest

from peerloom import graphs
from peerloom.codecs import Coordinates, Dense
from peerloom.problems import Quadratic
from peerloom.rules import RULES, ProxGT
from peerloom.schedules import Bernoulli
from peerloom.theory.drawn import Mixing
from peerloom.theory.rule_facts import carried_share, family_of, mixings_of
from tests.builders import experiment, trajectory
from tests.every_rule import EVERY

GRAPH = graphs.from_edges(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3)])

# Rules whose models are not simply mixed without gradients: with memory, with momentum towards the
# row's own model, by differences from copies, by ratios of pushed mass, or over hubs.
OTHERWISE = {
    "ANQNIDS", "BEER", "CHOCO", "D2", "DCD", "DistributedSGD", "EXTRA", "FedADMM", "FedAvg",
    "FedDR", "FedDualAvg", "FedMiD", "GossipPushPull", "HLSGD", "LocalSGD", "MLLSGD", "NIDS",
    "PushDIGing", "SGP", "SQuARM", "SubgradientPush",
}  # fmt: skip


def still(rule):
    """An experiment with nothing to learn, and models apart."""
    x0 = np.random.default_rng(0).normal(size=(6, 3))
    problem = Quadratic(np.zeros((6, 3, 3)), np.zeros((6, 3)))
    return experiment(GRAPH, rule, problem=problem, schedule=Bernoulli(links=0.5), x0=x0, rounds=5)


@pytest.mark.parametrize("name", sorted(set(RULES) - OTHERWISE))
def test_theory_mixes_as_the_rule_does(name):
    exp = still(RULES[name](**EVERY[name]))
    mix, models = Mixing(exp), [x.numpy() for x in trajectory(exp)]
    for t in range(1, exp.rounds + 1):
        np.testing.assert_allclose(models[t], mix(t, models[t - 1]), rtol=1e-12, atol=1e-12)
    assert (models[0] != models[-1]).any()


def test_several_mixings_in_a_round_are_counted():
    exp = still(ProxGT(lr=0.1, K=3))
    assert mixings_of(exp.algorithm) == 3
    mix, models = Mixing(exp), [x.numpy() for x in trajectory(exp)]
    np.testing.assert_allclose(models[1], mix(1, mix(1, mix(1, models[0]))), rtol=1e-12, atol=1e-12)


def test_a_rule_of_ones_own_says_nothing_and_is_taken_as_it_is():
    class Silent:
        pass

    assert family_of(Silent()) is None
    assert mixings_of(Silent()) == 1


def test_what_messages_carry():
    def share(message):
        return carried_share(experiment(GRAPH, message=message))

    assert share(Dense()) == 1.0
    assert share(Coordinates(0.5)) == pytest.approx(2 / 3)  # of 3 coordinates
    assert share(Dense("float16")) is None
