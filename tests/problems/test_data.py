"""Data sets: shapes, splits, and facts of synthetic sets that can be checked."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import peerloom.problems
from peerloom.core import ConfigError
from peerloom.datasets import CATALOGUE
from peerloom.problems import (
    DATA,
    Dataset,
    blobs,
    digits,
    linear_regression,
    logistic_regression,
    part,
)
from peerloom.registry import build, describe

SYNTHETIC = {
    "blobs": blobs,
    "linear_regression": linear_regression,
    "logistic_regression": logistic_regression,
}


@pytest.mark.parametrize("name", SYNTHETIC)
def test_synthetic_data_are_a_function_of_the_seed(name):
    one, same, other = (SYNTHETIC[name](samples=50, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.x, same.x)
    assert np.array_equal(one.y, same.y)
    assert not np.array_equal(one.x, other.x)


# A site brings its own samples, and a part is one of something.
@pytest.mark.parametrize("name", sorted(set(DATA) - set(CATALOGUE) - {"own", "part"}))
def test_data_can_be_made_again_from_their_recipe(name):
    data = DATA[name]()
    recipe = dict(data.recipe)
    again = DATA[recipe.pop("name")](**recipe)
    assert np.array_equal(data.x, again.x)
    assert np.array_equal(data.y, again.y)
    assert data.x.dtype == np.float32


def test_a_part_has_all_classes_alike_also_of_sorted_files():
    x, y = np.arange(30.0)[:, None], np.repeat([0, 1, 2], 10)
    whole = Dataset.of(x, y, x[::2], y[::2], owners=y)
    some = part(whole, samples=7, test=6)
    assert some.x[:, 0].tolist() == [0, 4, 8, 12, 17, 21, 25]
    assert some.y.tolist() == some.owners.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert some.test_y.tolist() == [0, 0, 1, 1, 2, 2]
    same = part(whole)
    assert (len(same.x), len(same.test_x), same.classes) == (30, 15, 3)
    for wrong in ({"samples": 31}, {"samples": 0}, {"test": 16}):
        with pytest.raises(ConfigError, match=r"must be from 1 to"):
            part(whole, **wrong)
    with pytest.raises(ConfigError, match="holds nothing out"):
        part(blobs_without_test(), test=1)


def blobs_without_test():
    return Dataset.of(np.eye(3), [0, 1, 2])


def test_a_part_is_made_again_from_its_table():
    table = {"name": "part", "of": {"name": "digits", "test": 0.5}, "samples": 40, "test": 10}
    data = build("data", table, "problem.data")
    assert (len(data.x), len(data.test_x)) == (40, 10)
    assert describe(data) == table
    assert not data.facts, "what is known of all samples is not known of some"


def test_the_digits_are_those_of_scikit_learn():
    """The checksum is of the float64 pixels and int64 targets of sklearn's load_digits."""
    with np.load(Path(peerloom.problems.__file__).parent / "digits.npz") as file:
        pixels, targets = file["x"].astype("<f8"), file["y"].astype("<i8")
    found = hashlib.sha256(pixels.tobytes() + targets.tobytes()).hexdigest()
    assert found == "f6d9e39f37dc45d327f6db33428ee58970ccceabb2535a5c179de35886b70443"
    data = digits()
    x, y = (np.concatenate(parts) for parts in ((data.x, data.test_x), (data.y, data.test_y)))
    order, ours = (np.lexsort((*a.T, b)) for a, b in ((pixels, targets), (x, y)))
    assert np.array_equal(x[ours], (pixels[order] / 16).astype(np.float32))
    assert np.array_equal(y[ours], targets[order])


def test_digits_are_split_class_by_class():
    data = digits()
    assert len(data.y) + len(data.test_y) == 1797
    assert data.x.shape[1:] == (64,)
    assert data.x.min() == 0
    assert data.x.max() == 1
    for label in range(10):
        held, kept = (data.test_y == label).sum(), (data.y == label).sum()
        assert abs(held - 0.2 * (held + kept)) < 1
    assert np.array_equal(digits().test_x, data.test_x)
    assert abs(len(digits(test=0.5).test_y) - 1797 / 2) <= 10


def test_blobs_lie_round_their_centres():
    data = blobs(samples=4000, features=6, classes=4, spread=0.5, distance=3.0, seed=1)
    centres = data.facts["centres"]
    assert np.linalg.norm(centres, axis=1) == pytest.approx([3.0] * 4)
    assert data.classes == 4
    assert len(data.test_y) == 800
    for label in range(4):
        cloud = data.x[data.y == label] - centres[label]
        assert len(cloud) == 1000
        assert stats.kstest(cloud.ravel() / 0.5, "norm").pvalue > 1e-4
    held_out = data.test_x - centres[data.test_y]
    assert stats.kstest(held_out.ravel() / 0.5, "norm").pvalue > 1e-4


