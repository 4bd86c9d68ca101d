"""Plausible inputs that once gave wrong results in silence: now right, or refused."""

import numpy as np
import pytest
import torch
from torch import nn

import peerloom as pl
from peerloom.core import Draws, LocalWire, pull, uniform
from peerloom.errors import Caution, ConfigError
from peerloom.problems import Classification, Dataset
from peerloom.runtime import build_port, iterate
from peerloom.runtime.matrix_mixer import MatrixMixer

RESOURCES = pl.schedules.Bernoulli(pl.laws.Beta(0.5, 0.5), pl.laws.Beta(0.5, 0.5))


def final(problem, graph=None, rule=None, rounds=3, **changes):
    rule = rule or pl.rules.DGD(0.1)
    exp = pl.Experiment(
        graph or pl.graphs.ring(4), problem, rule, rounds=rounds, dtype="float64", **changes
    )
    return pl.simulate(exp)


def test_a_seed_is_a_whole_number_whatever_was_asked_before():
    ids = np.arange(3)
    before = uniform(1, "trap", 0, ids)
    uniform(1.0, "trap", 0, ids)
    assert np.array_equal(uniform(1, "trap", 0, ids), before)
    with pytest.raises(TypeError):
        Draws(1.0)
    assert Draws(np.int64(1)).seed == 1


def test_a_cycle_is_charged_by_its_resources():
    graph = pl.graphs.ring(4)
    problem = pl.testing.random_quadratic(4, 2)
    by_hand = final(
        problem, graph, pl.rules.DSpodFL(0.1), 30, schedule=pl.schedules.Cycle(resources=RESOURCES)
    )
    preset = final(problem, graph, pl.rules.DFedAvg(0.1), 30, schedule=RESOURCES)
    assert torch.equal(by_hand.x, preset.x)
    assert by_hand.ledger.delay() == pytest.approx(preset.ledger.delay())


def test_dfedavg_takes_its_period_from_the_resources_of_the_experiment():
    exp = pl.Experiment(
        pl.graphs.ring(4),
        pl.testing.random_quadratic(4, 2),
        pl.rules.DFedAvg(0.1),
        resources=RESOURCES,
        rounds=1,
    )
    d = RESOURCES.bind(exp.graph, Draws(exp.seed)).node_probability(0)
    activity = exp.active_schedule.bind(exp.graph, Draws(exp.seed))
    first = next(t for t in range(1, 1000) if activity.links(t, "peers").all())
    assert first == int(np.ceil(np.mean(1 / d))) + 1


def test_a_cycle_in_which_nobody_computes_is_refused():
    with pytest.raises(ConfigError, match="no round computes"):
        final(pl.testing.random_quadratic(4, 2), rule=pl.rules.DFedAvg(0.1, D=1, period="D"))


def test_labels_must_be_numbers_and_one_each_for_classes():
    x = np.ones((4, 2))
    with pytest.raises(ConfigError, match=r"\[1\] labels for each sample"):
        Classification("softmax", Dataset.of(x, np.zeros((4, 1), int)))
    for y, said in (
        (np.array(["a", "b", "a", "b"]), "Number the classes from 0"),
        (np.array([0.0, np.nan, 1.0, 2.0]), "NaN or infinite"),
    ):
        with pytest.raises(ConfigError, match=said):
            Dataset.of(x, y)
    with pytest.raises(ConfigError, match="NaN or infinite"):
        Dataset.of(x * np.inf, np.zeros(4))
    assert Dataset.of(x, np.array([True, False, True, True])).classes == 2


def test_data_in_any_memory_order():
    x, y = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32), np.arange(20) % 2
    backwards = Dataset.of(x[::-1], y[::-1])
    assert torch.isfinite(final(Classification("softmax", backwards)).x).all()


@pytest.mark.parametrize(
    ("make", "loss", "said"),
    [
        (lambda: nn.Linear(64, 10), "squared", "real targets|needs \\[1, 1\\]"),
        (
            lambda: nn.Linear(64, 5),
            "cross_entropy",
            r"scores of shape \[1, 5\], but loss 'cross_entropy' needs \[1, 10\]",
        ),
        (lambda: nn.Linear(32, 10), "cross_entropy", r"cannot take samples of shape \(64,\)"),
        (
            lambda: nn.Sequential(nn.Linear(64, 10), nn.Unflatten(1, (2, 5))),
            "hinge",
            r"\[1, 2, 5\]",
        ),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_refused(make, loss, said):
    with pytest.raises(ConfigError, match=said):
        final(Classification(make, loss=loss))


def test_more_scores_than_classes_are_allowed():
    assert final(Classification(lambda: nn.Linear(64, 27))).x.shape == (4, 64 * 27 + 27)


def test_a_module_in_place_of_a_factory_and_frozen_parameters_are_refused():
    with pytest.raises(ConfigError, match="Give a function that makes one"):
        Classification(nn.Linear(64, 10))

    def frozen():
        module = nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10))
        module[0].weight.requires_grad_(False)
        return module

    with pytest.raises(ConfigError, match=r"'0.weight' .* is frozen"):
        final(Classification(frozen))


