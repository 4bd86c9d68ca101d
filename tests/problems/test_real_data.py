"""Public data sets as experiments use them, where they are on this machine."""

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.config import comparison_from
from peerloom.core import ConfigError, DataError
from peerloom.problems import (
    DATA,
    Classification,
    Natural,
    cifar10,
    emnist_letters,
    heart_disease,
    mnist,
    mnist_writers,
)
from peerloom.problems.records import _ATTRIBUTES
from peerloom.registry import build, describe
from peerloom.runtime import build_port
from tests.builders import needs_data

SHAPES = {
    "a9a": ((32_561, 123), 16_281, 2),
    "emnist-letters": ((124_800, 1, 28, 28), 20_800, 26),
    "fashion-mnist": ((60_000, 1, 28, 28), 10_000, 10),
    "heart-disease": ((689, 13), 231, 2),
    "mnist": ((60_000, 1, 28, 28), 10_000, 10),
    "mnist-writers": ((60_000, 1, 28, 28), 10_000, 10),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_data(name)) for name in SHAPES])
def test_a_data_set_has_the_papers_shape_and_its_recipe_makes_it_again(name):
    """DEPOSITUM's table I."""
    data = build("data", name, "data")
    shape, held_out, classes = SHAPES[name]
    assert (data.x.shape, len(data.test_y), data.classes) == (shape, held_out, classes)
    assert data.x.dtype == np.float32
    assert set(data.y) == set(data.test_y) == set(range(classes))
    # And nothing is read twice while it is in use.
    assert build("data", describe(data), "data") is data


SCALES = {
    "standard": (0.0, 1.0, 2e-3),
    "unit": (0.2860, 0.3530, 1e-4),
    "mnist": ((0.2860 - 0.1307) / 0.3081, 0.3530 / 0.3081, 1e-3),
    "half": (2 * 0.2860 - 1, 2 * 0.3530, 1e-3),
    "raw": (255 * 0.2860, 255 * 0.3530, 0.05),
}


@needs_data("fashion-mnist")
@pytest.mark.parametrize("scale", SCALES)
def test_pixels_are_scaled_as_asked(scale):
    data = build("data", {"name": "fashion-mnist", "scale": scale}, "data")
    mean, deviation, error = SCALES[scale]
    assert data.x.mean(dtype=float) == pytest.approx(mean, abs=error)
    assert data.x.std(dtype=float) == pytest.approx(deviation, abs=error)


@needs_data("mnist")
def test_low_digits_are_one_and_high_ones_zero():
    """Section 5.2: MLL-SGD's logistic regression, 785 weights."""
    data, digits = mnist(low=True), mnist()
    assert np.array_equal(data.y, (digits.y <= 4).astype(int))
    assert np.array_equal(data.test_y, (digits.test_y <= 4).astype(int))
    assert Classification("logistic", data).n == 785
    assert data.recipe["low"]


@needs_data("emnist-letters")
def test_letters_are_counted_from_zero():
    data = emnist_letters()
    assert np.bincount(data.y).tolist() == [4800] * 26
    assert np.bincount(data.test_y).tolist() == [800] * 26


@needs_data("mnist", "mnist-writers")
def test_writers_own_their_digits():
    whole = mnist_writers()
    assert (
        whole.owners.max() + 1 == len(np.unique(whole.owners)) == len(whole.facts["owners"]) == 539
    )
    assert np.bincount(whole.owners).min() == 19
    few = mnist_writers(writers=7)
    first = whole.owners < 7
    assert np.array_equal(few.x, whole.x[first])
    assert np.array_equal(few.owners, whole.owners[first])
    assert len(few.test_y) == 10_000
    exp = pl.Experiment(
        graph=pl.graphs.ring(7),
        problem=Classification("svm", few, Natural()),
        algorithm=pl.rules.DGD(lr=0.01),
        rounds=1,
    )
    assert [len(part) for part in build_port(exp).problem.parts] == np.bincount(few.owners).tolist()
    with pytest.raises(ConfigError, match="1 to 539"):
        mnist_writers(writers=540)


SITES = {
    "cleveland": (303, 139),
    "hungarian": (294, 106),
    "switzerland": (123, 115),
    "va-long-beach": (200, 149),
}


@needs_data("heart-disease")
def test_hospitals_hold_their_own_patients():
    data = heart_disease()
    assert data.facts["owners"] == list(SITES)
    for number, (site, (patients, ill)) in enumerate(SITES.items()):
        alone = heart_disease(sites=(site,))
        mine = data.owners == number
        assert len(alone.y) + len(alone.test_y) == patients
        assert alone.y.sum() + alone.test_y.sum() == ill
        # Nothing of another hospital has entered: not scale, not split.
        assert np.array_equal(alone.x, data.x[mine])
        assert np.array_equal(alone.y, data.y[mine])
    assert np.isfinite(data.x).all()


