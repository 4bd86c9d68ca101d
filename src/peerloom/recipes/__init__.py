"""Figures of the papers as experiments: what was varied, what was compared, and what the paper claims of it."""

from .dspodfl import DSPODFL
from .outcome import Outcome, outcome
from .recipe import Recipe

__all__ = ["RECIPES", "Outcome", "Recipe", "outcome"]

# By paper and figure.
RECIPES: dict[str, dict[str, Recipe]] = {"dspodfl": DSPODFL}
