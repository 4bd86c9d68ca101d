"""Tiny images and the pixels that belong to a shape: a task that segmentation.toml names."""

import random
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from peerloom.problems import Task

SIZE = 16


class Images:
    """Noisy images with one shape each, made by a seed; turned at random when they are read."""

    def __init__(self, seed: int, shapes: tuple[str, ...], count: int, turned: bool) -> None:
        self.turned, dice = turned, random.Random(seed)
        made = [_image(dice.choice(shapes), dice) for _ in range(count)]
        noise = torch.randn(count, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))
        self.masks = torch.stack(made)
        self.images = self.masks[:, None] * 0.8 + 0.6 * noise

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, k: int) -> dict[str, Tensor]:
        turns = random.randrange(4) if self.turned else 0  # the same turns whenever it is run
        image, mask = (torch.rot90(one[k], turns, (-2, -1)) for one in (self.images, self.masks))
        return {"image": image, "mask": mask}


def _image(shape: str, dice: random.Random) -> Tensor:
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    top, left, size = dice.randrange(3, 13), dice.randrange(3, 13), dice.randrange(3, 6)
    if shape == "disc":
        return ((y - top).square() + (x - left).square() <= size**2).float()
    if shape == "square":
        return torch.maximum((y - top).abs(), (x - left).abs()).le(size - 1).float()
    return (((y - top).abs() <= 1) | ((x - left).abs() <= 1)).float()  # a cross


def net(width: int) -> nn.Module:
    """Three convolutions, the middle one with holes, so that a pixel sees nine others around it."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=2, dilation=2),
        nn.ReLU(),
        nn.Conv2d(width, 1, 3, padding=1),
    )


def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The mean over pixels of how wrong their probability is."""
    return F.binary_cross_entropy_with_logits(model(batch["image"])[:, 0], batch["mask"])


@cache
def held_out() -> Images:
    """Images of all shapes, as they are."""
    return Images(1000, ("disc", "square", "cross"), 60, turned=False)


def overlap(model: nn.Module) -> dict[str, float]:
    """Intersection over union, and the share of pixels that are right."""
    held = held_out()
    found, wanted = model(held.images)[:, 0] > 0, held.masks > 0
    both, either = (found & wanted).sum((1, 2)), (found | wanted).sum((1, 2))
    return {"iou": (both / either).mean().item(), "accuracy": (found == wanted).double().mean()}


def task(width: int = 8) -> Task:
    """Every client has images of one shape only."""
    shapes = ("disc", "square", "cross")
    return Task(
        lambda: net(width),
        loss,
        lambda client: Images(client, (shapes[client % 3],), 40, turned=True),
        batch=8,
        test=held_out,
        metrics=overlap,
        ahead=True,
    )
