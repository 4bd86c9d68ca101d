"""A training script of your own under a rule: five stations learn together what none has seen.

    python examples/own_loop.py

The loop is plain PyTorch: a model with dropout, a DataLoader for each station, clipping. Two lines
differ from a script that trains alone: the optimizer, and when the loop ends. Here all stations
live in one process; between machines each has this loop to itself (see two_peers_own_loop).
"""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

import peerloom as pl
from peerloom.core import Rule

STATIONS, ROUNDS, BATCH = 5, 150, 16


def weather(station: int) -> TensorDataset:
    """Each station knows a fifth of the year: the day as an angle, and how warm it was."""
    dice = torch.Generator().manual_seed(station)
    day = (station + torch.rand(120, 1, generator=dice)) / STATIONS * 2 * torch.pi
    warm = torch.sin(day) + 0.5 * torch.cos(2 * day)
    return TensorDataset(torch.cat([day.sin(), day.cos()], dim=1), warm)


def network() -> nn.Module:
    """The same first model for all."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Dropout(0.05), nn.Linear(24, 1))


def train(rule: Rule, links: float) -> nn.Module:
    exp = pl.Experiment(
        pl.graphs.ring(STATIONS),
        pl.problems.Loop(),
        rule,
        pl.schedules.Bernoulli(nodes=0.8, links=links),
        rounds=ROUNDS,
    )
    model = network()
    opt = pl.live.optimizer(model, pl.live.rows(exp))  # was torch.optim.SGD(model.parameters())
    sets = [weather(station) for station in range(STATIONS)]
    sampler = pl.live.Batches(opt, len(sets[0]), BATCH)
    loaders = [iter(DataLoader(data, batch_sampler=sampler)) for data in sets]
    while not opt.finished:  # was: for epoch in range(...)
        x, y = next(loaders[opt.asked.client])
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
    return model.eval()


@torch.no_grad()
def error(model: nn.Module) -> float:
    """The mean square error over the whole year."""
    every = [weather(station).tensors for station in range(STATIONS)]
    x, y = (torch.cat(parts) for parts in zip(*every, strict=True))
    return float(F.mse_loss(model(x), y))


if __name__ == "__main__":
    pl.prepare_process()  # before torch computes anything: sums in a fixed order
    print(f"before: error {error(network().eval()):.3f}")
    for name, rule in {
        "DSpodFL": pl.rules.DSpodFL(lr=0.2),
        "SpodGT": pl.rules.SpodGT(lr=0.1),
    }.items():
        print(f"{name}: error {error(train(rule, links=0.5)):.3f}")
