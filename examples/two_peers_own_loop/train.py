"""One site's training script: plain PyTorch, but for the optimizer.

    python train.py FOLDER FILE NUMBER

FOLDER is the site's peer. Kill it and start it again: it goes on where it was.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import peerloom as pl

folder, file, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
dice = torch.Generator().manual_seed(number)  # this site's patients: the young, or the old
age = torch.rand(200, 1, generator=dice) / 2 + (number - 1) / 2
risk = (torch.rand(200, 1, generator=dice) < torch.sigmoid(8 * age - 4)).float()

torch.manual_seed(0)  # both sites start from one model
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))


def judge(model: nn.Module) -> dict[str, torch.Tensor]:
    every = torch.linspace(0, 1, 50)[:, None]
    return {"error": (model(every).sigmoid() - torch.sigmoid(8 * every - 4)).abs().mean()}


opt = pl.live.optimizer(model, pl.live.peer(folder, file), metrics=judge)
if opt.resumed is not None:
    dice.set_state(opt.resumed["dice"])
while not opt.finished:
    pick = torch.randint(200, (32,), generator=dice)
    opt.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(age[pick]), risk[pick])
    loss.backward()
    opt.step()
    opt.checkpoint(dice=dice.get_state())
print(f"site {number}: error over all ages {judge(model)['error']:.3f}")
