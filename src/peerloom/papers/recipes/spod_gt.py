"""Spod-GT's figures 2, 3 and 5 (1 and 4 are drawings)."""

from __future__ import annotations

from typing import Any

from ...sweeps.readings import Reading
from .claims import ahead, best_point
from .dspodfl_settings import CIFAR, FASHION, TINY, beta
from .recipe import Changed, Recipe

__all__ = ["SPOD_GT"]

Table = dict[str, Any]

_RULES = ("SpodGT", "SynchronousGT", "SporadicPushPull", "PeriodicGT", "SporadicKGT")
_CHOSEN = (
    "Where the paper is silent: radius 0.4, radii 0.2 to 1 in figures 3b and 5b, curves and "
    "sweeps end at a delay of 5000; batches are drawn with replacement. AB/Push-Pull, "
    "G-Push-Pull, K-GT and Sporadic K-GT are SynchronousGT, SporadicPushPull, PeriodicGT and "
    "SporadicKGT, as the paper means them."
)
_SCRATCH = (
    "Trained from scratch, with group norm in place of batch norm; whether the authors' network "
    "was pretrained is not known."
)
_FIT = Changed(
    "a small CNN (268,650 parameters) in place of ResNet-18, a delay of 500, two seeds. About "
    "half an hour of one core for curves and for a point of a sweep.",
    ("problem.model=cnn", "until_delay=500.0", "seeds=[42, 43]"),
)
_RESNET: Table = CIFAR | {"model": "resnet18", "partition": {"name": "Labels", "per_client": 1}}
_AT = Reading("mean_accuracy", "common", "delay_both_ways", upto=5000.0)


def _setting(problem: Table, labels: int = 1) -> Table:
    return {
        "rounds": 20_000,
        "until_delay": 5000.0,
        "seeds": [42, 43, 44, 45, 46],
        "graph": {"name": "two_way", "graph": {"name": "geometric", "clients": 10, "radius": 0.4}},
        "schedule": beta(0.5),
        "problem": {
            "name": "Classification",
            "batch": 16,
            **problem,
            "partition": {"name": "Labels", "per_client": labels},
        },
        "evaluate": {"grid": "log"},
        "algorithms": [{"name": name, "lr": 0.01} for name in _RULES],
    }


def _recipe(
    title: str,
    checks: Any,
    problem: Table,
    shows: Reading,
    varied: str = "",
    points: Any = None,
    labels: int = 1,
) -> Recipe:
    large = problem is _RESNET
    return Recipe(
        title,
        tuple(checks),
        _setting(problem, labels),
        (shows,),
        varied,
        points or {"": ()},
        note=_SCRATCH if large else "",
        chosen=_CHOSEN,
        tiny=TINY,
        fit=_FIT if large else None,
    )


def _curves(title: str, problem: Table, labels: int) -> Recipe:
    claim = "Spod-GT is 7 to 40 points above the second best there"
    checks = [
        ahead("SpodGT", _AT, "Spod-GT is above all others at a delay of 5000"),
        ahead("SpodGT", _AT, claim, name="by 7 points", by=0.07),
    ]
    return _recipe(title, checks, problem, _AT, labels=labels)


def _sweep(
    title: str, problem: Table, varied: str, points: dict[str, list[str]], *more: Any
) -> Recipe:
    best = ahead("SpodGT", _AT, "Spod-GT is the most accurate at every value")
    return _recipe(title, [best, *more], problem, _AT, varied, points)


_LABELS = {str(k): [f"problem.partition.per_client={k}"] for k in range(1, 11)}
_RADII = {f"{r:g}": [f"graph.graph.radius={r}"] for r in (0.2, 0.4, 0.6, 0.8, 1.0)}
_CLIENTS = {str(m): [f"graph.graph.clients={m}"] for m in (10, 20, 30, 40, 50)}
_RATES = {
    f"{lr:g}": [f"algorithms.{name}.lr={lr}" for name in _RULES] for lr in (1e-4, 1e-3, 1e-2, 1e-1)
}
_STEP = best_point("SpodGT", _AT, "0.01", "A step of 0.01 is the best")

SPOD_GT: dict[str, Recipe] = {
    "fig2a": _curves("Fashion-MNIST, IID", FASHION, 10),
    "fig2b": _curves("Fashion-MNIST, one label per client", FASHION, 1),
    "fig2c": _curves("CIFAR-10, IID", _RESNET, 10),
    "fig2d": _curves("CIFAR-10, one label per client", _RESNET, 1),
    "fig3a": _sweep("Labels per client", FASHION, "labels", _LABELS),
    "fig3b": _sweep("Radius of the graph", FASHION, "radius", _RADII),
    "fig3c": _sweep("Clients", FASHION, "clients", _CLIENTS),
    "fig3d": _sweep("Step size", FASHION, "step", _RATES, _STEP),
    "fig5a": _sweep("Labels per client, CIFAR-10", _RESNET, "labels", _LABELS),
    "fig5b": _sweep("Radius, CIFAR-10", _RESNET, "radius", _RADII),
    "fig5c": _sweep("Clients, CIFAR-10", _RESNET, "clients", _CLIENTS),
    "fig5d": _sweep("Step size, CIFAR-10", _RESNET, "step", _RATES, _STEP),
}