class Odd(nn.Module):
    """An unused parameter, a branch on values, and another path in training than in evaluation."""

    def __init__(self):
        super().__init__()
        self.layer, self.unused = nn.Linear(64, 10), nn.Parameter(torch.ones(3))

    def forward(self, x):
        scores = self.layer(x)
        if scores.sum() > 1e9:
            return scores * 0
        return scores * 2 if self.training else scores


class Trains(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        return self.layer(x).tanh() * (2 if self.training else 1)


def test_control_flow_and_unused_parameters_go_to_the_loop():
    exp = pl.Experiment(
        pl.graphs.ring(4), Classification(Odd), pl.rules.DGD(0.1), rounds=2, dtype="float64"
    )
    assert build_port(exp).problem.strategy == "loop"
    assert pl.simulate(exp).x[:, :3].eq(1).all()  # torch lists a module before its parts


def test_vmap_trains_in_training_mode():
    by = {}
    for strategy in ("vmap", "loop"):
        exp = pl.Experiment(
            pl.graphs.ring(4),
            Classification(Trains, strategy=strategy),
            pl.rules.DGD(0.1),
            rounds=3,
            dtype="float64",
        )
        by[strategy] = pl.simulate(exp).x
    torch.testing.assert_close(by["vmap"], by["loop"], rtol=0, atol=1e-12)


def test_batch_norm_needs_two_samples():
    def normed():
        return nn.Sequential(nn.Linear(64, 6), nn.BatchNorm1d(6), nn.Linear(6, 10))

    with pytest.raises(ConfigError, match="one sample"):
        final(Classification(normed, batch=1))
    alone = Classification(normed, partition=pl.problems.BySize((0.0001, 1, 1, 1)), batch=4)
    assert torch.isfinite(final(alone).x).all()


def test_a_regulariser_that_a_rule_would_not_see_is_refused():
    problem = pl.problems.Quadratic(
        np.eye(2)[None].repeat(4, axis=0), np.ones((4, 2)), h=pl.problems.L1(5.0)
    )
    with pytest.raises(ConfigError, match=r"DGD takes no proximal step, .* L1\(lam=5.0\)"):
        final(problem)
    # |b| = 1 < 5: all zero.
    assert final(problem, rule=pl.rules.NIDS(0.1), rounds=200).x.abs().max() < 1e-6


def test_a_schedule_that_reuses_its_array_does_not_latch_links():
    links = pl.graphs.ring(4).peers
    mixer, live = MatrixMixer(links, torch.float64, torch.device("cpu")), np.ones(len(links), bool)
    x = torch.arange(4.0, dtype=torch.float64)[:, None]
    assert not torch.equal(mixer(pull(x), live), x)
    live[:4] = False
    fresh = MatrixMixer(links, torch.float64, torch.device("cpu"))(pull(x), live.copy())
    assert torch.equal(mixer(pull(x), live), fresh)


def test_a_wire_and_no_wire_see_the_same_ledger():
    exp = pl.Experiment(
        pl.graphs.ring(4), pl.testing.random_quadratic(4, 2), pl.rules.DGD(0.1), rounds=4
    )
    *_, fast = iterate(exp)
    *_, slow = iterate(exp, path="links")
    for name, values in fast.ledger.arrays().items():
        assert np.array_equal(slow.ledger.arrays()[name], values)
    assert isinstance(build_port(exp).wire, LocalWire)


def test_depositum_warns_of_what_it_minimises():
    problem = pl.problems.Quadratic(
        np.eye(2)[None].repeat(4, axis=0), np.ones((4, 2)), h=pl.problems.L1(0.1)
    )
    with pytest.warns(Caution, match="minimises f \\+ h / 0.5, not f \\+ h"):
        pl.Experiment(pl.graphs.ring(4), problem, pl.rules.Depositum(0.1, beta=0.5), rounds=1)
    pl.Experiment(
        pl.graphs.ring(4), problem, pl.rules.Depositum(0.1, beta=0.5, h_scale="beta"), rounds=1
    )


def test_the_contract_wants_a_rule_and_not_its_class():
    with pytest.raises(TypeError, match=r"such as DGD\(lr=0.1\), not the class"):
        pl.testing.check_rule(pl.rules.DGD)


def test_a_graph_without_links_runs():
    lonely = pl.graphs.from_edges(2, [])
    schedule = pl.schedules.Bernoulli(0.5, pl.laws.Beta(0.5, 0.5))
    result = final(
        pl.testing.random_quadratic(2, 2),
        lonely,
        pl.rules.DSpodFL(0.1),
        rounds=5,
        schedule=schedule,
    )
    assert result.ledger.messages == 0


def test_rules_that_need_a_constant_step_refuse_a_rate_and_lists_are_tuples():
    rate = pl.rates.InverseSqrt(0.1, 10)
    for make in (pl.rules.DSMT, pl.rules.ProxGT, pl.rules.Depositum, pl.rules.EXTRA):
        with pytest.raises(ConfigError):
            make(rate)
    assert pl.rules.SpodGT([0.1, 0.2]).lr == (0.1, 0.2)
