"""Classification: batches, active rows, l2, and modules that torch would make random."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F  # noqa: N812

from peerloom import graphs
from peerloom.core import ConfigError, Draws, Placement
from peerloom.problems import (
    IID,
    L1,
    MLP,
    BySize,
    Classification,
    Dataset,
    Labels,
    Linear,
    blobs,
    linear_regression,
)
from peerloom.problems.strategies import LargeBatches
from peerloom.runtime import build_port
from tests.builders import experiment

CLIENTS = 4
BLOBS = blobs(samples=200, features=5, classes=3)


def bound(problem, seed=0, rows=CLIENTS):
    place = Placement(np.arange(rows), rows, torch.device("cpu"), torch.float64)
    return problem.bind(place, Draws(seed))


def models(problem, rows=CLIENTS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, problem.n, dtype=torch.float64, generator=generator)


ALL = np.arange(CLIENTS)
TORCH_LOSS = {
    "softmax": F.cross_entropy,
    "svm": F.multi_margin_loss,
    "mlp": F.cross_entropy,
    "logistic": lambda s, y: F.binary_cross_entropy_with_logits(s[:, 0], y.double()),
    "least_squares": lambda s, y: F.mse_loss(s[:, 0], y.double()) / 2,
}
DATA = {"logistic": blobs(90, 5, 2), "least_squares": linear_regression(90, 5)}


@pytest.mark.parametrize("partition", [IID(), BySize((1, 2, 3, 4))], ids=["equal", "uneven"])
@pytest.mark.parametrize("model", TORCH_LOSS)
def test_the_whole_gradient_is_that_of_the_clients_own_samples(model, partition):
    problem = Classification(model, DATA.get(model, BLOBS), partition, batch=None, l2=0.3)
    local, x, module = bound(problem), models(problem), problem.module(0).double()
    found = local.grad(x, ALL, 1)
    for i, part in enumerate(local.parts):
        inputs = torch.from_numpy(problem.data.x[part]).double()
        nn.utils.vector_to_parameters(x[i].clone(), module.parameters())
        parameters = list(module.parameters())
        value = TORCH_LOSS[model](module(inputs), torch.from_numpy(problem.data.y[part]))
        value = value + 0.15 * sum(p.square().sum() for p in parameters)
        wanted = torch.cat([g.flatten() for g in torch.autograd.grad(value, parameters)])
        torch.testing.assert_close(found[i], wanted, rtol=1e-10, atol=1e-10)


def one_hot(partition):
    """Sample k is unit vector k, target -1: at x = 0 a batch's gradient counts what was drawn."""
    data = Dataset.of(np.eye(24), -np.ones(24))
    return Classification("least_squares", data, partition, batch=6)


def counts(local, problem, t, on=ALL):
    g = local.grad(torch.zeros(CLIENTS, problem.n, dtype=torch.float64), on, t)
    return (g[:, :24] * 6).round().to(torch.int64).numpy()


@pytest.mark.parametrize("partition", [IID(), BySize((1, 2, 3, 4))], ids=["equal", "uneven"])
def test_batches_are_drawn_with_replacement_from_the_clients_own_samples(partition):
    problem = one_hot(partition)
    local = bound(problem)
    drawn = np.array([counts(local, problem, t) for t in range(1, 400)])
    assert (drawn.sum(axis=2) == 6).all()
    assert drawn.max() > 1
    for i, part in enumerate(local.parts):
        mine = drawn[:, i].sum(axis=0)
        assert mine[np.setdiff1d(np.arange(24), part)].sum() == 0
        assert stats.chisquare(mine[part]).pvalue > 1e-4


def test_a_batch_depends_on_seed_round_and_client_only():
    problem = one_hot(IID())
    local = bound(problem)
    first = counts(local, problem, 7)
    assert np.array_equal(counts(local, problem, 7), first)
    assert not np.array_equal(counts(local, problem, 8), first)
    assert np.array_equal(counts(local, problem, 7), first)
    assert np.array_equal(counts(local, problem, 7, on=np.array([1, 3])), first[[1, 3]])
    assert np.array_equal(counts(bound(problem), problem, 7), first)
    shard = problem.bind(
        Placement(np.array([2, 3]), CLIENTS, torch.device("cpu"), torch.float64), Draws(0)
    )
    g = shard.grad(torch.zeros(2, problem.n, dtype=torch.float64), np.arange(2), 7)
    assert np.array_equal((g[:, :24] * 6).round().numpy(), first[2:])


