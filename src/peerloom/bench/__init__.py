"""The speed of simulator and peers, as ratios to loops by hand and to the machine's bound."""

from .runner import BETWEEN_PROCESSES, run
from .tables import render

__all__ = ["BETWEEN_PROCESSES", "render", "run"]
