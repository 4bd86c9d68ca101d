"""Convolutional networks by name.

Samples are images [channels, height, width], or grey ones [height, width].

Where the originals normalise over the batch, these normalise over groups of channels: the
parameters are the same, and a client's model then depends on nobody's running statistics.
`norm="batch"` gives the originals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

from torch import Tensor, nn
from torch.nn.functional import pad, relu

from ..arguments import checked
from ..core import ConfigError

__all__ = ["CNN", "MLLCNN", "VGG11", "CifarResNet", "LeNet", "ResNet18"]

Norm = Literal["group", "batch"]


@checked
@dataclass(frozen=True)
class CNN:
    """DEPOSITUM's network: two 3 x 3 convolutions (16, 32), pooling, 128 hidden units.

    Its parameter counts (268,362 on grey images) need an 8 x 8 map before the dense layers, hence
    images are zero-padded to 32 x 32.
    """

    SIDE: ClassVar[int] = 32
    loss: str = "cross_entropy"

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Pad, convolve, score."""
        image = _image("CNN", shape, most=self.SIDE)
        return nn.Sequential(
            _Frame(image, self.SIDE),
            nn.Conv2d(image[0], 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 8 * 8, 128), nn.ReLU(), nn.Linear(128, outputs),
        )  # fmt: skip


@checked
@dataclass(frozen=True)
class MLLCNN:
    """MLL-SGD's network: two 5 x 5 convolutions (10, 20), pooling, 100 hidden units.

    With 62 outputs, as its authors ran it on grey 28 x 28 images, 109,642 parameters:
    `Classification(..., outputs=62)`.
    """

    loss: str = "cross_entropy"

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Convolve, score."""
        channels, height, width = image = _image("MLLCNN", shape, least=4)
        return nn.Sequential(
            _Frame(image),
            nn.Conv2d(channels, 10, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(10, 20, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(20 * (height // 4) * (width // 4), 100), nn.ReLU(), nn.Linear(100, outputs),
        )  # fmt: skip


@checked
@dataclass(frozen=True)
class LeNet:
    """LeNet-5 with ReLU and max pooling.

    61,706 parameters on grey images, which are zero-padded to 32 x 32.
    """

    SIDE: ClassVar[int] = 32
    loss: str = "cross_entropy"

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Pad, convolve, score."""
        image = _image("LeNet", shape, most=self.SIDE)
        return nn.Sequential(
            _Frame(image, self.SIDE),
            nn.Conv2d(image[0], 6, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(),
            nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, outputs),
        )  # fmt: skip


@checked
@dataclass(frozen=True)
class ResNet18:
    """ResNet-18 with the stem for large images, as DEPOSITUM counts it.

    The stem is 7 x 7, stride 2, pooling. 11,181,642 parameters for ten classes of colour images,
    11,175,370 of grey ones, 11,689,512 with 1000 outputs.
    """

    norm: Norm = "group"
    loss: str = "cross_entropy"

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Stem, four stages of two blocks, mean over the image, scores."""
        image = _image("ResNet18", shape)
        stem = [
            nn.Conv2d(image[0], 64, 7, stride=2, padding=3, bias=False),
            _norm(self.norm, 64),
            nn.ReLU(),
        ]
        stages = _stages([64, 64, 128, 256, 512], 2, self.norm, projected=True)
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, outputs)]
        return _started(
            nn.Sequential(
                _Frame(image), *stem, nn.MaxPool2d(3, stride=2, padding=1), *stages, *head
            )
        )


@checked
@dataclass(frozen=True)
class CifarResNet:
    """The ResNet for small images: 3 stages of 16, 32 and 64 channels.

    The depth is 6k + 2: 20, 32, 44, ... Depth 20 has 269,722 parameters for ten classes of colour
    images with shortcuts that subsample and pad with zeros, and 272,474 with projections by 1 x 1
    convolutions.
    """

    depth: int = 20
    shortcut: Literal["pad", "projection"] = "pad"
    norm: Norm = "group"
    loss: str = "cross_entropy"

    def __post_init__(self) -> None:
        if self.depth < 8 or self.depth % 6 != 2:
            raise ConfigError(
                f"CifarResNet.depth must be 6k + 2, such as 20, 32 or 44; found {self.depth}."
            )

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Stem, three stages, mean over the image, scores."""
        image = _image("CifarResNet", shape)
        stem = [nn.Conv2d(image[0], 16, 3, padding=1, bias=False), _norm(self.norm, 16), nn.ReLU()]
        stages = _stages(
            [16, 16, 32, 64], (self.depth - 2) // 6, self.norm, self.shortcut == "projection"
        )
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, outputs)]
        return _started(nn.Sequential(_Frame(image), *stem, *stages, *head))


