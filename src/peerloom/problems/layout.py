"""Modules and rows: where the parameters of an nn.Module lie in a client's vector."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

from ..core import ConfigError, nearest

__all__ = ["RowLayout", "agreed_on", "check_trainable", "trainable"]


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name, in the order in which torch lists them.

    Tied ones are there once, under their first name.
    """
    return {name: part for name, part in module.named_parameters() if part.requires_grad}


def check_trainable(module: nn.Module, whose: str) -> None:
    """Refuse a module of which rules could move nothing, or something that is no real number."""
    moved = trainable(module)
    if not moved:
        frozen = sum(1 for _ in module.parameters())
        raise ConfigError(
            f"The model of {whose} has no parameter to train"
            + (f": all {frozen} are frozen." if frozen else ".")
            + " Give one requires_grad = True at least."
        )
    if strange := [name for name, part in moved.items() if not part.is_floating_point()]:
        raise ConfigError(
            f"Parameter '{strange[0]}' of {whose}'s model holds {moved[strange[0]].dtype}, but "
            "rules move real numbers. Split it into its real and its imaginary part."
        )


def agreed_on(module: nn.Module) -> str:
    """A hash of what peers must have alike of a module.

    Names and shapes of what is trained, in their order, and names and values of what is frozen.
    """
    found = hashlib.sha256(RowLayout(module).digest.encode())
    for name, part in module.named_parameters():
        if not part.requires_grad:
            found.update(name.encode())
            found.update(part.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


class RowLayout:
    """The trainable parameters of a module as one row, in the order in which torch lists them.

    >>> layout = RowLayout(nn.Linear(3, 2))
    >>> views = layout.views(torch.zeros(5, layout.n))
    >>> layout.n, {name: tuple(view.shape) for name, view in views.items()}
    (8, {'weight': (5, 2, 3), 'bias': (5, 2)})
    """

    def __init__(self, module: nn.Module) -> None:
        self._shapes = {name: part.shape for name, part in trainable(module).items()}
        self.sizes = [math.prod(shape) for shape in self._shapes.values()]
        self.n = sum(self.sizes)

    @property
    def digest(self) -> str:
        """A hash of names and shapes, in their order."""
        text = "\n".join(f"{name} {tuple(shape)}" for name, shape in self._shapes.items())
        return hashlib.sha256(text.encode()).hexdigest()

    def spans(self, words: Sequence[str]) -> tuple[tuple[int, int], ...]:
        """Where parameters lie whose names have one of these words between dots."""
        ends = [*accumulate(self.sizes)]
        found = list[tuple[int, int]]()
        for word in words:
            if not any(word in name.split(".") for name in self._shapes):
                parts = {part for name in self._shapes for part in name.split(".")}
                raise ConfigError(
                    f"No trained parameter has '{word}' in its name. {nearest(word, parts)}"
                )
        for name, size, end in zip(self._shapes, self.sizes, ends, strict=True):
            if not set(words).isdisjoint(name.split(".")):
                start = end - size
                if found and found[-1][1] == start:
                    start = found.pop()[0]
                found.append((start, end))
        return tuple(found)

    def views(self, x: Tensor) -> dict[str, Tensor]:
        """Rows x [k, n] as parameters by name [k, ...], sharing their memory."""
        parts = zip(self._shapes.items(), torch.split(x, self.sizes, dim=1), strict=True)
        return {name: part.view(len(x), *shape) for (name, shape), part in parts}

    def rows(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Parameters by name [k, ...] as rows [k, n]."""
        return torch.cat([parameters[name].flatten(1) for name in self._shapes], dim=1)

    def place(self, row: Tensor, module: nn.Module) -> None:
        """Make the module's parameters views of a row [n]."""
        views = self.views(row.unsqueeze(0))
        for name, parameter in trainable(module).items():
            parameter.data = views[name][0]

    @torch.no_grad()
    def load(self, row: Tensor, parameters: Iterable[Tensor]) -> None:
        """Copy a row [n] into these parameters, whatever their types and devices."""
        for parameter, part in zip(parameters, torch.split(row, self.sizes), strict=True):
            parameter.copy_(part.view(parameter.shape))

    @staticmethod
    @torch.no_grad()
    def row_of(module: nn.Module) -> Tensor:
        """The module's parameters as a row [n], in float64 and host memory."""
        parts = list(trainable(module).values())
        sizes = [part.numel() for part in parts]
        row = torch.empty(sum(sizes), dtype=torch.float64)
        for part, into in zip(parts, torch.split(row, sizes), strict=True):
            into.view(part.shape).copy_(part)
        return row
