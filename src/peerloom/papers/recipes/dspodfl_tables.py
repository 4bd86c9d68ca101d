"""DSpodFL's tables 2 to 5: accuracy after so many rounds, and the delay to reach a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...sweeps.readings import Reading
from .claims import ahead, close, order, printed
from .dspodfl_settings import CIFAR, COMPAT, FASHION, SCRATCH, beta, setting
from .recipe import DIGITS, Changed, Recipe

__all__ = ["DSPODFL_TABLES"]

Table = dict[str, Any]
Numbers = dict[tuple[str, str, Reading], float]

# Tables 2 and 3 of the paper: accuracy at three rounds, IID and then not.
_NAMES = {
    "DGD": "DGD",
    "DFedAvg": "DFedAvg",
    "RG": "RandomizedGossip",
    "Sporadic SGDs": "SporadicSGD",
    "DSpodFL": "DSpodFL",
}
_TABLE2 = {
    "DGD": (0.80, 0.81, 0.82, 0.72, 0.73, 0.75),
    "DFedAvg": (0.79, 0.81, 0.81, 0.39, 0.41, 0.41),
    "RG": (0.80, 0.82, 0.82, 0.60, 0.65, 0.64),
    "Sporadic SGDs": (0.77, 0.80, 0.80, 0.70, 0.74, 0.74),
    "DSpodFL": (0.77, 0.80, 0.80, 0.63, 0.67, 0.70),
}
_TABLE3 = {
    "DGD": (0.73, 0.73, 0.74, 0.77, 0.80, 0.81),
    "DFedAvg": (0.73, 0.74, 0.75, 0.56, 0.70, 0.76),
    "RG": (0.72, 0.74, 0.74, 0.73, 0.80, 0.80),
    "Sporadic SGDs": (0.74, 0.74, 0.75, 0.71, 0.76, 0.79),
    "DSpodFL": (0.72, 0.73, 0.73, 0.65, 0.72, 0.76),
}
# Tables 4 and 5: processing, transmission and overall delay to a target, IID and then not.
_TABLE4 = {
    "DGD": (4605.26, 1915.95, 6521.22, 2470.37, 1027.76, 3498.14),
    "DFedAvg": (5947.19, 88.82, 6036.01, 221418.66, 3070.60, 224489.26),
    "RG": (6130.19, 331.40, 6461.58, 9180.18, 451.15, 9631.18),
    "Sporadic SGDs": (591.84, 7614.84, 8206.68, 127.38, 1270.18, 1397.56),
    "DSpodFL": (593.69, 893.32, 1487.00, 257.68, 430.96, 688.65),
}
_TABLE5 = {
    "DGD": (3462.06, 2571.64, 6033.70, 2250.12, 8807.37, 11057.49),
    "DFedAvg": (2784.81, 482.01, 3266.83, 9627.35, 2065.34, 11692.70),
    "RG": (3462.06, 614.68, 4076.74, 2250.12, 161.15, 2411.27),
    "Sporadic SGDs": (440.73, 2888.25, 3328.98, 160.13, 13081.37, 13241.50),
    "DSpodFL": (628.97, 990.24, 1619.21, 327.27, 647.24, 974.51),
}
_PARTS = ("processing_delay", "transmission_delay", "delay")
_TINY = (*DIGITS, "rounds=60")
_FIT = Changed(
    "a small CNN (268,650 parameters) in place of VGG-11, 500 rounds, evaluated every 250, two "
    "seeds. About a quarter of an hour of one core.",
    ("problem.model=cnn", "rounds=500", "evaluate={every=250}", "seeds=[42, 43]"),
)
_SEVERAL = (
    "The laws' reciprocals have no mean: the paper's delays are one draw of them, ours medians "
    "of several."
)


def _base(problem: Table, a: float, rounds: int) -> Table:
    """By rounds, not by delay."""
    table = setting(problem, beta(a), 1.0)
    del table["until_delay"]
    return table | {"rounds": rounds}


def _points(iid: list[str], apart: list[str], labels: int) -> dict[str, list[str]]:
    deal = "problem.partition.per_client"
    return {"IID": [f"{deal}=10", *iid], "non-IID": [f"{deal}={labels}", *apart]}


def _at_rounds(numbers: Mapping[str, tuple[float, ...]], rounds: tuple[int, ...]) -> Numbers:
    return {
        (
            "IID" if k < 3 else "non-IID",
            _NAMES[name],
            Reading("mean_accuracy", float(rounds[k])),
        ): value
        for name, values in numbers.items()
        for k, value in enumerate(values)
    }


def _to_targets(numbers: Mapping[str, tuple[float, ...]], targets: tuple[float, float]) -> Numbers:
    return {
        (
            "IID" if k < 3 else "non-IID",
            _NAMES[name],
            Reading(_PARTS[k % 3], level=("mean_accuracy", targets[k // 3])),
        ): value
        for name, values in numbers.items()
        for k, value in enumerate(values)
    }


def _accuracies(
    title: str, problem: Table, a: float, labels: int, numbers: Numbers, ends: tuple[int, int]
) -> Recipe:
    large = problem is CIFAR
    end = Reading("mean_accuracy")
    return Recipe(
        title,
        (
            printed(numbers, 0.03, "The accuracies of the table"),
            order(
                ["DGD", "DSpodFL"],
                end,
                "Per round, DGD is at least as accurate as DSpodFL",
                name="per round",
            ),
            close(
                list(_NAMES.values()),
                end,
                0.05,
                "After enough rounds all are equally accurate",
                name="same in the end",
            ),
        ),
        _base(problem, a, max(ends)),
        (end,),
        "data",
        _points([f"rounds={ends[0]}"], [f"rounds={ends[1]}"], labels),
        note=SCRATCH if large else "",
        tiny=_TINY,
        fit=_FIT if large else None,
        compat=COMPAT,
        paper=numbers,
    )


def _delays(
    title: str,
    problem: Table,
    a: float,
    labels: int,
    numbers: Numbers,
    targets: tuple[float, float],
) -> Recipe:
    large = problem is CIFAR
    to_iid, to_apart = (Reading("delay", level=("mean_accuracy", target)) for target in targets)
    claim = "DSpodFL needs the least delay"
    return Recipe(
        title,
        (
            ahead("DSpodFL", to_iid, f"{claim}, IID", name="least delay, IID", only=["IID"]),
            ahead(
                "DSpodFL",
                to_apart,
                f"{claim}, non-IID",
                name="least delay, non-IID",
                only=["non-IID"],
            ),
            printed(numbers, 1.0, "The delays of the table, to a factor of two", ratio=True),
        ),
        _base(problem, a, 10_000),
        (),
        "data",
        _points([], [], labels),
        note=f"{SCRATCH} {_SEVERAL}" if large else _SEVERAL,
        chosen="Runs end after 10,000 rounds; the paper does not say when its own do.",
        tiny=_TINY,
        fit=_FIT if large else None,
        compat=COMPAT,
        paper=numbers,
        kind="delays",
    )


DSPODFL_TABLES: dict[str, Recipe] = {
    "table2": _accuracies(
        "Accuracy after so many rounds, Fashion-MNIST",
        FASHION,
        0.5,
        1,
        _at_rounds(_TABLE2, (1000, 2500, 3500, 5000, 10_000, 15_000)),
        (3500, 15_000),
    ),
    "table3": _accuracies(
        "Accuracy after so many rounds, CIFAR-10",
        CIFAR,
        0.8,
        3,
        _at_rounds(_TABLE3, (1500, 3000, 4500, 3000, 6000, 9500)),
        (4500, 9500),
    ),
    "table4": _delays(
        "Delay to a target, Fashion-MNIST",
        FASHION,
        0.5,
        1,
        _to_targets(_TABLE4, (0.75, 0.4)),
        (0.75, 0.4),
    ),
    "table5": _delays(
        "Delay to a target, CIFAR-10", CIFAR, 0.8, 3, _to_targets(_TABLE5, (0.65, 0.3)), (0.65, 0.3)
    ),
}
