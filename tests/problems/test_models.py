"""Models by name: parameter counts (sections 5.1 and 5.2), outputs, and that they learn."""

import numpy as np
import pytest
import torch
from torch import nn

import peerloom as pl
from peerloom.core import ConfigError
from peerloom.problems import (
    CNN,
    MLLCNN,
    MLP,
    MODELS,
    VGG11,
    CifarResNet,
    Classification,
    Dataset,
    LeNet,
    Linear,
    ResNet18,
)
from peerloom.problems.convnets import _Block

GREY, COLOUR, A9A = (1, 28, 28), (3, 32, 32), (123,)

# DEPOSITUM's table II, cell by cell; EMNIST's letters with 27 outputs.
TABLE_2 = [
    ("linear", A9A, 2, 248),
    ("linear", GREY, 10, 7_850),
    ("linear", GREY, 27, 21_195),
    ("linear", COLOUR, 10, 30_730),
    ("mlp", A9A, 2, 24_258),
    ("mlp", GREY, 10, 109_386),
    ("mlp", GREY, 27, 110_491),
    ("mlp", COLOUR, 10, 402_250),
    ("cnn", GREY, 10, 268_362),
    ("cnn", GREY, 27, 270_555),
    ("cnn", COLOUR, 10, 268_650),
    ("resnet18", GREY, 10, 11_175_370),
    ("resnet18", GREY, 27, 11_184_091),
    ("resnet18", COLOUR, 10, 11_181_642),
]

OTHERS = [
    (MLLCNN(), GREY, 62, 109_642),
    (Linear("logistic"), GREY, 1, 785),
    (ResNet18(), COLOUR, 1000, 11_689_512),
    (ResNet18("batch"), COLOUR, 1000, 11_689_512),
    (CifarResNet(), COLOUR, 10, 269_722),
    (CifarResNet(norm="batch"), COLOUR, 10, 269_722),
    (CifarResNet(shortcut="projection"), COLOUR, 10, 272_474),
    (VGG11("imagenet"), COLOUR, 1000, 132_863_336),
    (VGG11(), COLOUR, 10, 9_225_610),
    (LeNet(), GREY, 10, 61_706),
    (MLP(hidden=()), GREY, 10, 7_850),
]


def parameters(model, shape, outputs):
    with torch.device("meta"):  # nothing is allocated: the largest would take half a gigabyte
        module = model.build(shape, outputs)
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(("name", "shape", "outputs", "wanted"), TABLE_2)
def test_the_counts_of_depositum_hold(name, shape, outputs, wanted):
    assert parameters(MODELS[name](), shape, outputs) == wanted


@pytest.mark.parametrize(("model", "shape", "outputs", "wanted"), OTHERS, ids=str)
def test_the_counts_of_the_other_papers_hold(model, shape, outputs, wanted):
    assert parameters(model, shape, outputs) == wanted


def test_a_paper_may_have_more_outputs_than_the_data_have_classes():
    data = Dataset.of(np.zeros((26, 28, 28)), np.arange(26))
    assert Classification("mll_cnn", data, outputs=62).n == 109_642
    assert Classification("cnn", data, outputs=27).n == 270_555
    with pytest.raises(ConfigError, match="outputs is 20, but 'own' has 26 classes"):
        Classification("cnn", data, outputs=20)
    with pytest.raises(ConfigError, match="one score"):
        Classification("logistic", Dataset.of(np.zeros((2, 3)), [0, 1]), outputs=5)


def test_a_linear_model_may_start_at_zero():
    data = Dataset.of(np.ones((2, 3)), [0, 1])
    assert Classification(Linear("logistic", zero=True), data).start(3).abs().sum() == 0
    assert Classification(Linear("logistic"), data).start(3).abs().sum() > 0


SMALL = {
    "lenet": GREY,
    "mll_cnn": GREY,
    "cnn": GREY,
    "resnet20": (3, 16, 16),
    "resnet18": (3, 16, 16),
    "vgg11": COLOUR,
}


@pytest.mark.parametrize("name", SMALL)
def test_every_network_scores_every_sample_by_itself(name):
    """No network mixes the samples of a batch, which batch norm would."""
    torch.manual_seed(0)
    module = MODELS[name]().build(SMALL[name], 4).double().train()
    x = torch.randn(3, *SMALL[name], dtype=torch.float64)
    together = module(x)
    assert together.shape == (3, 4)
    assert torch.allclose(together[1:2], module(x[1:2]), rtol=1e-9, atol=1e-12)
    assert together.std(dim=0).min() > 0  # and the scores depend on the image


def test_a_block_is_two_convolutions_and_a_shortcut():
    """The residual block in plain steps, with a stride and more channels, both shortcuts."""
    torch.manual_seed(1)
    x = torch.randn(2, 8, 6, 6)
    for projected in (False, True):
        block = _Block(8, 16, 2, "group", projected)
        inner = torch.relu(block.norm_first(block.first(x)))
        added = block.norm_second(block.second(inner))
        if projected:
            convolved = torch.nn.functional.conv2d(x, block.shortcut[0].weight, stride=2)
            past = block.shortcut[1](convolved)
        else:
            past = torch.zeros(2, 16, 3, 3)
            past[:, 4:12] = x[:, :, ::2, ::2]
        assert torch.allclose(block(x), torch.relu(past + added))


def test_group_norm_stands_where_batch_norm_stood():
    for model in (ResNet18(), CifarResNet()):
        kinds = {type(part) for part in model.build(COLOUR, 10).modules()}
        assert nn.GroupNorm in kinds
        assert nn.BatchNorm2d not in kinds
    assert any(
        isinstance(part, nn.BatchNorm2d)
        for part in CifarResNet(norm="batch").build(COLOUR, 10).modules()
    )


def test_a_small_resnet_learns_between_clients():
    """Two classes of images, one bright at the top and one at the bottom, among noise."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    x = rng.normal(size=(80, 3, 8, 8)) * 0.3
    x[y == 0, :, :4] += 1
    x[y == 1, :, 4:] += 1
    problem = Classification(
        CifarResNet(depth=8), Dataset.of(x[:60], y[:60], x[60:], y[60:]), batch=8
    )
    exp = pl.Experiment(
        graph=pl.graphs.ring(3), problem=problem, algorithm=pl.rules.DGD(lr=0.05), rounds=40
    )
    result = pl.simulate(exp)
    assert result.metrics["mean_accuracy"][-1] == 1


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: CNN().build((40, 40), 2), "at most 32 x 32"),
        (lambda: LeNet().build((3, 40, 40), 2), "at most 32 x 32"),
        (lambda: VGG11().build((28, 28), 2), "at least 32 x 32"),
        (lambda: ResNet18().build((5,), 2), "needs images"),
        (lambda: CifarResNet(depth=18), "6k \\+ 2"),
    ],
)
def test_impossible_networks_are_refused(make, named):
    with pytest.raises(ConfigError, match=named):
        make()
