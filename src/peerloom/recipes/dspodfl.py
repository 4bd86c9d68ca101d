"""DSpodFL's figures 2 to 11 (its figure 1 is a drawing).

Where the paper is silent: curves of Fashion-MNIST end at a delay of 4000 and those of CIFAR-10 at 5000; figure 4a has the
law of figure 2; figures 9 to 11 are not IID, as most are. Seeds are those of the authors' code. Delays are as run, not
normalised.
"""

from __future__ import annotations

from typing import Any

from .recipe import Recipe

__all__ = ["DSPODFL"]

Table = dict[str, Any]

_RULES = ("DSpodFL", "DGD", "RandomizedGossip", "SporadicSGD", "DFedAvg")
_SCRATCH = "Trained from scratch: the authors started from a network pretrained on ImageNet, which is not shipped here."


def _law(name: str, **parameters: float) -> Table:
    both = {"name": name, **parameters}
    return {"name": "Bernoulli", "nodes": dict(both), "links": dict(both)}


def _beta(both: float) -> Table:
    return _law("Beta", a=both, b=both)


_FASHION: Table = {
    "model": "svm",
    "data": {"name": "fashion-mnist", "scale": "mnist"},
    "partition": {"name": "Labels", "per_client": 1},
}
_CIFAR: Table = {
    "model": "vgg11",
    "data": {"name": "cifar10", "scale": "half"},
    "partition": {"name": "Labels", "per_client": 3},
}


def _table(problem: Table, schedule: Table, delay: float, labels: int | None = None, clients: int = 10) -> Table:
    partition = problem["partition"] if labels is None else {"name": "Labels", "per_client": labels}
    return {
        "rounds": int(4 * delay),  # a round of DSpodFL costs 2 in the mean, those of the others more: the delay ends runs
        "until_delay": delay,
        "seeds": [42, 43, 44, 45, 46, 47, 48],
        "graph": {"name": "geometric", "clients": clients, "radius": 0.4},
        "schedule": schedule,
        "problem": {"name": "Classification", "batch": 16, **problem, "partition": partition},
        "evaluate": {"grid": "log"},
        "algorithms": [{"name": name, "lr": 0.01} for name in _RULES],
    }


def _curves(title: str, claim: str, table: Table, note: str = "") -> Recipe:
    return Recipe(title, claim, "DSpodFL", table, note=note)


def _sweep(title: str, claim: str, table: Table, varied: str, points: dict[str, list[str]], note: str = "") -> Recipe:
    return Recipe(title, claim, "DSpodFL", table, varied, points, note)


def _labels(most: int = 10) -> dict[str, list[str]]:
    return {str(k): [f"problem.partition.per_client={k}"] for k in range(1, most + 1)}


def _radii() -> dict[str, list[str]]:
    return {f"{r:g}": [f"graph.radius={r}"] for r in (0.2, 0.4, 0.6, 0.8, 1.0)}


def _clients(*numbers: int) -> dict[str, list[str]]:
    return {str(m): [f"graph.clients={m}"] for m in numbers}


def _betas(*who: str) -> dict[str, list[str]]:
    return {f"{a:g}": [f"schedule.{of}.{p}={a}" for of in who for p in "ab"] for a in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)}


def _normals(parameter: str, values: tuple[float, ...]) -> dict[str, list[str]]:
    return {f"{v:g}": [f"schedule.{of}.{parameter}={v}" for of in ("nodes", "links")] for v in values}


def _modes() -> dict[str, list[str]]:
    return {
        f"{mu:g}": [f"schedule.{of}.{mean}" for of in ("nodes", "links") for mean in (f"mean1={mu}", f"mean2={1 - mu}")]
        for mu in (0.0, 0.1, 0.2, 0.3, 0.4)
    }


def _rates() -> dict[str, list[str]]:
    return {f"{lr:g}": [f"algorithms.{name}.lr={lr}" for name in _RULES] for lr in (1e-4, 1e-3, 1e-2, 1e-1)}


_BEST = "DSpodFL is the most accurate at every value"
_AHEAD = "DSpodFL is above all others at equal delay"
_UNIFORM = _law("Uniform")
_NORMAL = _law("TruncatedNormal", mean=0.5, std=0.5)
_BOTH = ("nodes", "links")
_MORE, _FEWER = _clients(10, 20, 30, 40, 50), _clients(4, 6, 8, 10)
_FAST, _SLOW = 500.0, 5000.0  # the delays at which sweeps are judged, for Fashion-MNIST and CIFAR-10