def test_strategies_see_the_same_batches():
    problems = [
        Classification("softmax", BLOBS, Labels(1), batch=5, strategy=s)
        for s in ("closed", "vmap", "loop")
    ]
    x = models(problems[0])
    found = [bound(problem).grad(x, ALL, 3) for problem in problems]
    for other in found[1:]:
        torch.testing.assert_close(found[0], other, rtol=1e-10, atol=1e-12)


def test_whole_gradients_are_those_of_all_samples():
    problem = Classification(MLP((4,)), BLOBS, BySize((1, 2, 3, 4)), batch=3, l2=0.2)
    whole = Classification(MLP((4,)), BLOBS, BySize((1, 2, 3, 4)), batch="all", l2=0.2)
    x = models(problem)
    assert torch.equal(bound(problem).whole_gradients(x, ALL), bound(whole).grad(x, ALL, 9))
    some = np.array([1, 3])
    assert torch.equal(bound(problem).whole_gradients(x, some), bound(whole).grad(x, some, 9))
    sizes = np.array([len(part) for part in bound(problem).parts])
    assert bound(problem).batches.tolist() == np.ceil(sizes / 3).tolist()
    assert bound(whole).batches.tolist() == [1] * len(sizes)


@pytest.mark.parametrize(
    "model", ["softmax", "svm", "logistic", "least_squares", Linear("cross_entropy", bias=False)]
)
def test_large_batches_give_the_same_gradients_one_by_one(model, monkeypatch):
    problem = Classification(
        model, DATA.get(str(model), BLOBS), BySize((1, 2, 3, 4)), batch=40, l2=0.1
    )
    x, local = models(problem), bound(problem)
    some = [ALL, np.array([0, 3])]
    assert not local._large.fits(40)
    together = [local.grad(x, on, 5) for on in some]
    monkeypatch.setattr(LargeBatches, "FROM", 0)
    assert local._large.fits(40)
    for on, wanted in zip(some, together, strict=True):
        torch.testing.assert_close(local.grad(x, on, 5), wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("model", "strategy"),
    [("softmax", "closed"), (MLP((4,)), "vmap"), (MLP((4,)), "loop"), ("svm", "auto")],
)
def test_only_active_rows_are_computed(model, strategy):
    problem = Classification(model, BLOBS, batch=3, strategy=strategy)
    net = build_port(experiment(graphs.ring(4), problem=problem))
    asked = []
    right = net.problem._gradients.gradients

    def counting(x, inputs, labels, seeds):
        asked.append((len(x), len(inputs), bool(torch.isnan(x).any())))
        return right(x, inputs, labels, seeds)

    net.problem._gradients.gradients = counting
    x, v = models(problem), torch.tensor([[0.0], [1.0], [0.0], [1.0]], dtype=torch.float64)
    whole = net.grad(x)
    x[[0, 2]] = torch.nan
    some = net.grad(x, v)
    assert torch.equal(some[[0, 2]], torch.zeros_like(some[[0, 2]]))
    torch.testing.assert_close(some[[1, 3]], whole[[1, 3]], rtol=1e-12, atol=1e-12)
    nobody = net.grad(x, torch.zeros_like(v))
    assert torch.equal(nobody, torch.zeros_like(x))
    assert asked == [(4, 4, False), (2, 2, False)]
    assert net.ledger.rows.gradients.tolist() == [1, 2, 1, 2]


def dropout():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def batch_norm():
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def both():
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3))


