"""The whole row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..core import ConfigError, Fit, Trip

__all__ = ["Dense"]

_WORDS = {"float16": torch.float16, "float32": torch.float32}


@dataclass(frozen=True)
class Dense:
    """The whole row, every number as it is, or rounded to a shorter word: "float32" or "float16".

    What is too large for the word arrives as the largest number it has.
    """

    word: Literal["float32", "float16"] | None = None

    def __post_init__(self) -> None:
        if self.word not in (None, *_WORDS):
            raise ConfigError(f"Dense.word must be 'float32' or 'float16', or left out; found '{self.word}'.")

    @property
    def fit(self) -> Fit:
        """Rounded numbers do not add up to what was sent."""
        return "whole" if self.word is None else "rounded"

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Rows travel as they are, or as the nearest the word can say."""
        if self.word is None:
            return values
        word = _WORDS[self.word]
        largest = torch.finfo(word).max
        return torch.where(values.isfinite(), values.clamp(-largest, largest), values).to(word).to(values)

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Every coordinate was carried."""
        return packed, torch.ones(len(packed), 1, dtype=packed.dtype, device=packed.device)

    def through(self, values: Tensor, trip: Trip) -> Tensor:
        """Rounded at the most."""
        return self.pack(values, trip)

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """One word per coordinate."""
        return 8 * n * (dtype if self.word is None else _WORDS[self.word]).itemsize

    def paper_bits(self, n: int) -> int:
        """Papers count 64-bit numbers, where they do not say how short their words are."""
        return 64 * n if self.word is None else 8 * n * _WORDS[self.word].itemsize
