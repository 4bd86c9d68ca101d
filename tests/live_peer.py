"""A training loop of one peer, as a process to kill.

    python live_peer.py FOLDER FILE CLIENT HOW DIE_AT

HOW says what the loop tells of itself: "all" that it draws from, or the "count" of its steps only,
so that it draws other batches after a restart. After step DIE_AT it ends as by a power cut.
"""

import os
import sys
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import peerloom as pl
from peerloom.transport import Settings

FEATURES, SAMPLES, BATCH = 6, 40, 8


def model_of():
    """The model that all peers start from."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 3)).double()


class Client:
    """One client's samples, and the generator by which it takes batches of them."""

    def __init__(self, client):
        self.dice = torch.Generator().manual_seed(client)
        self.x = torch.randn(SAMPLES, FEATURES, generator=self.dice, dtype=torch.float64)
        self.y = (self.x[:, :3] + 0.3 * client).argmax(1)
        self.steps = 0

    def closure(self, opt, model):
        pick = torch.randint(SAMPLES, (BATCH,), generator=self.dice)
        self.steps += 1

        def closure():
            opt.zero_grad()
            loss = F.cross_entropy(model(self.x[pick]), self.y[pick])
            loss.backward()
            return loss

        return closure


def main(folder, file, number, how, die_at):
    client, model = Client(number), model_of()
    site = pl.live.Site(settings=Settings(backoff=(0.02, 0.2)))
    opt = pl.live.optimizer(model, pl.live.peer(folder, file, site))
    if opt.resumed is not None:
        client.steps = opt.resumed["steps"]
        if "dice" in opt.resumed:
            client.dice.set_state(opt.resumed["dice"])
    while not opt.finished:
        opt.step(client.closure(opt, model))
        if client.steps == die_at:
            os._exit(9)
        drawn = {"dice": client.dice.get_state()} if how == "all" else {}
        opt.checkpoint(steps=client.steps, **drawn)


if __name__ == "__main__":
    warnings.simplefilter("always")
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
