"""Step sizes that change with the round."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LinearLR,
    MultiStepLR,
    SequentialLR,
    StepLR,
)

from peerloom.core import ConfigError, largest_rate, rate_at, rates_at
from peerloom.core.rates import Cosine, InverseSqrt, Pieces, Warmup
from peerloom.registry import build, describe
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


def of_torch(scheduler, rounds, start, **arguments):
    """The step sizes of a scheduler of torch in epochs 0, 1, ..., which are rounds 1, 2, ..."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=start)
    made, found = scheduler(optimizer, **arguments), []
    for _ in range(rounds):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        made.step()
    return found


@given(start=st.floats(1e-6, 10), share=st.floats(0, 0.99), rounds=st.integers(1, 300))
def test_cosine_is_torchs_closed_form_bit_for_bit(start, share, rounds):
    rate = Cosine(start, rounds, end=share * start)
    closed = CosineAnnealingLR(
        torch.optim.SGD([torch.zeros(1)], lr=start), T_max=rounds, eta_min=share * start
    )
    for epoch in range(rounds + 1):
        closed.last_epoch = epoch
        assert [rate.at(epoch + 1)] == closed._get_closed_form_lr()
    assert {rate.at(t) for t in range(rounds + 1, rounds + 20)} == {rate.end}  # torch's goes up


def test_cosine_falls_along_torchs_run():
    rate = Cosine(0.3, rounds=20, end=0.01)
    found = of_torch(CosineAnnealingLR, 21, 0.3, T_max=20, eta_min=0.01)
    assert [rate.at(t) for t in range(1, 22)] == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("rounds", [2, 5, 40])
def test_warmup_is_torchs_line(rounds):
    """LinearLR from 1 / rounds, whose last step is the whole."""
    found = of_torch(LinearLR, rounds + 5, 0.2, start_factor=1 / rounds, total_iters=rounds - 1)
    rate = Warmup(rounds, then=0.2)
    assert [rate.at(t) for t in range(1, rounds + 6)] == pytest.approx(found, rel=1e-12)


def test_warmup_then_cosine_is_torchs_sequence():
    def sequence(optimizer):
        line = LinearLR(optimizer, start_factor=1 / 7, total_iters=6)
        return SequentialLR(optimizer, [line, CosineAnnealingLR(optimizer, 30, 0.02)], [7])

    rate = Warmup(7, then=Cosine(0.5, rounds=30, end=0.02))
    found = of_torch(sequence, 38, 0.5)
    assert [rate.at(t) for t in range(1, 39)] == pytest.approx(found, rel=1e-12)
    assert rate.at(7) == rate.at(8) == 0.5
    assert rate.at(1000) == 0.02


def test_pieces_are_torchs_steps():
    pieces = Pieces(rates=(0.4, 0.04, 0.004), starts=(1, 11, 21))
    for scheduler, more in ((StepLR, {"step_size": 10}), (MultiStepLR, {"milestones": [10, 20]})):
        found = of_torch(scheduler, 30, 0.4, gamma=0.1, **more)
        assert [pieces.at(t) for t in range(1, 31)] == pytest.approx(found, rel=1e-12)


def test_warmup_goes_before_any_rate():
    steps = Pieces((0.4, 0.1), (1, 3))
    assert [Warmup(2, steps).at(t) for t in range(1, 7)] == [0.2, 0.4, 0.4, 0.4, 0.1, 0.1]
    shrinking = InverseSqrt(0.1, 5)
    assert Warmup(3, shrinking).at(9) == shrinking.at(6)
    assert rates_at((0.1, Warmup(2, 0.3)), 1) == [0.1, 0.15]


def test_a_rate_within_a_rate_is_read_from_a_file():
    said = {
        "name": "Warmup", "rounds": 5, "then": {"name": "Cosine", "start": 0.1, "rounds": 95},
    }  # fmt: skip
    rate = build("rates", said, "lr")
    assert rate == Warmup(5, Cosine(0.1, 95))
    assert build("rates", describe(rate), "lr") == rate
    assert build("rates", {"name": "Warmup", "rounds": 5, "then": 1}, "lr") == Warmup(5, 1.0)


def test_the_largest_rate_is_that_of_the_rounds_that_run():
    rate = Warmup(10, then=Cosine(0.2, rounds=10))
    assert largest_rate(rate, 5) == pytest.approx(0.1)
    assert largest_rate(rate, 500) == 0.2
    assert largest_rate(InverseSqrt(0.3, 10), 500) == 0.3
    assert largest_rate((0.1, rate, 0.15), 10) == 0.2
    assert largest_rate(0.7, 0) == 0.7
    assert largest_rate(Warmup(200_000, 1.0), 10**12) == 0.5  # it does not look further


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
        lambda: Cosine(0.1, rounds=0),
        lambda: Cosine(0.1, rounds=10, end=0.1),
        lambda: Cosine(0.1, rounds=10, end=-0.01),
        lambda: Cosine(0.0, rounds=10),
        lambda: Cosine(float("inf"), rounds=10),
        lambda: Cosine(float("nan"), rounds=10),
        lambda: Warmup(0, then=0.1),
        lambda: Warmup(3, then=0.0),
        lambda: Warmup(3, then=float("inf")),
        lambda: Warmup(3, then="Cosine"),
        lambda: DSpodFL(lr=0.0),
        lambda: DSpodFL(lr=-1.0),
        lambda: DSpodFL(lr=float("inf")),
        lambda: DSpodFL(lr=float("nan")),
    ],
)
def test_impossible_rates_are_refused(make):
    with pytest.raises(ConfigError):
        make()
