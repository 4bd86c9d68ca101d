"""The common setting of DEPOSITUM's figures, and what the paper leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...sweeps.readings import Reading
from .checks import Check
from .recipe import Changed, Recipe

__all__ = ["ACCURACY", "CHOSEN", "CONSENSUS", "LOSS", "Table", "recipe", "rule", "table"]

Table = dict[str, Any]

LOSS, ACCURACY = Reading("average_train_loss"), Reading("average_accuracy")
CONSENSUS = Reading("consensus")
_MCP = {"name": "MCP", "lam": 0.0001, "theta": 4.0}
CHOSEN = (
    "Where the paper is silent: batches of 32, Metropolis weights, MCP with lambda 0.0001 and "
    "theta 4, 500 rounds, figure 4 on a ring. With beta 0.5 it minimises f + 2h, as the paper's "
    "does; training losses have h in them."
)
_FIT = Changed(
    "the paper's MLP (109,386 parameters) in place of its CNN, judged on 2000 of the 10,000 test "
    "pictures, seven seeds. One to four minutes of one core for a seed. It says how these compare "
    "for that network.",
    (
        "problem.model=mlp",
        "problem.data={name='part', of='mnist', test=2000}",
        "seeds=[1, 2, 3, 4, 5, 6, 7]",
    ),
)
_TINY = ("problem.data=digits", "problem.model=softmax", "rounds=30", "evaluate.every=10")


def table(algorithms: list[Table], clients: int, partition: Any, period: int) -> Table:
    """A CNN on MNIST over a ring that communicates every `period` rounds."""
    return {
        "rounds": 500,
        "seeds": [1, 2, 3, 4, 5],
        "graph": {"name": "ring", "clients": clients},
        "schedule": {"name": "Every", "T0": period},
        "problem": {
            "name": "Classification", "model": "cnn", "data": "mnist", "partition": partition,
            "h": _MCP, "batch": 32,
        },
        "evaluate": {"every": 50, "train": True},
        "algorithms": algorithms,
    }  # fmt: skip


def rule(
    label: str, alpha: float = 0.05, beta: float = 0.5, gamma: float = 0.5, **more: Any
) -> Table:
    """DEPOSITUM with these parameters."""
    given = {"name": "Depositum", "label": label, "alpha": alpha, "beta": beta, "gamma": gamma}
    return given | more


def recipe(title: str, checks: Sequence[Check], table: Table, **more: Any) -> Recipe:
    """A recipe of the common setting; `more` replaces or adds fields."""
    usual: dict[str, Any] = {"shows": (LOSS, ACCURACY), "chosen": CHOSEN}
    usual |= {"tiny": _TINY, "fit": _FIT}
    return Recipe(title, tuple(checks), table, **(usual | more))