def test_the_solution_of_a_linear_regression_is_the_minimiser():
    data = linear_regression(samples=300, features=5, noise=0.3, seed=2)
    A, y, solution = data.x.astype(float), data.y, data.facts["solution"]
    # The gradient is zero, and the loss is convex.
    assert np.abs(A.T @ (A @ solution - y)).max() < 1e-9
    best = np.mean((A @ solution - y) ** 2)
    assert best < np.mean((A @ data.facts["w"] - y) ** 2)
    noise = y - A @ data.facts["w"]
    assert stats.kstest(noise / 0.3, "norm").pvalue > 1e-4


def test_the_constants_of_a_linear_regression_hold():
    data = linear_regression(samples=300, features=5, seed=2)
    A, rng = data.x.astype(float), np.random.default_rng(0)
    low, high = data.facts["strong_convexity"], data.facts["smoothness"]
    for _ in range(200):
        u = rng.normal(size=5)
        curvature = np.mean((A @ u) ** 2) / (u @ u)
        assert low * (1 - 1e-12) <= curvature <= high * (1 + 1e-12)
    values, vectors = np.linalg.eigh(A.T @ A / 300)
    for wanted, k in ((low, 0), (high, -1)):
        assert np.mean((A @ vectors[:, k]) ** 2) == pytest.approx(wanted)
    assert values[0] > 0


def test_logistic_labels_are_coins_and_the_smoothness_holds():
    """Erratum E-A11: labels are drawn, not thresholded."""
    data = logistic_regression(samples=5000, features=4, seed=1)
    A, w, y = data.x.astype(float), data.facts["w"], data.y
    assert set(y) == {0, 1}
    p = expit(A @ w)
    for sure in (p < 0.3, (p >= 0.3) & (p < 0.7), p >= 0.7):
        error = np.sqrt((p[sure] * (1 - p[sure])).sum())
        assert abs((y[sure] - p[sure]).sum()) < 5 * error
    hessian_at_zero = A.T @ A / 4 / len(A)  # sigmoid' is at most 1/4, and that at 0
    assert np.linalg.eigvalsh(hessian_at_zero)[-1] == pytest.approx(data.facts["smoothness"])


@pytest.mark.parametrize(
    ("make", "nonzero"), [(linear_regression, 0.01), (logistic_regression, 0.5)]
)
def test_the_truth_of_pame_is_sparse(make, nonzero):
    """Examples 1 and 2: that share of w* is uniform on [0.5, 2] or its negative, the rest 0."""
    data = make(samples=30, features=4000, nonzero=nonzero)
    w = data.facts["w"]
    there = w[w != 0]
    assert len(there) == 4000 * nonzero
    assert stats.kstest(np.abs(there), stats.uniform(0.5, 1.5).cdf).pvalue > 1e-4
    assert abs((there > 0).mean() - 0.5) < 4.5 * 0.5 / np.sqrt(len(there))
    assert data.recipe["nonzero"] == nonzero
    one = make(samples=30, features=5, nonzero=0.01, seed=3).facts["w"]
    assert (one != 0).sum() == 1  # never none at all


def test_the_linear_example_of_pame_has_its_noise():
    data = linear_regression(samples=2000, features=100, noise=0.5, nonzero=0.01)
    noise = data.y - data.x.astype(float) @ data.facts["w"]
    assert stats.kstest(noise / 0.5, "norm").pvalue > 1e-4


def test_your_own_arrays_make_a_classification_or_a_regression():
    x = np.arange(12.0).reshape(4, 3)
    data = Dataset.of(x, [0, 2, 1, 2], x[:1], [1])
    assert data.classes == 3
    assert data.test_y.tolist() == [1]
    assert Dataset.of(x, [0, 2, 1, 2], x[:1], [4]).classes == 5  # seen in the test part only
    assert Dataset.of(x, [0.0, 2.0, 1.0, 2.5]).classes == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dataset.of(np.zeros((3, 2)), [0, 1]),
        lambda: Dataset.of(np.zeros((0, 2)), np.zeros(0)),
        lambda: Dataset.of(np.zeros((2, 2)), [0, -1]),
        lambda: Dataset.of(np.zeros((2, 2)), [0, 1], test_x=np.zeros((2, 2))),
        lambda: Dataset.of(np.zeros((2, 2)), [0, 1], np.zeros((2, 2)), [0, -5]),
        lambda: Dataset.of(np.zeros((2, 2)), [0, 1], owners=[0]),
        lambda: linear_regression(nonzero=0.0),
        lambda: logistic_regression(nonzero=1.5),
        lambda: digits(test=0.0),
        lambda: digits(test=1.0),
    ],
)
def test_impossible_data_are_refused(make):
    with pytest.raises(ConfigError):
        make()
