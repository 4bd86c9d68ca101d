"""How fast simulator and peers are, against what people write by hand and what the machine can do at best."""

from .runner import BETWEEN_PROCESSES, run
from .tables import render

__all__ = ["BETWEEN_PROCESSES", "render", "run"]