class HiddenDropout(nn.Module):
    """Dropout that no look at the module's parts would find."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(F.dropout(torch.relu(self.first(x)), 0.5, self.training))


def learning(factory):
    strategy = "loop" if factory is HiddenDropout else "auto"
    return Classification(factory, BLOBS, batch=6, strategy=strategy)


ODD = pytest.mark.parametrize("factory", [dropout, batch_norm, both, HiddenDropout])


@ODD
def test_modules_with_memory_or_chance_run_by_the_loop_and_repeat(factory):
    problem = learning(factory)
    local, x = bound(problem), models(problem)
    assert local.strategy == "loop"
    first = local.grad(x, ALL, 2)
    torch.manual_seed(99)
    local.grad(x, ALL, 3)
    local.evaluate(x)
    assert torch.equal(local.grad(x, ALL, 2), first)
    assert torch.equal(bound(problem).grad(x, ALL, 2), first)
    assert torch.equal(local.grad(x, np.array([1, 3]), 2), first[[1, 3]])


def test_hidden_dropout_is_not_lost_when_the_strategy_is_chosen():
    """A module built in evaluation mode is trained in training mode, or dropout would be off."""
    chosen, named = (
        Classification(HiddenDropout, BLOBS, batch=6, strategy=strategy)
        for strategy in ("auto", "loop")
    )
    x = models(named)
    torch.testing.assert_close(
        bound(chosen).grad(x, ALL, 1), bound(named).grad(x, ALL, 1), rtol=1e-10, atol=1e-12
    )


@ODD
def test_torchs_own_generator_is_left_alone(factory):
    problem = learning(factory)
    torch.manual_seed(5)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    local, x = bound(problem), problem.start(0).repeat(CLIENTS, 1)
    local.grad(x, ALL, 1)
    local.evaluate(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


@pytest.mark.parametrize("factory", [dropout, HiddenDropout])
def test_dropout_falls_differently_in_each_round_and_row(factory):
    """One sample for everybody and one model: whatever differs is dropout."""
    data = Dataset(np.ones((CLIENTS, 5), np.float32), np.zeros(CLIENTS, np.int64), classes=3)
    problem = Classification(factory, data, batch=1, strategy="loop")
    local, x = bound(problem), models(problem, 1).abs().repeat(CLIENTS, 1)  # every unit is on
    found = torch.cat([local.grad(x, ALL, t) for t in range(1, 6)])
    assert len({tuple(row) for row in found.tolist()}) > 10


@ODD
def test_evaluation_depends_on_the_models_only(factory):
    problem = learning(factory)
    local, x = bound(problem), models(problem)
    kept, first = x.clone(), local.evaluate(x)
    for t in range(3):
        local.grad(10 * x, ALL, t)
    again = local.evaluate(x)
    assert torch.equal(x, kept)
    assert np.array_equal(first.loss, again.loss)
    assert np.array_equal(first.accuracy, again.accuracy)


def test_evaluation_is_the_test_loss_with_l2_and_h():
    problem = Classification("svm", BLOBS, l2=0.2, h=L1(0.1))
    local, x = bound(problem), models(problem)
    module, inputs, labels = (
        problem.module(0).double(),
        torch.from_numpy(BLOBS.test_x).double(),
        torch.from_numpy(BLOBS.test_y),
    )
    found = local.evaluate(x)
    for i in range(CLIENTS):
        nn.utils.vector_to_parameters(x[i].clone(), module.parameters())
        scores = module(inputs).detach()
        wanted = (
            F.multi_margin_loss(scores, labels) + 0.1 * x[i].square().sum() + 0.1 * x[i].abs().sum()
        )
        assert found.loss[i] == pytest.approx(wanted.item(), rel=1e-12)
        assert found.accuracy[i] == (scores.argmax(dim=1) == labels).double().mean().item()
    torch.testing.assert_close(local.prox(x, 0.5), x.sign() * (x.abs() - 0.05).clamp_min(0))


def test_regression_has_no_accuracy():
    problem = Classification("least_squares", linear_regression(60, 5))
    assert bound(problem).evaluate(models(problem)).accuracy is None


def test_the_start_is_a_function_of_the_seed_and_common_to_all():
    problem = Classification("mlp", BLOBS)
    assert torch.equal(problem.start(3), problem.start(3))
    assert not torch.equal(problem.start(3), problem.start(4))
    x = experiment(graphs.ring(4), problem=problem, seed=3).start(range(4))
    assert all(torch.equal(row, problem.start(3)) for row in x)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"batch": 0}, "batch"),
        ({"l2": -1.0}, "l2"),
        ({"model": "sofmax"}, "Did you mean 'softmax'"),
        ({"loss": "hing"}, "Did you mean 'hinge'"),
        ({"strategy": "fast"}, "strategy must be 'auto', .* found 'fast'"),
        ({"model": "logistic"}, "needs labels 0 and 1"),
        ({"data": linear_regression(50)}, "real targets"),
    ],
)
def test_impossible_problems_are_refused(options, named):
    with pytest.raises(ConfigError, match=named):
        Classification(**{"data": BLOBS, **options})


def test_a_model_without_parameters_is_refused():
    with pytest.raises(ConfigError, match="no parameters"):
        _ = Classification(nn.Flatten, BLOBS).n
