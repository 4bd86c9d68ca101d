"""Small tasks that several test files train: models, losses and data sets as users write them."""

import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import peerloom as pl
from peerloom.core import Draws, Placement
from peerloom.problems import Task
from peerloom.runtime import iterate
from tests.builders import experiment

FEATURES, CLASSES, HELD, CLIENTS = 6, 3, 20, 4
ALL = np.arange(CLIENTS)
COINS = pl.schedules.Bernoulli(nodes=0.6, links=0.6)


def net(dropout=0.0):
    """A small network."""
    return nn.Sequential(
        nn.Linear(FEATURES, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, CLASSES)
    )


BIAS = True


def either():
    """A task of six parameters, as one site's code makes them or as another's does."""
    made = (lambda: nn.Linear(2, 2)) if BIAS else (lambda: nn.Linear(6, 1, bias=False))
    return small(model=made)


def dropping():
    """The same with dropout."""
    return net(0.3)


def half_frozen():
    """The same with a first layer that is not trained."""
    module = net()
    module[0].requires_grad_(False)
    return module


def loss(model, batch):
    """Cross-entropy of a dictionary of inputs and labels."""
    return F.cross_entropy(model(batch["x"]), batch["y"])


def focal(scores, labels):
    """A loss of scores and labels: the mean over a batch, little for samples that are right."""
    right = torch.log_softmax(scores, -1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return -((1 - right.exp()).square() * right).mean()


def worst(scores, labels):
    """A metric of scores and labels: the share found of the class that is found least."""
    hit = scores.argmax(-1) == labels
    return {"worst_recall": min(hit[labels == c].double().mean() for c in labels.unique())}


class Points:
    """A client's samples, in dictionaries; every client has its own."""

    def __init__(self, client, held=HELD):
        dice = torch.Generator().manual_seed(int(client))
        self.x = torch.randn(held, FEATURES, generator=dice, dtype=torch.float64)
        self.y = (self.x[:, :CLASSES] + 0.3 * client).argmax(1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, k):
        return {"x": self.x[k], "y": self.y[k]}


class Noisy(Points):
    """The same, augmented by draws of all three global generators."""

    def __getitem__(self, k):
        found = super().__getitem__(k)
        moved = 0.1 * torch.randn(FEATURES) + 0.1 * np.random.rand() + 0.1 * random.random()  # noqa: NPY002
        return {**found, "x": found["x"] + moved}


class Listed(Points):
    """The same, as sets of Hugging Face are read: several samples at once."""

    def __getitem__(self, k):
        raise AssertionError("asked for one sample, where several can be had at once")

    def __getitems__(self, numbers):
        return [{"x": self.x[k], "y": self.y[k]} for k in numbers]


def held_out():
    """Samples of no client."""
    return Points(99, 30)


def f1_and_size(model):
    """Two numbers of a model, by name."""
    found = Points(98, 30)
    guessed = model(found.x.to(next(model.parameters()).dtype)).argmax(1)
    hit = int(((guessed == 1) & (found.y == 1)).sum())
    return {
        "f1": 2 * hit / max(1, int((guessed == 1).sum() + (found.y == 1).sum())),
        "size": sum(part.numel() for part in model.parameters()),
    }


def small(**changes):
    """The usual small task, some of it changed."""
    return Task(**{"model": net, "loss": loss, "data": Points, "batch": 4} | changes)


def noisy(ahead=False):
    """One that draws wherever it can."""
    return small(model=dropping, data=Noisy, test=held_out, metrics=f1_and_size, ahead=ahead)


def bound(task, seed=3, rows=ALL, dtype=torch.float64):
    """The task on these rows of a ring of four."""
    return task.bind(Placement(rows, CLIENTS, torch.device("cpu"), dtype), Draws(seed))


def models(task, seed=0, dtype=torch.float64):
    """A model for every client, a different one each."""
    dice = torch.Generator().manual_seed(seed)
    return 0.3 * torch.randn(CLIENTS, task.n, dtype=dtype, generator=dice)


def run(task, rule=None, **changes):
    """A short experiment with this task."""
    options = {"schedule": COINS, "rounds": 5, "seed": 3, "problem": task} | changes
    return experiment(pl.graphs.ring(CLIENTS), rule or pl.rules.SpodGT(lr=0.05), **options)


def path_of(exp):
    """The models after every round, link by link."""
    return torch.stack([snapshot.x for snapshot in iterate(exp, path="links")])
