"""Closed form, vmap and loop give one gradient, that of torch's losses and autograd."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812

from peerloom.core import ConfigError, Draws, Placement
from peerloom.problems import CNN, LOSSES, MLP, Classification, Dataset, Linear, blobs
from peerloom.problems.layout import RowLayout
from peerloom.problems.strategies import STRATEGIES, ClosedForm, LargeBatches, RowLoop, choose

ROWS, BATCH, FEATURES = 4, 6, 5
# What torch calls these losses; each averages over the batch.
TORCH_LOSS = {
    "cross_entropy": F.cross_entropy,
    "hinge": F.multi_margin_loss,
    "logistic": lambda s, y: F.binary_cross_entropy_with_logits(s[:, 0], y.double()),
    "squared": lambda s, y: F.mse_loss(s[:, 0], y.double()) / 2,
}
MODELS = {
    "softmax": Linear("cross_entropy"),
    "svm": Linear("hinge"),
    "logistic": Linear("logistic"),
    "least squares": Linear("squared"),
    "no bias": Linear("cross_entropy", bias=False),
    "mlp": MLP((7, 6)),
    "mlp, hinge": MLP((7,), loss="hinge"),
}


def case(name):
    """A module, its loss, models [rows, n] and one batch per model."""
    torch.manual_seed(0)
    model = MODELS[name]
    one = LOSSES[model.loss].one_output
    module = model.build((FEATURES,), 1 if one else 3).double()
    x = torch.randn(ROWS, RowLayout(module).n, dtype=torch.float64)
    inputs = torch.randn(ROWS, BATCH, FEATURES, dtype=torch.float64)
    if model.loss == "squared":
        return module, model.loss, x, inputs, torch.randn(ROWS, BATCH, dtype=torch.float64)
    return module, model.loss, x, inputs, torch.randint(0, 2 if one else 3, (ROWS, BATCH))


def by_autograd(module, loss, x, inputs, labels):
    """One model after the other, with torch's own loss."""
    found = []
    for row, features, wanted in zip(x, inputs, labels, strict=True):
        nn.utils.vector_to_parameters(row.clone(), module.parameters())
        value = TORCH_LOSS[loss](module(features), wanted)
        found.append(
            torch.cat([g.flatten() for g in torch.autograd.grad(value, list(module.parameters()))])
        )
    return torch.stack(found)


def some_seeds():
    return list(range(ROWS))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", MODELS)
