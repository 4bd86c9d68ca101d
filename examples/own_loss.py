"""A loss and a metric of your own: eight sites learn the level that waits seldom exceed."""

from functools import cache

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import peerloom as pl

LEVEL = 0.9  # of all waits, this share is to lie below the line
Batch = tuple[Tensor, Tensor]


def visits(site: int, count: int = 200) -> TensorDataset:
    """How full a site was and how long people waited; every site knows other hours only."""
    dice = torch.Generator().manual_seed(site)
    full = (site % 8 + torch.rand(count, 1, generator=dice)) / 8
    wait = full.square() + 0.3 * full * torch.randn(count, 1, generator=dice).abs()
    return TensorDataset(full, wait)


@cache
def everywhere() -> TensorDataset:
    """Visits of all hours, at sites that did not take part."""
    parts = zip(*(visits(site).tensors for site in range(100, 108)), strict=True)
    return TensorDataset(*map(torch.cat, parts))


def model() -> nn.Module:
    """A line through hidden units."""
    return nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))


def pinball(module: nn.Module, batch: Batch) -> Tensor:
    """The loss whose minimum is a quantile: being too low costs nine times being too high."""
    full, wait = batch
    short = wait - module(full)
    return torch.maximum(LEVEL * short, (LEVEL - 1) * short).mean()


def coverage(module: nn.Module) -> dict[str, float]:
    """The share of waits below the line, where sites are emptiest and where they are fullest."""
    full, wait = everywhere().tensors
    below = (wait <= module(full)).double()
    return {"empty": below[full < 1 / 4].mean().item(), "full": below[full > 3 / 4].mean().item()}


if __name__ == "__main__":
    task = pl.problems.Task(model, pinball, visits, batch=20, test=everywhere, metrics=coverage)
    graph, rule = pl.graphs.ring(8), pl.rules.SpodGT(lr=0.1)
    silent = pl.schedules.Bernoulli(links=0.0)
    for name, schedule in (("alone", silent), ("together", pl.schedules.Always())):
        exp = pl.Experiment(graph, task, rule, schedule, rounds=300, seed=1)
        last = pl.simulate(exp).metrics.row(-1)
        print(
            f"{name}: loss {last['mean_loss']:.4f}, below the line "
            f"{last['mean_empty']:.2f} where empty, {last['mean_full']:.2f} where full"
        )
