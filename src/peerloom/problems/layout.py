"""Modules and rows: where the parameters of an nn.Module lie in a client's vector."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

__all__ = ["RowLayout"]


class RowLayout:
    """The parameters of a module as one row, in the order in which torch lists them.

    >>> layout = RowLayout(nn.Linear(3, 2))
    >>> views = layout.views(torch.zeros(5, layout.n))
    >>> layout.n, {name: tuple(view.shape) for name, view in views.items()}
    (8, {'weight': (5, 2, 3), 'bias': (5, 2)})
    """

    def __init__(self, module: nn.Module) -> None:
        self._shapes = {name: part.shape for name, part in module.named_parameters()}
        self._sizes = [math.prod(shape) for shape in self._shapes.values()]
        self.n = sum(self._sizes)

    def views(self, x: Tensor) -> dict[str, Tensor]:
        """Rows x [k, n] as parameters by name [k, ...], sharing their memory."""
        parts = zip(self._shapes.items(), torch.split(x, self._sizes, dim=1), strict=True)
        return {name: part.view(len(x), *shape) for (name, shape), part in parts}

    def rows(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Parameters by name [k, ...] as rows [k, n]."""
        return torch.cat([parameters[name].flatten(1) for name in self._shapes], dim=1)

    def place(self, row: Tensor, module: nn.Module) -> None:
        """Make the module's parameters views of a row [n]."""
        views = self.views(row.unsqueeze(0))
        for name, parameter in module.named_parameters():
            parameter.data = views[name][0]

    @staticmethod
    @torch.no_grad()
    def row_of(module: nn.Module) -> Tensor:
        """The module's parameters as a row [n], in float64."""
        return torch.cat([parameter.double().flatten() for parameter in module.parameters()])
