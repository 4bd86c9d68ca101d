"""Loops as users write them, for tests of `peerloom.live`."""

from dataclasses import replace

import numpy as np
import torch
from torch import nn

import peerloom as pl
from peerloom.core import Draws, Placement
from peerloom.problems import Loop


class Vector(nn.Module):
    """A model that is one vector."""

    def __init__(self, x):
        super().__init__()
        self.x = nn.Parameter(x.clone())


def clients_of(problem, seed=0):
    """A problem's gradients, for a loop that answers by them: (client, x, round, batch) -> g."""
    m = problem.clients
    place = Placement(np.arange(m), m, torch.device("cpu"), torch.float64)
    local = problem.bind(place, Draws(seed))

    def gradient(x, asked):
        rows = x.detach().double().repeat(m, 1)
        on = np.array([asked.client])
        if asked.batch == "all":
            return local.whole_gradients(rows, on)[0]
        return local.grad(rows, on, asked.round, asked.batch)[0]

    return gradient


def answered(exp, problem, **options):
    """Run an experiment with a loop that answers by `problem`; the states, and the run."""
    states = []
    options = {"batches": 1, "repeats": True} | options
    run = pl.live.rows(exp, each=lambda snapshot: states.append(snapshot.state), **options)
    model = Vector(problem.start(exp.seed))
    opt, gradient = pl.live.optimizer(model, run), clients_of(problem, exp.seed)
    while not opt.finished:

        def closure():
            model.x.grad = gradient(model.x, opt.asked)
            return torch.zeros(())

        opt.step(closure)
    return states, run, model


def looped(exp):
    """The same experiment with its gradients left to a loop."""
    return replace(exp, problem=Loop(h=getattr(exp.problem, "h", None)))
