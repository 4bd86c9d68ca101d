"""What a link carries of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import Draws, Message

__all__ = ["MESSAGES", "Dense"]


@dataclass(frozen=True)
class Dense:
    """The whole row, every number as it is."""

    whole: ClassVar[bool] = True

    def pack(self, values: Tensor, draws: Draws, t: int, keys: NDArray[np.int64]) -> Tensor:
        """Rows travel as they are."""
        return values

    def unpack(self, packed: Tensor, n: int, draws: Draws, t: int, keys: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Every coordinate was carried."""
        return packed, torch.ones(len(packed), 1, dtype=packed.dtype, device=packed.device)

    def bits(self, n: int, dtype: torch.dtype) -> int:
        """One word per coordinate."""
        return 8 * n * dtype.itemsize


MESSAGES: dict[str, type[Message]] = {"Dense": Dense}
