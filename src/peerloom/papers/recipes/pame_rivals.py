"""The methods that PaME is compared with, with its period and participation where they bear it."""

from __future__ import annotations

from .pame_settings import Table

__all__ = ["FULL", "RIVALS", "SAMPLED", "compared"]

FULL = ["D-PSGD", "DFedSAM", "BEER", "ANQNIDS"]  # who hear all neighbours
SAMPLED = ["D-PSGD, sampled", "DFedSAM, sampled"]  # who hear as many as PaME does
RIVALS = (
    "The paper gives all methods one period and one rate of participation. D-PSGD and DFedSAM are "
    "therefore run in two ways: hearing all neighbours, and sampled, hearing as many as PaME does, "
    "drawn anew each time (their mixing then has rows that add up to 1, but not columns, and the "
    "mean moves with each draw). BEER and ANQ-NIDS keep sums that count on every link in every "
    "round, so they hear all neighbours, in every round; nothing of theirs can be left out. A "
    "communication round is one in which a node hears, in the mean over nodes, however many it "
    "hears then: those of who hears fewer cost less, so messages and bytes stand beside them. "
    "DFedSAM takes the local steps between two communications in one round, with two gradients "
    "each."
)


def compared(
    ours: Table, lr: float, period: int, compressed: float, rounds: int, every: int
) -> list[Table]:
    """PaME, and the others; `every` is how often they are judged, in gradient steps.

    A round of DFedSAM has `period` steps.
    """
    sampled = ours["schedule"]
    local = {
        "name": "DFedSAM",
        "lr": lr,
        "K": period,
        "rounds": max(1, rounds // period),
        "evaluate": {"every": max(1, every // period)},
    }
    alike = {"name": "Sampled", "kappa": 1, "fraction": sampled["fraction"]}
    return [
        ours,
        {"name": "DGD", "label": FULL[0], "lr": lr, "schedule": {"name": "Every", "T0": period}},
        {"name": "DGD", "label": SAMPLED[0], "lr": lr, "schedule": dict(sampled)},
        local | {"label": FULL[1]},
        local | {"label": SAMPLED[1], "schedule": alike},
        {
            "name": "BEER",
            "lr": lr,
            "gamma": 0.1,
            "message": {"name": "TopK", "fraction": compressed},
        },
        {"name": "ANQNIDS", "lr": lr, "message": "ANQ"},
    ]