def test_every_strategy_gives_autograds_gradient(name, strategy):
    module, loss, x, inputs, labels = case(name)
    kept = x.clone()
    with torch.no_grad():
        found = STRATEGIES[strategy](module, LOSSES[loss]).gradients(x, inputs, labels, some_seeds)
    assert torch.equal(x, kept)
    torch.testing.assert_close(
        found, by_autograd(module, loss, x, inputs, labels), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", MODELS)
def test_every_strategy_gives_the_modules_scores(name, strategy):
    module, loss, x, inputs, _ = case(name)
    found = list(STRATEGIES[strategy](module, LOSSES[loss]).scores(x, inputs[0], list))
    for row, scores in zip(x, found, strict=True):
        nn.utils.vector_to_parameters(row.clone(), module.parameters())
        torch.testing.assert_close(scores, module(inputs[0]).detach(), rtol=1e-12, atol=1e-12)


@given(
    widths=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    bends=st.lists(st.booleans(), min_size=3, max_size=3),
    biased=st.lists(st.booleans(), min_size=3, max_size=3),
    rows=st.integers(1, 4),
    batch=st.integers(1, 7),
)
def test_fast_paths_give_the_readable_paths_gradient(widths, bends, biased, rows, batch):
    dice = torch.Generator().manual_seed(sum(widths) + batch)
    layers = []
    for k, (before, after) in enumerate(pairwise(widths)):
        layers += [nn.Linear(before, after, bias=biased[k]), *([nn.ReLU()] if bends[k] else [])]
    module, loss = nn.Sequential(*layers).double(), LOSSES["cross_entropy"]
    x = torch.randn(rows, RowLayout(module).n, dtype=torch.float64, generator=dice)
    inputs = torch.randn(rows, batch, widths[0], dtype=torch.float64, generator=dice)
    labels = torch.randint(0, widths[-1], (rows, batch), generator=dice)

    def seeds():
        return [0] * rows

    with torch.no_grad():
        wanted = RowLoop(module, loss).gradients(x, inputs, labels, seeds)
        found = {
            name: STRATEGIES[name](module, loss).gradients(x, inputs, labels, seeds)
            for name in ("closed", "vmap")
        }
        if len(layers) == 1:
            samples = inputs.flatten(0, 1), labels.flatten()
            picks = np.arange(rows * batch).reshape(rows, batch)
            large = LargeBatches(ClosedForm(module, loss), *samples)
            found |= {
                "drawn": large.drawn(x, picks),
                "full": large.full(x, np.arange(rows), list(picks)),
            }
    for name, g in found.items():
        torch.testing.assert_close(g, wanted, rtol=1e-10, atol=1e-12, msg=name)


@given(st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_a_layout_takes_rows_to_parameters_and_back(features, outputs, bias):
    module = nn.Sequential(
        nn.Linear(features, outputs, bias=bias), nn.ReLU(), nn.Linear(outputs, 2)
    ).double()
    layout = RowLayout(module)
    x = torch.arange(3 * layout.n, dtype=torch.float64).view(3, -1)
    views = layout.views(x)
    assert torch.equal(layout.rows(views), x)
    assert all(
        view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        for view in views.values()
    )
    layout.place(x[1], module)
    assert torch.equal(layout.row_of(module), x[1])
    assert {name: tuple(view.shape[1:]) for name, view in views.items()} == {
        name: tuple(parameter.shape) for name, parameter in module.named_parameters()
    }


def test_the_closed_form_refuses_what_it_cannot_differentiate():
    shared = nn.Linear(4, 4)
    for module in (
        nn.Sequential(nn.Linear(4, 4), nn.Tanh()),
        nn.Sequential(shared, shared),
        nn.Sequential(nn.Flatten(0), nn.Linear(4, 4)),
        nn.ReLU(),
    ):
        with pytest.raises(ConfigError, match="'closed' needs linear layers and ReLU"):
            STRATEGIES["closed"](module, LOSSES["hinge"])


def test_relus_are_found_wherever_they_stand():
    """One ReLU object in several places, and one behind the scores."""
    relu = nn.ReLU()
    module = nn.Sequential(
        nn.Linear(5, 4), relu, nn.Linear(4, 4, bias=False), nn.Linear(4, 3), relu
    ).double()
    _, _, _, inputs, labels = case("softmax")
    inputs = inputs[..., :5].contiguous()
    x = torch.randn(ROWS, sum(p.numel() for p in module.parameters()), dtype=torch.float64)
    with torch.no_grad():
        found = STRATEGIES["closed"](module, LOSSES["cross_entropy"]).gradients(
            x, inputs, labels, some_seeds
        )
    torch.testing.assert_close(
        found, by_autograd(module, "cross_entropy", x, inputs, labels), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_slopes_are_torchs(name):
    torch.manual_seed(1)
    one = LOSSES[name].one_output
    scores = torch.randn(50, 1 if one else 4, dtype=torch.float64, requires_grad=True)
    labels = (
        torch.randn(50).double() if name == "squared" else torch.randint(0, 2 if one else 4, (50,))
    )
    wanted = TORCH_LOSS[name](scores, labels)
    torch.testing.assert_close(
        LOSSES[name].value(scores, labels).mean(), wanted, rtol=1e-12, atol=1e-12
    )
    slope = torch.autograd.grad(wanted, scores)[0]
    torch.testing.assert_close(
        LOSSES[name].slope(scores, labels) / 50, slope, rtol=1e-12, atol=1e-14
    )


def test_large_scores_do_not_overflow():
    s, y = torch.tensor([[1e4, -1e4]], dtype=torch.float64), torch.tensor([1])
    assert LOSSES["cross_entropy"].value(s, y).item() == pytest.approx(2e4)
    assert LOSSES["logistic"].value(s[:, 1:], y).item() == pytest.approx(1e4)


def test_an_answer_is_correct_where_the_first_of_the_largest_scores_is_the_label():
    assert LOSSES["hinge"].correct(
        torch.tensor([[1.0, 2.0], [3.0, 2.0]]), torch.tensor([1, 1])
    ).tolist() == [True, False]
    # Classes in blocks, as ClosedForm's scores lie: of equal ones the first counts.
    tied = torch.zeros(12, 9).T
    assert LOSSES["hinge"].correct(tied, torch.arange(9)).tolist() == [True, *[False] * 8]
    assert LOSSES["logistic"].correct(
        torch.tensor([[-1.0], [2.0]]), torch.tensor([0, 0])
    ).tolist() == [True, False]


COUNTS = [  # cell by cell in test_models.py
    ((28, 28), 10, Linear(), 7_850),
    ((3, 32, 32), 10, MLP(), 402_250),
    ((784,), 10, CNN(), 268_362),
    ((28, 28), 27, CNN(), 270_555),
]


@pytest.mark.parametrize(("shape", "classes", "model", "count"), COUNTS)
def test_parameter_counts_are_the_papers(shape, classes, model, count):
    data = Dataset.of(np.zeros((classes, *shape)), np.arange(classes))
    problem = Classification(model, data)
    assert problem.n == count
    assert problem.start(0).shape == (count,)
    assert problem.module(0)(torch.zeros(2, *shape)).shape == (2, classes)


def chosen(model, shape, batch):
    module = model.build(shape, 10)
    return choose("auto", module, LOSSES["cross_entropy"], torch.zeros(1, *shape), batch)


def test_the_fastest_strategy_that_fits_is_chosen():
    assert chosen(Linear(), (784,), 16) == "closed"
    assert chosen(MLP(), (784,), 128) == "closed"
    bent = nn.Sequential(
        nn.Linear(784, 128), nn.Tanh(), nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 10)
    )
    sample = torch.zeros(1, 784)
    # 6 * 109,184 * 16 = 10 million operations.
    assert choose("auto", bent, LOSSES["hinge"], sample, 16) == "vmap"
    # 84 million: above the 50 million of the design.
    assert choose("auto", bent, LOSSES["hinge"], sample, 128) == "loop"
    assert chosen(CNN(), (28, 28), 16) == "loop"
    assert choose("loop", nn.Linear(2, 2), LOSSES["hinge"], torch.zeros(1, 2), 1) == "loop"
    for part in (nn.Dropout(0.1), nn.BatchNorm1d(4)):
        module = nn.Sequential(nn.Linear(4, 4), part)
        assert choose("auto", module, LOSSES["hinge"], torch.zeros(1, 4), 1) == "loop"
        with pytest.raises(ConfigError, match="'vmap' cannot run"):
            STRATEGIES["vmap"](module, LOSSES["hinge"])


@pytest.mark.parametrize("batch", [1, 4, 33, 128, "all"])
@pytest.mark.parametrize("features", [7, 40, 1023])
@pytest.mark.parametrize(
    ("model", "classes"), [("softmax", 3), ("softmax", 10), ("svm", 3), ("logistic", 2)]
)
def test_a_row_alone_gets_the_bits_that_it_gets_among_others(model, classes, features, batch):
    """Wherever its numbers lie in memory: what a peer computes is what the simulator computes."""
    problem = Classification(
        model, blobs(samples=300, features=features, classes=classes), batch=batch
    )
    draws, x = (
        Draws(1),
        torch.randn(5, problem.n, dtype=torch.float64, generator=torch.Generator().manual_seed(1)),
    )

    def gradients(rows):
        place = Placement(np.array(rows), 5, torch.device("cpu"), torch.float64)
        return problem.bind(place, draws).grad(x[rows].clone(), np.arange(len(rows)), 1)

    together = gradients([0, 1, 2, 3, 4])
    for row in range(5):
        assert torch.equal(gradients([row])[0], together[row])
