"""What the theorems ask of a problem: smoothness, strong convexity, noise, diversity; exact, bounded or estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..core import ConfigError, Draws, LocalProblem, Placement, Problem, nearest
from ..problems import Classification, Quadratic
from ..problems.partitions import IID

__all__ = ["NAMES", "Constants", "Estimate", "as_quadratic", "estimate"]

Floats = NDArray[np.float64]

# How often a loss of a linear model is curved at the most, by its scores.
_CURVED = {"squared": 1.0, "logistic": 0.25, "cross_entropy": 0.5}
_BATCHES = 24  # batches that noise is estimated from
_SOME = 8  # clients that curvature is estimated from, where it must be
_LARGEST = 4_000_000  # numbers in all Hessians together, up to which quadratics are treated as such

_HERE = "at the first model; it may be larger elsewhere"

NAMES = {
    "smoothness": "beta or L: the largest curvature of any client's loss",
    "convexity": "mu: the least curvature of any client's loss",
    "noise": "sigma: root of the largest variance of a client's gradient",
    "diversity": "delta: how far clients' gradients are from their mean",
    "slope": "zeta: how much that grows with the distance from the optimum",
    "gradient": "G: the largest gradient of any client",
    "drop": "F at the first model less the least F",
}


@dataclass(frozen=True)
class Estimate:
    """A constant with what is known of it."""

    value: float
    low: float
    high: float
    how: Literal["exact", "bound", "estimated", "given"]
    note: str = ""

    @classmethod
    def exact(cls, value: float, note: str = "") -> Estimate:
        """Known to the last digit."""
        return cls(value, value, value, "exact", note)


@dataclass(frozen=True)
class Constants:
    """All of them, and whether all clients draw from the same data."""

    smoothness: Estimate
    convexity: Estimate
    noise: Estimate
    diversity: Estimate
    slope: Estimate
    gradient: Estimate
    drop: Estimate
    alike: bool


def estimate(problem: Problem, clients: int, seed: int = 0, given: Mapping[str, float] | None = None) -> Constants:
    """The constants of a problem; `given` ones are taken as they are.

    Quadratics and least squares are exact, logistic and softmax regression bounded in closed form; anything else is
    estimated at the first model, by power iteration on differences of gradients and by sampling batches.
    """
    given = given or {}
    for name, value in given.items():
        if name not in NAMES:
            raise ConfigError(f"There is no constant '{name}'. {nearest(name, NAMES)}")
        if not value >= 0:
            raise ConfigError(f"The constant {name} must not be negative, found {value}.")
    draws = Draws(seed)
    square = as_quadratic(problem, clients, draws)
    local = problem.bind(Placement(np.arange(clients), clients, torch.device("cpu"), torch.float64), draws)
    x = problem.start(seed).to(torch.float64)
    found = _of_quadratic(*square, x.numpy()) if square else _of_any(problem, local, x, clients, draws)
    found["noise"] = _noise(problem, local, x, clients)
    found |= {name: Estimate(value, value, value, "given") for name, value in given.items()}
    return Constants(**found, alike=_alike(problem))


def as_quadratic(problem: Problem, clients: int, draws: Draws) -> tuple[Floats, Floats] | None:
    """(A, b) of f_i(x) = x'A_i x / 2 - b_i'x, where the problem is of that form and not too large."""
    if isinstance(problem, Quadratic):
        return problem._A, problem._b
    if not (isinstance(problem, Classification) and problem.loss_name == "squared") or clients * problem.n**2 > _LARGEST:
        return None
    if (sides := _design(problem, clients, draws)) is None:
        return None
    targets = [
        np.asarray(problem.data.y[part], np.float64) for part in problem.partition.deal(problem.data.y, clients, draws)
    ]
    ridge = problem.l2 * np.eye(problem.n)
    A = np.stack([X.T @ X / len(X) + ridge for X in sides])
    return A, np.stack([X.T @ y / len(X) for X, y in zip(sides, targets, strict=True)])


def _of_quadratic(A: Floats, b: Floats, start: Floats) -> dict[str, Estimate]:
    curves = np.linalg.eigvalsh(A)
    mean_A, mean_b = A.mean(axis=0), b.mean(axis=0)
    best, *_ = np.linalg.lstsq(mean_A, mean_b, rcond=None)
    gap, steep = start - best, float(np.linalg.norm(A @ start - b, axis=1).max())
    return {
        "smoothness": Estimate.exact(float(np.abs(curves).max())),
        "convexity": Estimate.exact(max(float(curves.min()), 0.0) if curves.min() > 1e-12 * curves.max() else 0.0),
        "diversity": Estimate.exact(float(np.linalg.norm(A @ best - b, axis=1).max()), "at the optimum"),
        "slope": Estimate.exact(float(np.linalg.norm(A - mean_A, 2, axis=(1, 2)).max())),
        "gradient": Estimate(steep, steep, math.inf, "estimated", _HERE),
        "drop": Estimate.exact(float(gap @ mean_A @ gap) / 2),
    }


def _of_any(problem: Problem, local: LocalProblem, x: Tensor, clients: int, draws: Draws) -> dict[str, Estimate]:
    whole = _whole(problem, clients, local, draws)
    loss = float(local.evaluate(x[None]).loss[0])
    drop = Estimate(loss, 0.0, loss, "bound", "the loss at the first model, as losses are not below 0")
    found = _of_linear(problem, clients, draws) or {
        "smoothness": _curvature(whole, x, clients),
        "convexity": Estimate(0.0, 0.0, 0.0, "estimated", "taken as 0: the model need not be convex"),
    }
    points = [x, _downhill(whole, x, clients)]
    steep, apart = zip(*(_gradients(whole, point, clients) for point in points), strict=True)
    note = f"the largest at {len(points)} models: the first, and one further down"
    return found | {
        "diversity": Estimate(max(apart), min(apart), max(apart), "estimated", note),
        "slope": Estimate(0.0, 0.0, 0.0, "estimated", "taken as 0: diversity as found"),
        "gradient": Estimate(max(steep), min(steep), max(steep), "estimated", note),
        "drop": drop,
    }


def _of_linear(problem: Problem, clients: int, draws: Draws) -> dict[str, Estimate] | None:
    """Closed forms for one linear layer; None where the problem is none, or too large to look at."""
    if not isinstance(problem, Classification) or (sides := _design(problem, clients, draws)) is None:
        return None
    if problem.loss_name not in _CURVED:
        return {
            "smoothness": Estimate.exact(math.inf, "the hinge has kinks"),
            "convexity": Estimate.exact(problem.l2, "l2" if problem.l2 else "no l2 term"),
        }
    top = max(float(np.linalg.eigvalsh(_gram(X))[-1]) for X in sides)
    value = _CURVED[problem.loss_name] * top + problem.l2
    how: Literal["exact", "bound"] = "exact" if problem.loss_name == "squared" else "bound"
    curved = Estimate(value, 0.0 if how == "bound" else value, value, how, "largest curvature anywhere")
    flat = problem.l2
    if problem.loss_name == "squared":
        flat += min(float(np.linalg.eigvalsh(_gram(X))[0]) if len(X) >= X.shape[1] else 0.0 for X in sides)
    return {"smoothness": curved, "convexity": Estimate.exact(max(flat, 0.0), "l2" if problem.l2 else "no l2 term")}


def _design(problem: Classification, clients: int, draws: Draws) -> list[Floats] | None:
    """Every client's inputs, with a column of ones where the layer has a bias; None unless the model is one linear layer."""
    module = problem.module(seed=0)
    layers = [part for part in module.modules() if not isinstance(part, nn.Sequential | nn.Flatten)]
    if len(layers) != 1 or not isinstance(layers[0], nn.Linear) or problem.data.x.size > 50_000_000:
        return None
    x = problem.data.x.reshape(len(problem.data.x), -1).astype(np.float64)
    if layers[0].bias is not None:
        x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    return [x[part] for part in problem.partition.deal(problem.data.y, clients, draws)]


