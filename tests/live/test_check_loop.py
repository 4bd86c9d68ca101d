"""`check_loop` passes what repeats itself and finds what does not."""

import time

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import peerloom as pl
from peerloom.testing import check_loop

EXP = pl.Experiment(pl.graphs.ring(3), pl.problems.Loop(), pl.rules.SpodGT(lr=0.05), rounds=9)
DATA = TensorDataset(torch.randn(24, 4, generator=torch.Generator().manual_seed(1)))


def loop_with(seed=0, dropout=0.0, spoil=0.0, generator=0, reads="shuffled"):
    """A loop that is right, unless one of these is None or not zero."""
    left = []

    def train(run):
        if seed is not None:
            torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(dropout), nn.Linear(3, 1))
        if seed is None:
            with torch.no_grad():
                [part.fill_(0.1) for part in model.parameters()]
        opt = pl.live.optimizer(model, run)
        if reads == "asked":
            loader = DataLoader(DATA, batch_sampler=pl.live.Batches(opt, len(DATA), 4))
        else:
            dice = None if generator is None else torch.Generator().manual_seed(generator)
            loader = DataLoader(DATA, batch_size=4, shuffle=True, generator=dice)
        while not opt.finished:
            for (x,) in loader:
                opt.zero_grad()
                loss = model(x).square().mean() + len(left) * spoil * model(x).sum()
                loss.backward()
                opt.step()
                if opt.finished:
                    break
        left.append(run)

    return train


@pytest.mark.parametrize("right", [{}, {"dropout": 0.5}, {"reads": "asked", "seed": None}])
def test_a_loop_that_repeats_itself_passes(right):
    check_loop(EXP, loop_with(**right))


@pytest.mark.parametrize(
    "wrong",
    [
        {"generator": None, "seed": None},
        {"dropout": 0.5, "seed": None},
        {"spoil": 1.0},
    ],
    ids=["shuffling", "dropout", "what an earlier run left"],
)
def test_a_loop_that_does_not_is_found(wrong):
    with pytest.raises(AssertionError, match=r"gradient \d+, of round \d, batch 0, is another"):
        check_loop(EXP, loop_with(**wrong))


def test_the_time_is_found():
    def train(run):
        model = nn.Linear(4, 1)
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        opt = pl.live.optimizer(model, run)
        while not opt.finished:
            opt.zero_grad()
            (model(DATA.tensors[0]).sum() * time.perf_counter()).backward()
            opt.step()

    with pytest.raises(AssertionError, match=r"gradient 0, of round 0"):
        check_loop(EXP, train)


def test_a_first_model_without_a_seed_is_found():
    def train(run):
        model = nn.Linear(4, 1)
        opt = pl.live.optimizer(model, run)
        while not opt.finished:
            opt.zero_grad()
            model(DATA.tensors[0]).square().mean().backward()
            opt.step()

    with pytest.raises(AssertionError, match="its first model, is another"):
        check_loop(EXP, train)


def test_a_loop_that_ends_early_is_found():
    def train(run):
        pl.live.optimizer(nn.Linear(4, 1), run)

    with pytest.raises(AssertionError, match=r"ended after round 0 of 3"):
        check_loop(EXP, train)
