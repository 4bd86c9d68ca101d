"""Buffers of a module that many rows share: as they were, after each of them."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from ..core import Caution
from .strategies.modules import BatchNorm

__all__ = ["Buffers"]


class Buffers:
    """What a module holds beside parameters. It is no part of a row, so training must not move it.

    There is one copy to put back. It is read only where something changed: torch counts the changes
    of every tensor, except those that batch norm makes, whose few numbers are always put back.
    """

    def __init__(self, module: nn.Module) -> None:
        self._held = [
            _Held(owner, f"{path}.{name}" if path else name, name, value)
            for path, owner in module.named_modules()
            for name, value in owner._buffers.items()
        ]
        self._told = False

    @torch.no_grad()
    def put_back(self) -> None:
        """Undo what has changed; say so once, unless it is the statistics of batch norm."""
        for held in self._held:
            if held.put_back() and not isinstance(held.owner, BatchNorm) and not self._told:
                self._told = True
                warnings.warn(
                    f"Buffer '{held.path}' of the model changes in training, but a row holds "
                    "parameters only, so it is put back after every gradient. Make it a parameter "
                    "if it must be learnt.",
                    Caution,
                    stacklevel=2,
                )


class _Held:
    """One buffer, where it hangs, and a copy of what it was."""

    def __init__(self, owner: nn.Module, path: str, name: str, value: Tensor | None) -> None:
        self.owner, self.path, self._name, self._value = owner, path, name, value
        self._copy = None if value is None else value.detach().clone()
        self._version = 0 if value is None else value._version
        self._uncounted = isinstance(owner, BatchNorm)

    def put_back(self) -> bool:
        """Undo what has changed; whether anything had, as far as torch counts."""
        found, value = self.owner._buffers.get(self._name), self._value
        counted = value is not None and value._version != self._version
        if value is not None and self._copy is not None and (counted or self._uncounted):
            value.copy_(self._copy)
            self._version = value._version
        self.owner._buffers[self._name] = value
        return counted or found is not value
