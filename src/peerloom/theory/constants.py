"""What the theorems ask of a problem: smoothness, strong convexity, noise, diversity.

Exact, bounded or estimated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core import ConfigError, Draws, LocalProblem, Placement, Problem, nearest
from ..problems.properties import Properties, Quadratics, properties_of

__all__ = ["NAMES", "Constants", "Estimate", "estimate", "quadratics_of"]

Floats = NDArray[np.float64]

_BATCHES = 24  # batches that noise is estimated from
_SOME = 8  # clients that curvature is estimated from, where it must be
_LARGEST = 4_000_000  # numbers in all Hessians together, up to which quadratics are treated as such
_MOST_DATA = 50_000_000  # numbers in the data, up to which closed forms are computed
_MOST_WORK = 50_000_000  # samples times coordinates, up to which gradients are taken on all samples

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
        """A constant that is known to the last digit."""
        return cls(value, value, value, "exact", note)


@dataclass(frozen=True)
class Constants:
    """The constants of a problem, and whether all clients draw from the same data."""

    smoothness: Estimate
    convexity: Estimate
    noise: Estimate
    diversity: Estimate
    slope: Estimate
    gradient: Estimate
    drop: Estimate
    alike: bool


def estimate(
    problem: Problem, clients: int, seed: int = 0, given: Mapping[str, float] | None = None
) -> Constants:
    """The constants of a problem; `given` ones are taken as they are.

    Quadratics and least squares are exact, logistic and softmax regression bounded in closed form;
    anything else is estimated at the first model, by power iteration on differences of gradients
    and by sampling batches.
    """
    given = given or {}
    for name, value in given.items():
        if name not in NAMES:
            raise ConfigError(f"There is no constant '{name}'. {nearest(name, NAMES)}")
        if not value >= 0:
            raise ConfigError(f"The constant {name} must not be negative, found {value}.")
    facts = properties_of(problem, clients, seed)
    square = quadratics_of(facts, clients, problem.n)
    everyone = Placement(np.arange(clients), clients, torch.device("cpu"), torch.float64)
    local = problem.bind(everyone, Draws(seed))
    x = problem.start(seed).to(torch.float64)
    if square is not None:
        found = _of_quadratic(*square, x.numpy())
    else:
        costly = facts.whole is None or problem.n * facts.samples >= _MOST_WORK
        whole = local if facts.full_batch or costly else _bound(facts.whole, everyone, seed)
        found = _of_any(facts, whole, local, x, clients)
    found["noise"] = _noise(facts, local, x, clients)
    found |= {name: Estimate(value, value, value, "given") for name, value in given.items()}
    return Constants(**found, alike=facts.iid)


def quadratics_of(facts: Properties, clients: int, n: int) -> Quadratics | None:
    """The losses as quadratics; None where they are not, or are too large."""
    if facts.quadratic is None or not _readable(facts):
        return None
    if clients * n**2 > max(_LARGEST, facts.size or 0):  # larger than what the problem itself holds
        return None
    return facts.quadratic()


def _readable(facts: Properties) -> bool:
    return facts.size is not None and facts.size <= _MOST_DATA


def _bound(problem: Problem | None, place: Placement, seed: int) -> LocalProblem:
    assert problem is not None
    return problem.bind(place, Draws(seed))


def _of_quadratic(A: Floats, b: Floats, start: Floats) -> dict[str, Estimate]:
    curves = np.linalg.eigvalsh(A)
    mean_A, mean_b = A.mean(axis=0), b.mean(axis=0)
    best, *_ = np.linalg.lstsq(mean_A, mean_b, rcond=None)
    gap, steep = start - best, float(np.linalg.norm(A @ start - b, axis=1).max())
    return {
        "smoothness": Estimate.exact(float(np.abs(curves).max())),
        "convexity": Estimate.exact(
            max(float(curves.min()), 0.0) if curves.min() > 1e-12 * curves.max() else 0.0
        ),
        "diversity": Estimate.exact(
            float(np.linalg.norm(A @ best - b, axis=1).max()), "at the optimum"
        ),
        "slope": Estimate.exact(float(np.linalg.norm(A - mean_A, 2, axis=(1, 2)).max())),
        "gradient": Estimate(steep, steep, math.inf, "estimated", _HERE),
        "drop": Estimate.exact(float(gap @ mean_A @ gap) / 2),
    }


def _of_any(
    facts: Properties, whole: LocalProblem, local: LocalProblem, x: Tensor, clients: int
) -> dict[str, Estimate]:
    loss = float(local.evaluate(x[None]).loss[0])
    drop = Estimate(
        loss, 0.0, loss, "bound", "the loss at the first model, as losses are not below 0"
    )
    found = _closed_form(facts) or {
        "smoothness": _curvature(whole, x, clients),
        "convexity": Estimate(
            0.0, 0.0, 0.0, "estimated", "taken as 0: the model need not be convex"
        ),
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


def _closed_form(facts: Properties) -> dict[str, Estimate] | None:
    """The problem's own bounds; None where it has none, or is too large to look at."""
    if facts.curvature is None or not _readable(facts):
        return None
    known = facts.curvature()
    largest = Estimate.exact(known.largest, known.largest_note)
    if not known.exact:
        largest = Estimate(known.largest, 0.0, known.largest, "bound", known.largest_note)
    return {
        "smoothness": largest,
        "convexity": Estimate.exact(known.least, known.least_note),
    }


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


def _noise(facts: Properties, local: LocalProblem, x: Tensor, clients: int) -> Estimate:
    """The root of the largest variance of a client's gradient, at the first model."""
    if facts.noise is not None:
        return Estimate.exact(facts.noise * math.sqrt(len(x)))
    if facts.full_batch:
        return Estimate.exact(0.0, "all samples in every gradient")
    shares = None if facts.noise_shares is None else facts.noise_shares()
    noisy = np.arange(clients) if shares is None else np.flatnonzero(shares > 0)
    if not len(noisy):
        return Estimate.exact(0.0, "every batch is all that its client holds")
    rows = noisy[np.unique(np.linspace(0, len(noisy) - 1, min(len(noisy), _SOME)).astype(np.int64))]
    point = x.repeat(clients, 1)
    drawn = torch.stack([local.grad(point, rows, t) for t in range(1, _BATCHES + 1)])
    each = drawn.var(dim=0).sum(dim=1)
    # Of batches that differ, what one sample's gradient varies by, and the noisiest batch.
    top = float(
        each.max()
        if shares is None
        else (each / torch.from_numpy(shares[rows])).max() * shares.max()
    )
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