@checked
@dataclass(frozen=True)
class VGG11:
    """VGG-11: eight 3 x 3 convolutions, then dense layers.

    `head="small"` has one dense layer, `head="imagenet"` the original three. 9,225,610 parameters
    for ten classes of colour images; 132,863,336 with the original head and 1000 outputs, which
    needs dropout and half a gigabyte per client.
    """

    # 0 is pooling
    WIDTHS: ClassVar[tuple[int, ...]] = (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0)
    head: Literal["small", "imagenet"] = "small"
    loss: str = "cross_entropy"

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Convolutions, then the head."""
        image = _image("VGG11", shape, least=32)
        layers: list[nn.Module] = [_Frame(image)]
        channels = image[0]
        for width in self.WIDTHS:
            layers += (
                [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                if width
                else [nn.MaxPool2d(2)]
            )
            channels = width or channels
        if self.head == "small":
            layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, outputs)]
        else:
            layers += [nn.AdaptiveAvgPool2d(7), nn.Flatten()]
            for before, after in pairwise((512 * 49, 4096, 4096)):
                layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(0.5)]
            layers.append(nn.Linear(4096, outputs))
        return _started(nn.Sequential(*layers))


class _Frame(nn.Module):
    """Samples as images [batch, channels, height, width], with zeros around them up to `side`."""

    def __init__(self, image: tuple[int, int, int], side: int | None = None) -> None:
        super().__init__()
        self.size = image
        down, across = ((side or image[1]) - image[1], (side or image[2]) - image[2])
        self.pad = (across // 2, across - across // 2, down // 2, down - down // 2)

    def forward(self, x: Tensor) -> Tensor:
        """Reshape and pad."""
        images = x.reshape(-1, *self.size)
        return pad(images, self.pad) if any(self.pad) else images


class _Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut past them."""

    def __init__(self, before: int, after: int, stride: int, norm: Norm, projected: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.norm_first = _norm(norm, after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm_second = _norm(norm, after)
        self.stride, self.more = stride, after - before
        self.shortcut: nn.Module | None = None
        if projected and (stride > 1 or self.more):
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=stride, bias=False), _norm(norm, after)
            )

    def forward(self, x: Tensor) -> Tensor:
        """What the convolutions add to the shortcut."""
        added = self.norm_second(self.second(relu(self.norm_first(self.first(x)))))
        if self.shortcut is not None:
            x = self.shortcut(x)
        elif self.stride > 1 or self.more:
            x = pad(
                x[:, :, :: self.stride, :: self.stride],
                (0, 0, 0, 0, self.more // 2, self.more - self.more // 2),
            )
        return relu(x + added)


def _stages(widths: list[int], blocks: int, norm: Norm, projected: bool) -> list[nn.Module]:
    """Stages of blocks; each but the first halves the image and widens."""
    made: list[nn.Module] = []
    for before, after in pairwise(widths):
        made.append(_Block(before, after, 1 if before == after else 2, norm, projected))
        made += [_Block(after, after, 1, norm, projected) for _ in range(blocks - 1)]
    return made


def _norm(kind: Norm, channels: int) -> nn.Module:
    # Four channels to a group, and 32 groups at most, which is what group norm was proposed with.
    return (
        nn.BatchNorm2d(channels)
        if kind == "batch"
        else nn.GroupNorm(min(32, channels // 4), channels)
    )


def _started(module: nn.Module) -> nn.Module:
    """He's start for convolutions, without which deep networks do not begin to learn."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module


def _image(
    name: str, shape: tuple[int, ...], least: int = 1, most: int | None = None
) -> tuple[int, int, int]:
    """Channels, height and width of samples of this shape; square images may come flattened."""
    if len(shape) == 1 and math.isqrt(shape[0]) ** 2 == shape[0]:
        shape = (math.isqrt(shape[0]),) * 2
    if len(shape) == 2:
        shape = (1, *shape)
    if len(shape) != 3 or min(shape[1:]) < least or max(shape[1:]) > (most or max(shape[1:])):
        bounds = " ".join(
            [f"of at least {least} x {least} pixels"] * (least > 1)
            + [f"of at most {most} x {most} pixels"] * bool(most)
        )
        raise ConfigError(
            f"{name} needs images{bounds and ' '}{bounds}; samples have shape {shape}."
        )
    return shape[0], shape[1], shape[2]
