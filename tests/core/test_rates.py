"""Step sizes that change with the round."""

import math

import numpy as np
import pytest

from peerloom.core import ConfigError, rate_at
from peerloom.core.rates import InverseSqrt, Pieces
from peerloom.rules import DSpodFL


def test_inverse_sqrt_is_the_papers_with_iterations_from_zero():
    rate = InverseSqrt(start=0.2, gamma=50)
    for t in range(1, 300):
        assert rate.at(t) == pytest.approx(0.2 / math.sqrt(1 + (t - 1) / 50), rel=1e-15)
    assert rate.at(1) == 0.2


def test_pieces_hold_from_their_start_to_the_next():
    rate = Pieces(rates=(0.3, 0.2, 0.1), starts=(1, 4, 6))
    assert [rate.at(t) for t in range(1, 9)] == [0.3, 0.3, 0.3, 0.2, 0.2, 0.1, 0.1, 0.1]


def test_pieces_that_start_late_begin_with_the_first():
    assert Pieces(rates=(0.3, 0.2), starts=(5, 9)).at(1) == 0.3


def test_a_number_is_the_same_in_every_round():
    assert {rate_at(0.25, t) for t in range(1, 9)} == {0.25}
    assert rate_at(1, 3) == 1


@pytest.mark.parametrize("number", [np.float64(0.25), np.float32(0.25), np.int64(1)])
def test_numpys_numbers_are_numbers(number):
    assert DSpodFL(lr=number)
    assert rate_at(number, 3) == number


@pytest.mark.parametrize(
    "make",
    [
        lambda: InverseSqrt(0.0, 1.0),
        lambda: InverseSqrt(0.1, 0.0),
        lambda: Pieces((0.1,), (1, 2)),
        lambda: Pieces((), ()),
        lambda: Pieces((0.1, 0.2), (5, 5)),
        lambda: Pieces((0.1, 0.2), (5, 1)),
        lambda: Pieces((0.1, 0.0), (1, 5)),
        lambda: DSpodFL(lr=0.0),
        lambda: DSpodFL(lr=-1.0),
        lambda: DSpodFL(lr=float("inf")),
        lambda: DSpodFL(lr=float("nan")),
    ],
)
def test_impossible_rates_are_refused(make):
    with pytest.raises(ConfigError):
        make()
