"""Classification with a loss and metrics of one's own, several labels, targets of any shape."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import peerloom as pl
from peerloom.core import ConfigError
from peerloom.problems import MLP, Classification, Dataset, Labels, blobs
from peerloom.registry import build, describe
from peerloom.runtime.shards import run_sharded
from tests import tasks
from tests.tasks import ALL, bound, models, path_of, run

BLOBS = blobs(samples=200, features=5, classes=3)
DICE = np.random.default_rng(0)
X = DICE.normal(size=(160, 5)).astype(np.float32)
W = DICE.normal(size=(5, 6))
SEVERAL = Dataset.of(
    X[:120], (X[:120] @ W[:, :3] > 0) * 1.0, X[120:], (X[120:] @ W[:, :3] > 0) * 1.0
)
VECTORS = Dataset.of(
    X[:120], (X[:120] @ W).reshape(-1, 2, 3), X[120:], (X[120:] @ W).reshape(-1, 2, 3)
)


def any_of(scores, labels):
    """Several labels that hold or not, each for itself."""
    return F.binary_cross_entropy_with_logits(scores, labels)


def distance(scores, targets):
    """The squared distance of every sample's targets."""
    return (scores.reshape(targets.shape) - targets).square().flatten(1).sum(1)


def entropy(scores, labels):
    """What torch has under another name, of each sample."""
    return torch.logsumexp(scores, -1) - scores.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def test_a_loss_that_has_a_name_gives_the_same_bits_without_it():
    named, own = (
        Classification(MLP((7,)), BLOBS, batch=6, loss=loss, strategy="loop")
        for loss in ("cross_entropy", entropy)
    )
    assert torch.equal(path_of(run(named)), path_of(run(own)))
    for problem in (named, own):
        last = pl.simulate(run(problem)).metrics.row(-1)
        assert last["mean_accuracy"] == pl.simulate(run(named)).metrics.row(-1)["mean_accuracy"]


@pytest.mark.parametrize("model", ["softmax", "mlp"])
def test_all_rows_at_once_or_one_by_one(model):
    one, all_ = (
        Classification(model, BLOBS, batch=6, loss=tasks.focal, strategy=way)
        for way in ("loop", "auto")
    )
    x = models(one)
    found = bound(one).grad(x, ALL, 3)
    assert bound(all_).strategy == "vmap"
    torch.testing.assert_close(bound(all_).grad(x, ALL, 3), found, rtol=1e-11, atol=1e-13)
    exp = run(all_)
    assert torch.equal(run_sharded(exp, [[0, 2], [1], [3]]).path, path_of(exp))


@pytest.mark.parametrize(
    ("data", "loss", "n", "lr"), [(SEVERAL, any_of, 3 * 6, 0.5), (VECTORS, distance, 6 * 6, 0.05)]
)
def test_labels_and_targets_of_any_shape_are_learnt(data, loss, n, lr):
    problem = Classification("softmax", data, batch=10, loss=loss)
    assert problem.n == n
    result = pl.simulate(run(problem, pl.rules.DGD(lr=lr), rounds=60))
    losses = result.metrics["mean_loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert np.isnan(result.metrics["mean_accuracy"]).all()
    module = problem.module(3).double()
    nn.utils.vector_to_parameters(result.x[1], module.parameters())
    x, y = (torch.from_numpy(part).double() for part in (data.test_x, data.test_y))
    assert result.metrics["client_loss"][-1][1] == pytest.approx(loss(module(x), y).mean().item())


def test_two_classes_may_have_one_score():
    two = blobs(samples=80, features=5, classes=2)

    def loss(scores, labels):
        return F.binary_cross_entropy_with_logits(scores[:, 0], labels.to(scores.dtype))

    own = Classification(lambda: nn.Linear(5, 1), two, loss=loss, strategy="loop")
    known = Classification("logistic", two, strategy="loop")
    x = models(own)
    assert np.array_equal(bound(own).evaluate(x).accuracy, bound(known).evaluate(x).accuracy)


def test_metrics_of_scores_and_labels_are_columns():
    problem = Classification("softmax", BLOBS, metrics=tasks.worst)
    result = pl.simulate(run(problem))
    module, row = problem.module(3).double(), result.metrics.row(-1)
    inputs, labels = torch.from_numpy(BLOBS.test_x).double(), torch.from_numpy(BLOBS.test_y)
    for x, value in zip(result.x, row["client_worst_recall"], strict=True):
        nn.utils.vector_to_parameters(x, module.parameters())
        assert tasks.worst(module(inputs), labels)["worst_recall"] == value
    assert row["average_accuracy"] >= row["average_worst_recall"]


def test_a_file_names_functions():
    given = {"name": "Classification", "model": "softmax", "loss": "tests.tasks:focal"}
    problem = build("problems", given | {"metrics": "tests.tasks:worst"}, "problem")
    assert (problem.loss, problem.metrics) == (tasks.focal, tasks.worst)
    assert describe(problem).items() >= (given | {"metrics": "tests.tasks:worst"}).items()
    assert "metrics" not in describe(build("problems", given, "problem"))


def judged(**changes):
    return bound(Classification("softmax", BLOBS, **changes)).evaluate(torch.zeros(1, 18).double())


REFUSED = {
    r"have \[3\] labels for each sample, but the loss 'cross_entropy' takes one": (
        lambda: Classification("softmax", SEVERAL)
    ),
    "have real targets, but the loss is 'hinge'": lambda: Classification(
        "svm", Dataset.of(X, X[:, 0])
    ),
    r"Labels deals samples by their one label, but these have \[3\]": lambda: bound(
        Classification("softmax", Dataset.of(X, np.ones((160, 3), int)), Labels(1), loss=any_of)
    ),
    r"'<lambda>' gave \[2, 3\] for 2 samples": lambda: judged(loss=lambda s, y: s),
    r"'<lambda>' gave float for 2 samples": lambda: judged(loss=lambda s, y: 1.0),
    "strategy 'closed' needs a loss whose derivative is known, and 'focal' is": lambda: judged(
        loss=tasks.focal, strategy="closed"
    ),
    "evaluate.train weighs samples, but loss 'focal'": lambda: bound(
        Classification("softmax", BLOBS, loss=tasks.focal)
    ).train_loss(torch.zeros(1, 18).double(), "clients"),
    "Classification.metrics must return numbers by name": lambda: judged(metrics=lambda s, y: 1.0),
    "Classification.metrics names a loss": lambda: judged(metrics=lambda s, y: {"loss": 1.0}),
    "Classification.loss: there is no loss 'focal'": lambda: Classification(loss="focal"),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_refusals_are_sentences(words):
    with pytest.raises(ConfigError, match=words):
        REFUSED[words]()
