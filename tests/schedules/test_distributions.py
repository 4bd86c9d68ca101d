"""Laws that abilities are drawn from, against scipy's distributions."""

import numpy as np
import pytest
from scipy import stats

from peerloom.core import ConfigError, uniform
from peerloom.schedules import distributions

U = uniform(0, "test", 0, np.arange(20_000), lanes=2)


def truncated(mean, std):
    return stats.truncnorm((0 - mean) / std, (1 - mean) / std, mean, std)


LAWS = {
    "beta": (distributions.Beta(0.5, 0.5), stats.beta(0.5, 0.5)),
    "skewed beta": (distributions.Beta(2.0, 0.8), stats.beta(2.0, 0.8)),
    "uniform": (distributions.Uniform(), stats.uniform()),
    "part": (distributions.Uniform(0.2, 0.6), stats.uniform(0.2, 0.4)),
    "normal": (distributions.TruncatedNormal(0.5, 0.5), truncated(0.5, 0.5)),
    "normal at the edge": (distributions.TruncatedNormal(0.0, 0.1), truncated(0.0, 0.1)),
    "wide normal": (distributions.TruncatedNormal(0.5, 10.0), truncated(0.5, 10.0)),
}


@pytest.mark.parametrize("name", LAWS)
def test_samples_follow_the_distribution(name):
    law, truth = LAWS[name]
    sample = law.sample(U)
    assert sample.shape == (len(U),)
    assert stats.kstest(sample, truth.cdf).pvalue > 1e-4


def test_bimodal_is_an_even_mixture_of_two_truncated_normals():
    sample = distributions.BimodalTruncatedNormal(0.1, 0.9, 0.1).sample(U)
    low, high = truncated(0.1, 0.1), truncated(0.9, 0.1)
    assert stats.kstest(sample, lambda x: (low.cdf(x) + high.cdf(x)) / 2).pvalue > 1e-4


@pytest.mark.parametrize("name", LAWS)
def test_samples_stay_in_the_support(name):
    law, truth = LAWS[name]
    ends = np.array([[0.0, 0.0], [1 - 2.0**-53, 1 - 2.0**-53], [0.5, 0.5]])
    sample = law.sample(np.concatenate([U, ends]))
    low, high = truth.support()
    assert np.isfinite(sample).all()
    assert sample.min() >= low - 1e-12
    assert sample.max() <= high + 1e-12


def test_uniform_leaves_out_zero_and_may_give_one():
    assert distributions.Uniform().sample(np.array([[1 - 2.0**-53, 0.0]])) > 0
    assert distributions.Uniform().sample(np.array([[0.0, 0.0]])) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: distributions.Beta(0.0, 1.0),
        lambda: distributions.Uniform(0.5, 0.4),
        lambda: distributions.Uniform(-0.1, 0.4),
        lambda: distributions.Uniform(0.5, 1.4),
        lambda: distributions.TruncatedNormal(0.5, 0.0),
        lambda: distributions.BimodalTruncatedNormal(0.1, 0.9, -1.0),
    ],
)
def test_impossible_laws_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def test_a_truncated_normal_far_outside_stays_on_its_side():
    u = np.linspace(0.01, 0.99, 50)[:, None].repeat(2, axis=1)
    assert distributions.TruncatedNormal(-0.5, 0.05).sample(u).max() < 0.05
    assert distributions.TruncatedNormal(1.5, 0.05).sample(u).min() > 0.95