DSPODFL: dict[str, Recipe] = {
    "fig2a": _curves("Fashion-MNIST, IID, Beta(0.5, 0.5)", _AHEAD, _table(_FASHION, _beta(0.5), 4000.0, labels=10)),
    "fig2b": _curves("Fashion-MNIST, one label per client, Beta(0.5, 0.5)", _AHEAD, _table(_FASHION, _beta(0.5), 4000.0)),
    "fig2c": _curves("CIFAR-10, IID, Beta(0.8, 0.8)", _AHEAD, _table(_CIFAR, _beta(0.8), _SLOW, labels=10), _SCRATCH),
    "fig2d": _curves("CIFAR-10, three labels each, Beta(0.8, 0.8)", _AHEAD, _table(_CIFAR, _beta(0.8), _SLOW), _SCRATCH),
    "fig3a": _sweep("Labels per client, U(0, 1]", _BEST, _table(_FASHION, _UNIFORM, _FAST), "labels", _labels()),
    "fig3b": _sweep("Radius of the graph, U(0, 1]", _BEST, _table(_FASHION, _UNIFORM, _FAST), "radius", _radii()),
    "fig3c": _sweep("Clients, U(0, 1]", _BEST, _table(_FASHION, _UNIFORM, _FAST), "clients", _MORE),
    "fig3d": _sweep("Beta(a, a)", _BEST, _table(_FASHION, _beta(0.5), _FAST), "a", _betas(*_BOTH)),
    "fig4a": _curves("Fifty clients, Beta(0.5, 0.5)", _AHEAD, _table(_FASHION, _beta(0.5), 4000.0, clients=50)),
    "fig4b": _sweep(
        "Two modes, mu and 1 - mu",
        _BEST,
        _table(_FASHION, _law("BimodalTruncatedNormal", mean1=0.0, mean2=1.0, std=0.1), _FAST),
        "mu",
        _modes(),
    ),
    "fig5a": _curves("Fashion-MNIST, one label per client, U(0, 1]", _AHEAD, _table(_FASHION, _UNIFORM, 4000.0)),
    "fig5b": _curves("CIFAR-10, three labels each, U(0, 1]", _AHEAD, _table(_CIFAR, _UNIFORM, _SLOW), _SCRATCH),
    "fig6a": _sweep("Labels per client, Beta(0.5, 0.5)", _BEST, _table(_FASHION, _beta(0.5), _FAST), "labels", _labels()),
    "fig6b": _sweep("Radius of the graph, Beta(0.5, 0.5)", _BEST, _table(_FASHION, _beta(0.5), _FAST), "radius", _radii()),
    "fig6c": _sweep("Clients, Beta(0.5, 0.5)", _BEST, _table(_FASHION, _beta(0.5), _FAST), "clients", _MORE),
    "fig7a": _sweep("Labels, CIFAR-10", _BEST, _table(_CIFAR, _beta(0.8), _SLOW), "labels", _labels(), _SCRATCH),
    "fig7b": _sweep("Radius, CIFAR-10", _BEST, _table(_CIFAR, _beta(0.8), _SLOW), "radius", _radii(), _SCRATCH),
    "fig7c": _sweep(
        "Clients, CIFAR-10", _BEST, _table(_CIFAR, _beta(0.8), _SLOW), "clients", _clients(4, 6, 8, 10), _SCRATCH
    ),
    "fig7d": _sweep("Beta(a, a), CIFAR-10", _BEST, _table(_CIFAR, _beta(0.8), _SLOW), "a", _betas(*_BOTH), _SCRATCH),
    "fig8a": _curves("Fashion-MNIST, laws redrawn", _AHEAD, _table(_FASHION, _beta(0.5) | {"redraw": 1000}, 4000.0)),
    "fig8b": _curves("CIFAR-10, laws redrawn", _AHEAD, _table(_CIFAR, _beta(0.8) | {"redraw": 1000}, _SLOW), _SCRATCH),
    "fig9a": _curves("Truncated normal, mean and deviation 0.5", _AHEAD, _table(_FASHION, _NORMAL, 4000.0)),
    "fig9b": _sweep(
        "Deviation of a truncated normal",
        _BEST,
        _table(_FASHION, _NORMAL, _FAST),
        "deviation",
        _normals("std", (0.2, 0.4, 0.6, 0.8, 1.0)),
    ),
    "fig9c": _sweep(
        "Mean of a truncated normal",
        _BEST,
        _table(_FASHION, _NORMAL, _FAST),
        "mean",
        _normals("mean", (0.0, 0.25, 0.5, 0.75, 1.0)),
    ),
    "fig10a": _sweep("Radius, fifty clients", _BEST, _table(_FASHION, _beta(0.5), _FAST, clients=50), "radius", _radii()),
    "fig10b": _sweep("Beta(a, a) of links only", _BEST, _table(_FASHION, _beta(0.5), _FAST), "a", _betas("links")),
    "fig10c": _sweep("Beta(a, a) of clients only", _BEST, _table(_FASHION, _beta(0.5), _FAST), "a", _betas("nodes")),
    "fig11a": _sweep("Step size", _BEST, _table(_FASHION, _beta(0.5), _FAST), "step", _rates()),
    "fig11b": _sweep("Step size, CIFAR-10", _BEST, _table(_CIFAR, _beta(0.8), _SLOW), "step", _rates(), _SCRATCH),
}
