"""The whole row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..core import Trip

__all__ = ["Dense"]


@dataclass(frozen=True)
class Dense:
    """The whole row, every number as it is."""

    whole: ClassVar[bool] = True

    def pack(self, values: Tensor, trip: Trip) -> Tensor:
        """Rows travel as they are."""
        return values

    def unpack(self, packed: Tensor, n: int, trip: Trip) -> tuple[Tensor, Tensor]:
        """Every coordinate was carried."""
        return packed, torch.ones(len(packed), 1, dtype=packed.dtype, device=packed.device)

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """One word per coordinate."""
        return 8 * n * dtype.itemsize

    def paper_bits(self, n: int) -> int:
        """Papers count 64-bit numbers."""
        return 64 * n
