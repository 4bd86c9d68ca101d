"""A row alone, as if neighbours were there: to measure it, or to see whether it repeats itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core import Compressed, Delivery, Links, Part, Rows, Tag

__all__ = ["Mirror"]


class Mirror:
    """A wire that brings a row what it sends."""

    def exchange(
        self,
        tag: Tag,
        links: Links,
        out: NDArray[np.int64],
        rows: Sequence[Tensor | Compressed],
        into: NDArray[np.int64],
        parts: tuple[Part, ...],
    ) -> Delivery:
        """Every link brings what was sent."""
        values = [row.value if isinstance(row, Compressed) else row for row in rows]
        came = [Rows(value.expand(len(into), -1)) for value in values]
        gone = [Rows(value.expand(len(out), -1)) for value in values]
        lengths = [value.nbytes for value in values]
        return Delivery(came, gone, lengths, np.ones(len(into), bool), np.ones(len(out), bool))
