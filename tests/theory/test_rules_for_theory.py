"""What rules say of themselves to theory is what they do when there is nothing to learn."""

import numpy as np
import pytest

from peerloom import graphs
from peerloom.codecs import Coordinates, Dense
from peerloom.problems import Quadratic
from peerloom.rules import RULES, DFedSAM, ProxGT
from peerloom.schedules import Bernoulli
from peerloom.theory.activity_rates import activity_rates
from peerloom.theory.linkwise import Linkwise
from peerloom.theory.mixing import mixing_of
from peerloom.theory.rule_facts import carried_share, family_of
from tests.builders import experiment, trajectory
from tests.every_rule import EVERY

GRAPH = graphs.from_edges(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3)])

# Rules whose models are not simply mixed without gradients: with memory, with momentum, shrunk by
# weight decay, by differences from copies, by ratios of pushed mass, by a polynomial of W, over
# hubs, or half of each row at a time.
OTHERWISE = {
    "ANQNIDS", "AcceleratedDSMT", "Alternating", "BEER", "CHOCO", "Chebyshev", "D2", "DCD",
    "DiLoCo", "DistributedSGD", "EXTRA", "FedADMM", "FedAvg", "FedDR", "FedDualAvg", "FedMiD",
    "GossipPushPull", "HLSGD", "LocalAdamW", "LocalSGD", "MLLSGD", "NIDS", "NoLoCo",
    "PushDIGing", "QuantisedDFedAvgM", "SGP", "SQuARM", "SubgradientPush",
}  # fmt: skip


def still(rule):
    """An experiment with nothing to learn, and models apart."""
    x0 = np.random.default_rng(0).normal(size=(6, 3))
    problem = Quadratic(np.zeros((6, 3, 3)), np.zeros((6, 3)))
    return experiment(GRAPH, rule, problem=problem, schedule=Bernoulli(links=0.5), x0=x0, rounds=5)


@pytest.mark.parametrize("name", sorted(set(RULES) - OTHERWISE))
def test_links_mix_as_the_rule_does(name):
    exp = still(RULES[name](**EVERY[name]))
    mix, models = Linkwise(exp, [exp.seed]), [x.numpy() for x in trajectory(exp)]
    for t in range(1, exp.rounds + 1):
        np.testing.assert_allclose(models[t], mix(t, models[t - 1]), rtol=1e-12, atol=1e-12)
    assert (models[0] != models[-1]).any()
    assert mixing_of(exp, activity_rates(exp)).times == 1


def test_several_copies_of_a_network_mix_like_each():
    exp = still(RULES["DSpodFL"](lr=0.1))
    both, rows = Linkwise(exp, [3, 4]), np.random.default_rng(1).normal(size=(12, 2))
    alone = [
        Linkwise(exp, [seed])(2, x) for seed, x in zip((3, 4), (rows[:6], rows[6:]), strict=True)
    ]
    np.testing.assert_array_equal(both(2, rows), np.concatenate(alone))


@pytest.mark.parametrize(("rule", "times"), [(ProxGT(lr=0.1, K=3), 3), (DFedSAM(lr=0.1, Q=2), 2)])
def test_several_mixings_in_a_round_are_counted(rule, times):
    exp = still(rule)
    assert mixing_of(exp, activity_rates(exp)).times == times


def test_a_rule_of_ones_own_says_nothing_and_is_taken_as_it_is():
    assert family_of(object()) is None


def test_what_messages_carry():
    def share(message):
        return carried_share(experiment(GRAPH, message=message))

    assert share(Dense()) == 1.0
    assert share(Coordinates(0.5)) == pytest.approx(2 / 3)  # of 3 coordinates
    assert share(Dense("float16")) is None