def _gram(X: Floats) -> Floats:
    """The smaller of X'X / N and XX' / N: their positive eigenvalues are the same."""
    return np.asarray((X.T @ X if len(X) >= X.shape[1] else X @ X.T) / len(X))


def _curvature(local: LocalProblem, x: Tensor, clients: int) -> Estimate:
    """Power iteration on (g(x + h v) - g(x)) / h, at the first model, for some clients."""
    rows = np.unique(np.linspace(0, clients - 1, min(clients, _SOME)).astype(np.int64))
    h = 1e-4 * max(1.0, float(x.norm()) / math.sqrt(len(x)))
    point = x.repeat(clients, 1)
    base = local.grad(point, rows, 1)
    v = torch.sin(torch.arange(1, len(x) + 1, dtype=x.dtype)).repeat(len(rows), 1)
    size = before = torch.ones(len(rows), dtype=x.dtype)
    for _ in range(12):
        v = v / v.norm(dim=1, keepdim=True).clamp_min(1e-30)
        moved = point.clone()
        moved[torch.from_numpy(rows)] += h * v
        v = (local.grad(moved, rows, 1) - base) / h
        before, size = size, v.norm(dim=1)
    top, settled = float(size.max()), float((size - before).abs().max())
    note = f"{len(rows)} of {clients} clients, {_HERE}"
    return Estimate(top, float(size.min()), top + settled, "estimated", note)


