"""Gradients on a device of their own; this machine need not have one besides the CPU."""

import numpy as np
import pytest
import torch

import peerloom as pl
from peerloom.core import Draws, Evaluation, Placement
from peerloom.errors import ConfigError
from peerloom.runtime import Session, build_port
from peerloom.runtime.offload import OffloadedProblem, usable_device


class Moves:
    """Where a tensor was sent, in place of a second device."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def to(self, device):
        self.log.append((self.name, str(device)))
        return self


class Recording:
    """A problem that notes what it is called with."""

    def __init__(self, log):
        self.log = log

    def bind(self, place, draws):
        self.log.append(("bind", str(place.device)))
        return self

    def grad(self, x, on, t, batch):
        return Moves(f"gradient of {x.name}", self.log)

    def prox(self, z, step):
        return Moves(f"prox of {z.name}", self.log)

    def evaluate(self, x):
        return Evaluation(np.ones(1), None)


def test_rows_go_to_the_device_and_gradients_come_back():
    log, place = [], Placement(np.array([0]), 2, torch.device("cpu"), torch.float64)
    there = OffloadedProblem(Recording(log), place, Draws(1), torch.device("cuda:0"))
    there.grad(Moves("x", log), np.array([0]), 1)
    there.prox(Moves("z", log), 0.1)
    there.evaluate(Moves("x", log))
    assert log == [
        ("bind", "cuda:0"), ("x", "cuda:0"), ("gradient of x", "cpu"),
        ("z", "cuda:0"), ("prox of z", "cpu"), ("x", "cuda:0"),
    ]  # fmt: skip


@pytest.mark.parametrize("rule", [pl.rules.DSpodFL(lr=0.1), pl.rules.DSGT(lr=0.1)])
def test_the_same_device_gives_the_same_bits(rule):
    exp = pl.Experiment(
        pl.graphs.ring(4), pl.testing.random_quadratic(4, 5), rule, rounds=5, dtype="float64"
    )
    ends = []
    for gradients in (None, "cpu"):
        session = Session(exp, build_port(exp, gradients=gradients))
        for _ in session:
            pass
        ends.append(session.state.x)
    assert torch.equal(*ends)


@pytest.mark.parametrize("name", ["banana", "meta", "cuda:99", "cpu:x"])
def test_a_device_that_is_not_there_is_a_sentence(name):
    with pytest.raises(ConfigError, match=f"Device '{name}' cannot be used here"):
        usable_device(name)
