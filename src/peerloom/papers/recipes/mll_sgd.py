"""MLL-SGD's figures 1 to 10: averaging on two levels, and waiting for the slowest.

Panels of one figure that show loss and accuracy of the same runs are one recipe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import mll_sgd_words as words
from .claims import ahead, close, order
from .claims_curves import beats, nearer
from .mll_sgd_settings import (
    ACCURACIES,
    ACCURACY,
    CNN,
    COMPAT,
    COMPAT_EPOCHS,
    COMPAT_PATHS,
    LOGISTIC,
    LOSSES,
    RESNET,
    Table,
    Task,
    experiment,
    hubs,
    periods,
    recipe,
)
from .recipe import Recipe

__all__ = ["MLL_ALIASES", "MLL_SGD"]

_GROUPS = [5, 5, 10, 10, 20, 20, 25, 25, 40, 40] * 10  # weights of the workers, by their data


def _hierarchy(task: Task, numbers: Sequence[float]) -> Recipe:
    """Figures 1 and 7; `numbers` are the authors' accuracies, in the order of `ranked`."""
    server = hubs(1, _GROUPS)
    rules: list[Table] = [
        {"name": "DistributedSGD", "graph": server},
        {
            "name": "LocalSGD",
            "label": "Local SGD, tau 32",
            "schedule": periods(32, 1),
            "graph": server,
        },
        {"name": "MLLSGD", "label": "MLL-SGD, tau 8, q 4", "schedule": periods(8, 4)},
        {"name": "MLLSGD", "label": "MLL-SGD, tau 4, q 8", "schedule": periods(4, 8)},
    ]
    goal, *ranked = labels = [
        "DistributedSGD",
        "MLL-SGD, tau 4, q 8",
        "MLL-SGD, tau 8, q 4",
        "Local SGD, tau 32",
    ]
    checks = []
    for reading, word in ((LOSSES, "loss"), (ACCURACIES, "accuracy")):
        if task is not LOGISTIC:
            checks.append(
                order(
                    ranked,
                    reading,
                    f"The larger q, the better, in {word}",
                    name=f"q helps, {word}",
                    **words.IMPROVES,
                )
            )
        checks.append(
            nearer(
                goal,
                ranked,
                reading,
                f"The larger q, the nearer to distributed SGD, in {word}",
                name=f"q brings nearer, {word}",
                **(words.APPROACHES_TOO if task is LOGISTIC else words.IMPROVES),
            )
        )
    groups = {"name": "Groups", "hubs": 10}
    table = experiment(task, rules, hubs(10, _GROUPS), groups)
    found = {("", label, ACCURACY): value for label, value in zip(labels, numbers, strict=True)}
    return recipe(
        "Levels of averaging",
        checks,
        table,
        task,
        found,
        COMPAT_EPOCHS if task is CNN else COMPAT,
    )


def _hub_graphs(task: Task) -> Recipe:
    """Figures 2, 3 and 8: hubs on a path, more or fewer of them."""
    rules: list[Table] = [
        {
            "name": "MLLSGD",
            "label": f"{number} hubs",
            "graph": hubs(number, shape="path"),
            "schedule": periods(8, 4),
        }
        for number in (5, 10, 20)
    ]
    rules.append({"name": "LocalSGD", "graph": hubs(1), "schedule": periods(32, 1)})
    labels = ["5 hubs", "10 hubs", "20 hubs"]
    checks = [
        beats(
            [(label, "LocalSGD") for label in labels],
            LOSSES,
            "With 5, 10 and 20 hubs MLL-SGD beats local SGD",
            name="beats local SGD",
            **(words.OUTPERFORM_TOO if task is LOGISTIC else words.OUTPERFORMS),
        )
    ]
    if task is RESNET:
        checks.append(order(labels, LOSSES, "Slower with more hubs", **words.SLOWER))
    else:
        alike = words.LITTLE_DIFFERENCE if task is LOGISTIC else words.MINIMAL
        checks.append(close(labels, LOSSES, 0.05, "The number of hubs hardly matters", **alike))
    return recipe(
        "Hubs on a path",
        checks,
        experiment(task, rules, hubs()),
        task,
        compat=COMPAT_PATHS,
    )


_CHANCES: dict[str, Any] = {
    "Prob 1": 1.0,
    "Fixed": 0.55,
    "Uniform": [k / 10 for k in range(1, 11)] * 10,
    "Skewed 1": [1.0, *[0.5] * 9] * 10,
    "Skewed 2": [0.1, *[0.6] * 9] * 10,
}


