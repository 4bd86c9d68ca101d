"""Figures and tables of the papers as experiments.

What was varied, what was compared, and what the paper claims of it.
"""

from .checks import Check, Part, Verdict
from .depositum import DEPOSITUM
from .depositum_table import TABLE3
from .dspodfl import DSPODFL
from .dspodfl_appendix import DSPODFL_APPENDIX
from .dspodfl_tables import DSPODFL_TABLES
from .mll_sgd import MLL_ALIASES, MLL_SGD
from .outcome import Outcome, outcome
from .pame import PAME, PAME_ALIASES
from .pame_compared import PAME_COMPARED
from .pame_networks import PAME_NETWORKS
from .recipe import Changed, Form, Recipe
from .spod_gt import SPOD_GT

__all__ = [
    "ALIASES",
    "RECIPES",
    "Changed",
    "Check",
    "Form",
    "Outcome",
    "Part",
    "Recipe",
    "Verdict",
    "outcome",
]

# By paper, and figure or table.
RECIPES: dict[str, dict[str, Recipe]] = {
    "dspodfl": DSPODFL | DSPODFL_APPENDIX | DSPODFL_TABLES,
    "spod-gt": SPOD_GT,
    "mll-sgd": MLL_SGD,
    "depositum": DEPOSITUM | {"table3": TABLE3},
    "pame": PAME | PAME_COMPARED | PAME_NETWORKS,
}
# Figures that show the same runs as another one.
ALIASES: dict[str, dict[str, str]] = {"mll-sgd": MLL_ALIASES, "pame": PAME_ALIASES}
