"""Intervals for the median over seeds: exact for one look, and for all of them together."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from peerloom.papers.recipes.intervals import (
    ERROR,
    LOOKS,
    interval,
    judged,
    look_after,
    needed,
    reached,
)


@given(
    st.dictionaries(st.integers(1, 12), st.integers(1, 12), max_size=4).map(
        lambda some: {n: k for n, k in some.items() if n // 2 < k <= n}
    )
)
def test_the_chance_of_reaching_any_number_is_that_of_all_sequences(numbers):
    tosses = max(numbers, default=0)
    hits = 0
    for coins in itertools.product((0, 1), repeat=tosses):
        heads = [sum(coins[:n]) for n in numbers]
        hits += any(h >= k or n - h >= k for h, (n, k) in zip(heads, numbers.items(), strict=True))
    assert reached(numbers) == pytest.approx(float(Fraction(hits, 2**tosses)))


@pytest.mark.parametrize("error", [ERROR / parts for parts in (1, 2, 3, 10, 27, 135, 10_000)])
def test_all_looks_together_err_in_no_more_cases_than_they_should(error):
    numbers = needed(error)
    assert set(numbers) <= set(LOOKS)
    assert 0.4 * error < reached(numbers) <= error
    for look, number in numbers.items():
        assert look // 2 < number <= look
    # Each look is as likely to err as any other can be.
    worst = max(2 * binom.sf(k - 1, n, 0.5) for n, k in numbers.items())
    for look, number in numbers.items():
        assert 2 * binom.sf(number - 2, look, 0.5) > worst, "one less would be too few"


def test_of_one_look_the_interval_is_that_of_the_sign_test():
    """Wider than the one for a single look, by as much as it costs to look again."""
    for n, k in needed(ERROR).items():
        alone = next(k for k in range(n // 2, n + 1) if 2 * binom.sf(k - 1, n, 0.5) <= ERROR)
        assert 0 <= k - alone <= 1
    assert 2 * binom.sf(5, 6, 0.5) < ERROR < 2 * binom.sf(4, 5, 0.5), "six at least, looking once"


@given(st.lists(st.floats(allow_nan=False), min_size=7, max_size=60), st.randoms())
def test_an_interval_is_of_order_statistics_and_not_of_their_order(values, random):
    look = len(judged(values))
    assert look == max(n for n in LOOKS if n <= len(values))
    low, high = interval(values)
    enough, ranked = needed(ERROR)[look], sorted(values[:look])
    assert (low, high) == (ranked[look - enough], ranked[enough - 1])
    again = values[:look]
    random.shuffle(again)
    assert interval([*again, *values[look:]]) == (low, high)
    stretched = interval([math.atan(value) for value in values])
    assert stretched == pytest.approx((math.atan(low), math.atan(high))), "any growing function"


def test_a_value_that_is_not_known_widens_the_interval_on_both_sides():
    known = [float(k) for k in range(15)]
    assert interval(known) == (2.0, 12.0)
    assert interval([math.nan, *known[1:]]) == (2.0, 13.0)
    assert interval([*known[:14], math.nan]) == (1.0, 12.0)
    assert interval([math.nan] * 3 + known[3:]) == (-math.inf, math.inf)
    assert interval([math.nan] * 7) == (-math.inf, math.inf)


def test_looks_follow_each_other():
    assert [look_after(n) for n in (0, 6, 7, 8, 49, 50, 99)] == [7, 7, 10, 10, 50, None, None]
    assert interval([0.0] * 6) is None
    assert interval([0.0] * 7, ERROR / 2) is None, "seven are too few for one of two parts"
    assert list(judged([])) == []


@pytest.mark.parametrize("law", ["normal", "cauchy", "delays", "ties"])
def test_the_median_is_in_all_intervals_of_nineteen_in_twenty(law):
    """Whatever the law is: with no mean, with a long tail on one side, with values that repeat."""
    draws = np.random.default_rng(1)
    some = {
        "normal": lambda size: draws.normal(size=size),
        "cauchy": lambda size: draws.standard_cauchy(size),
        "delays": lambda size: 1 / draws.beta(0.5, 0.5, size) - 2,  # the median of Beta is 1/2
        "ties": lambda size: draws.integers(-1, 2, size).astype(float),
    }[law]
    missed = 0
    for values in some((3000, LOOKS[-1])).tolist():
        spans = [interval(values[:look]) for look in LOOKS]
        missed += any(not low <= 0 <= high for low, high in spans)
    assert missed / 3000 < (0.056 if law != "ties" else 0.02)