def _chances(task: Task) -> Recipe:
    """Figures 4, 5 and 9: one worker of each hub is the special one, as in the authors' code."""
    rules: list[Table] = [
        {"name": "MLLSGD", "label": name, "schedule": periods(8, 4, nodes)}
        for name, nodes in _CHANCES.items()
    ]
    slow = list(_CHANCES)[1:]
    same = words.SAME_RATE_TOO if task is LOGISTIC else words.SAME_RATE
    checks = [close(slow, LOSSES, 0.05, "Settings of the same mean probability coincide", **same)]
    if task is not LOGISTIC:  # of which the paper does not say it
        checks.append(
            beats(
                [("Prob 1", label) for label in slow],
                LOSSES,
                "All are slower than probability 1",
                name="slower",
                **same,
            )
        )
    return recipe("How often workers compute", checks, experiment(task, rules, hubs()), task)


def _slots(task: Task, numbers: dict[str, float]) -> Recipe:
    """Figures 6 and 10: a round is a time slot."""
    nodes = [0.6, *[0.9] * 9] * 10
    rules: list[Table] = [
        {"name": "MLLSGD", "label": "MLL-SGD, tau 32, q 1", "schedule": periods(32, 1, nodes)},
        {
            "name": "LocalSGD",
            "label": "Local SGD, tau 32",
            "schedule": periods(32, 1, nodes, waits=True),
        },
        {"name": "MLLSGD", "label": "MLL-SGD, tau 8, q 4", "schedule": periods(8, 4, nodes)},
        {
            "name": "HLSGD",
            "label": "HL-SGD, tau 8, q 4",
            "schedule": periods(8, 4, nodes, waits=True),
        },
    ]
    pairs = {
        "MLL-SGD, tau 32, q 1": "Local SGD, tau 32",
        "MLL-SGD, tau 8, q 4": "HL-SGD, tau 8, q 4",
    }
    says = words.IMPROVEMENT if task is LOGISTIC else words.QUICKER
    checks = [
        ahead(
            ours,
            reading,
            f"MLL-SGD is faster than {other}, {word}",
            name=f"faster than {other}, {word}",
            over=[other],
            **says,
        )
        for ours, other in pairs.items()
        for reading, word in ((LOSSES, "loss"), (ACCURACIES, "accuracy"))
    ]
    found = {("", label, ACCURACY): value for label, value in numbers.items()}
    return recipe(
        "Time slots, waiting or not", checks, experiment(task, rules, hubs()), task, found
    )


# Final accuracies of the authors' runs, shipped with their code.
_FIG1 = {
    "CNN": (0.9275, 0.9272, 0.9255, 0.9199),
    "ResNet": (0.4673, 0.4544, 0.4477, 0.4294),
    "logistic": (0.871, 0.871, 0.871, 0.871),
}
_FIG6 = {
    "CNN": {"MLL-SGD, tau 32, q 1": 0.9141, "MLL-SGD, tau 8, q 4": 0.9227},
    "ResNet": {"MLL-SGD, tau 32, q 1": 0.4173, "MLL-SGD, tau 8, q 4": 0.4342},
}

MLL_SGD: dict[str, Recipe] = {
    "fig1ab": _hierarchy(CNN, _FIG1["CNN"]),
    "fig1cd": _hierarchy(RESNET, _FIG1["ResNet"]),
    "fig2": _hub_graphs(CNN),
    "fig3": _hub_graphs(RESNET),
    "fig4": _chances(CNN),
    "fig5": _chances(RESNET),
    "fig6ab": _slots(CNN, _FIG6["CNN"]),
    "fig6cd": _slots(RESNET, _FIG6["ResNet"]),
    "fig7": _hierarchy(LOGISTIC, _FIG1["logistic"]),
    "fig8": _hub_graphs(LOGISTIC),
    "fig9": _chances(LOGISTIC),
    "fig10": _slots(LOGISTIC, {}),
}
MLL_ALIASES = {
    "fig1a": "fig1ab", "fig1b": "fig1ab", "fig1c": "fig1cd", "fig1d": "fig1cd",
    "fig6a": "fig6ab", "fig6b": "fig6ab", "fig6c": "fig6cd", "fig6d": "fig6cd",
}  # fmt: skip
