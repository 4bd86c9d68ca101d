"""A word beforehand where models will not fit into memory."""

from __future__ import annotations

import os
import warnings

from ..errors import Caution

__all__ = ["caution_of_size"]

_BLOCKS = 5  # all models at once: as they are, as they last were good, their gradients, after the step, mixed


def caution_of_size(models: int, numbers: int, itemsize: int) -> None:
    """Warn of a run that this machine will hardly hold: the system would end it without a word."""
    block = models * numbers * itemsize
    if hasattr(os, "sysconf") and _BLOCKS * block > (
        there := os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    ):
        text = (
            f"{models} models of {numbers:,} numbers take {block / 1e9:.1f} GB, a round about {_BLOCKS} times that, and "
            f"this machine has {there / 1e9:.1f} GB. The run may be killed for want of memory. Take fewer clients or a "
            "smaller model."
        )
        warnings.warn(text, Caution, stacklevel=3)
