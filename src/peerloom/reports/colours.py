"""Colours of the data: one per algorithm, and a ramp for probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["RAMP", "Colours", "colours_of", "ramp"]

Colours = Mapping[str, tuple[str, str]]  # by label: a colour and the dashes of a line

# Okabe and Ito's colours, which colour-blind readers can tell apart. Black and yellow are left
# out because each is invisible in one of the two themes.
_PALETTE = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C8C8C")
_DASHES = ("", "7 4", "2 3", "7 3 2 3")  # as SVG writes them

# From 0 to 1, in steps of equal size. All have a medium lightness, visible on white and on black.
RAMP = ("#E69F00", "#8F959C", "#0072B2")


def colours_of(labels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour and a dash for every label, in the order given."""
    size = len(_PALETTE)
    return {
        label: (_PALETTE[k % size], _DASHES[k // size % len(_DASHES)])
        for k, label in enumerate(labels)
    }


def ramp(share: float) -> str:
    """The colour of a number between 0 and 1.

    >>> ramp(0.0), ramp(1.0)
    ('#e69f00', '#0072b2')
    """
    stops = np.linspace(0.0, 1.0, len(RAMP))
    channels = [[int(colour[k : k + 2], 16) for colour in RAMP] for k in (1, 3, 5)]
    return "#" + "".join(f"{round(np.interp(share, stops, channel)):02x}" for channel in channels)
