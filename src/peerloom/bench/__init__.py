"""How fast the simulator is, against the loops people write by hand and against what the machine can do at best."""

from .runner import run
from .tables import render

__all__ = ["render", "run"]
