"""A warning before a run whose models will hardly fit into memory."""

from __future__ import annotations

import os
import warnings

from ..errors import Caution

__all__ = ["caution_of_size"]

# Copies of all models in a round: as they are, as they last were good (where rows are not wide),
# their gradients, after the step, mixed.
_BLOCKS = 5


def caution_of_size(models: int, numbers: int, itemsize: int) -> None:
    """Warn of a run that this machine can hardly hold: the system would kill it silently."""
    block = models * numbers * itemsize
    if hasattr(os, "sysconf") and _BLOCKS * block > (
        there := os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    ):
        text = (
            f"{models} models of {numbers:,} numbers take {block / 1e9:.1f} GB, a round about "
            f"{_BLOCKS} times that, and this machine has {there / 1e9:.1f} GB. The run may be "
            "killed for want of memory. Take fewer clients or a smaller model."
        )
        warnings.warn(text, Caution, stacklevel=3)