@needs_data("heart-disease")
def test_missing_attributes_are_neutral_and_the_rest_scaled_by_constants():
    """The first patient of Budapest, whose file says 28,1,2,130,132,0,2,185,0,0,?,?,?,0."""
    data = heart_disease(sites=("hungarian",), test=0.01)
    patients = np.concatenate([data.x, data.test_x])
    wanted = [28, 1, 2, 130, 132, 0, 2, 185, 0, 0, None, None, None]
    scaled = [
        0.0 if v is None else (v - a) / b
        for v, (a, b) in zip(wanted, _ATTRIBUTES.values(), strict=True)
    ]
    assert (np.abs(patients - np.array(scaled)).max(axis=1) < 1e-6).sum() == 1


@needs_data("heart-disease")
def test_an_impossible_zero_was_not_measured():
    """All of Switzerland's cholesterols are written as 0."""
    data = heart_disease(sites=("switzerland",))
    assert np.abs(data.x[:, list(_ATTRIBUTES).index("chol")]).max() == 0


@needs_data("heart-disease")
def test_the_split_is_a_draw_of_its_seed():
    one, same, other = (heart_disease(seed=seed).test_x for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@needs_data("heart-disease")
def test_four_hospitals_learn_together():
    """Always saying "ill" is right in 55 cases of 100."""
    exp = pl.Experiment(
        graph=pl.graphs.complete(4),
        problem=Classification("logistic", heart_disease(), Natural(), batch=32),
        algorithm=pl.rules.DGD(lr=0.1),
        rounds=400,
    )
    result = pl.simulate(exp)
    assert result.metrics["mean_accuracy"][-1] > 0.75


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"sites": ["paris"]}, "heart-disease|paris"),
        ({"sites": ["cleveland", "cleveland"]}, "different hospitals"),
        ({"sites": []}, "one at least"),
        ({"test": 1.5}, "share held out"),
    ],
)
def test_impossible_hospitals_are_refused(given, named):
    with pytest.raises(ConfigError, match=named):
        build("data", {"name": "heart-disease", **given}, "problem.data")


@needs_data("a9a")
def test_a9a_is_read_line_by_line():
    data = DATA["a9a"]()
    assert set(np.unique(data.x)) == {0, 1}
    # The file counts from one: 3:1 11:1 14:1 ...
    first = [2, 10, 13, 18, 38, 41, 54, 63, 66, 72, 74, 75, 79, 82]
    assert np.flatnonzero(data.x[0]).tolist() == first
    assert (data.y.sum(), data.test_y.sum()) == (7841, 3846)
    assert Classification("softmax", data).n == 248


@pytest.mark.slow
def test_photographs_have_their_colours_and_scale(cifar10_root):
    data = cifar10(path=str(cifar10_root))
    assert (data.x.shape, data.test_x.shape) == ((50_000, 3, 32, 32), (10_000, 3, 32, 32))
    assert np.bincount(data.y).tolist() == [5000] * 10
    some = data.x[::20]
    assert np.abs(some.mean(axis=(0, 2, 3), dtype=float)).max() < 0.05
    assert np.abs(some.std(axis=(0, 2, 3), dtype=float) - 1).max() < 0.05
    record = np.fromfile(
        cifar10_root / "cifar-10-batches-bin/data_batch_3.bin",
        np.uint8,
        count=3073,
        offset=3073 * 5,
    )
    red = (record[1:1025].reshape(32, 32) / 255 - 0.4914) / 0.2470
    assert data.y[20_005] == record[0]
    assert np.allclose(data.x[20_005, 0], red, atol=1e-5)


@needs_data("fashion-mnist")
def test_one_file_runs_fashion_mnist_by_labels():
    table = {
        "rounds": 60,
        "graph": {"name": "geometric", "clients": 10, "radius": 0.5},
        "schedule": {"name": "Bernoulli", "nodes": 0.5, "links": 0.5},
        "problem": {
            "name": "Classification",
            "model": "svm",
            "data": {"name": "fashion-mnist", "scale": "mnist"},
            "partition": {"name": "Labels", "per_client": 10},
        },
        "algorithm": {"name": "DSpodFL", "lr": 0.01},
    }
    (exp,) = comparison_from(table).experiments
    assert exp.problem.n == 7850
    assert pl.simulate(exp).metrics["mean_accuracy"][-1] > 0.6


@needs_data("fashion-mnist")
def test_a_hundred_clients_share_one_copy():
    data = DATA["fashion-mnist"]()
    problem = Classification("svm", data, pl.problems.IID())
    exp = pl.Experiment(
        graph=pl.graphs.ring(100), problem=problem, algorithm=pl.rules.DGD(lr=0.01), rounds=1
    )
    local = build_port(exp).problem
    assert local._inputs.data_ptr() == torch.from_numpy(data.x).data_ptr()
    assert local._test_inputs.data_ptr() == torch.from_numpy(data.test_x).data_ptr()


def test_missing_data_end_a_file_with_the_code_for_data(tmp_path, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "KERAS_HOME", "PEERLOOM_DATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        DataError, match=r"problem.data: Data 'cifar10' are not .* peerloom data get cifar10"
    ) as caught:
        build("problems", {"name": "Classification", "data": "cifar10"}, "problem")
    assert caught.value.exit_code == 4