def _noise(problem: Problem, local: LocalProblem, x: Tensor, clients: int) -> Estimate:
    """The root of the largest variance of a client's gradient over its batches, at the first model."""
    if isinstance(problem, Quadratic):
        return Estimate.exact(problem.noise * math.sqrt(problem.n))
    if isinstance(problem, Classification) and problem.batch == "all":
        return Estimate.exact(0.0, "all samples in every gradient")
    rows = np.unique(np.linspace(0, clients - 1, min(clients, _SOME)).astype(np.int64))
    point = x.repeat(clients, 1)
    drawn = torch.stack([local.grad(point, rows, t) for t in range(1, _BATCHES + 1)])
    each = drawn.var(dim=0).sum(dim=1)
    top = float(each.max())
    wobble = math.sqrt(2 / (_BATCHES - 1))  # relative error of a variance from so many draws
    low, high = (math.sqrt(max(top * (1 + side * wobble), 0.0)) for side in (-1, 1))
    note = f"at the first model, {_BATCHES} batches of {len(rows)} of {clients} clients"
    return Estimate(math.sqrt(top), low, high, "estimated", note)


def _gradients(local: LocalProblem, x: Tensor, clients: int) -> tuple[float, float]:
    """The largest gradient of any client, and the farthest from their mean."""
    g = local.grad(x.repeat(clients, 1), np.arange(clients), 1)
    return float(g.norm(dim=1).max()), float((g - g.mean(dim=0)).norm(dim=1).max())


def _downhill(local: LocalProblem, x: Tensor, clients: int) -> Tensor:
    """Some steps of gradient descent on the mean, short enough for any curvature it meets."""
    every, step = np.arange(clients), 0.1
    g = local.grad(x.repeat(clients, 1), every, 1).mean(dim=0)
    for _ in range(10):
        tried = x - step * g
        new = local.grad(tried.repeat(clients, 1), every, 1).mean(dim=0)
        if float(new.norm()) <= 1.05 * float(g.norm()):
            x, g = tried, new
        else:
            step /= 4
    return x


def _whole(problem: Problem, clients: int, local: LocalProblem, draws: Draws) -> LocalProblem:
    """The problem with all samples in every gradient, where that is no great work; else as it is."""
    if isinstance(problem, Classification) and problem.batch != "all" and problem.n * len(problem.data.y) < 50_000_000:
        place = Placement(np.arange(clients), clients, torch.device("cpu"), torch.float64)
        return replace(problem, batch="all").bind(place, draws)
    return local


def _alike(problem: Problem) -> bool:
    """Whether every client's gradient is unbiased for the whole: the same function, or data dealt by chance."""
    if isinstance(problem, Quadratic):
        return bool(np.allclose(problem._A, problem._A[0]) and np.allclose(problem._b, problem._b[0]))
    return isinstance(problem, Classification) and isinstance(problem.partition, IID)
