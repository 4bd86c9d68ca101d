"""DEPOSITUM's figure 2: how Dirichlet deals classes to ten clients."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...core import Draws
from ...runs import Run, RunFolder
from ...sweeps.readings import Found
from . import depositum_words as words
from .checks import Check, Part
from .depositum_settings import rule, table
from .recipe import Recipe

__all__ = ["holdings"]


def holdings() -> Recipe:
    """Figure 2: no round is run, only the data are dealt."""
    return Recipe(
        "How Dirichlet deals classes to ten clients",
        (
            Check(
                "shares",
                "The shares of a class add up to 1",
                "distance of the sum from 1",
                _sums,
                certain=True,
                **words.SHARES,
            ),
            Check(
                "uneven",
                "A smaller theta deals more unevenly",
                "mean largest share, theta 0.1 less theta 1",
                _uneven,
                **words.UNEVEN,
            ),
        ),
        table([rule("Depositum")], 10, {"name": "Dirichlet", "theta": 1.0}, 10)
        | {"rounds": 0, "evaluate": {"every": 50}},
        (),
        "theta",
        {theta: [f"problem.partition.theta={float(theta)}"] for theta in ("1", "0.1")},
        chosen="The paper does not say of which data; MNIST here.",
        tiny=("problem.data=digits", "problem.model=softmax"),
        kind="holdings",
    )


def _dealt(run: Run) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The share of each class that each client holds [classes, clients], as the run dealt it."""
    return _dealt_at(run.path)


@cache  # the data are read for it, and what is seen is asked for several times
def _dealt_at(path: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    exp = RunFolder(path).experiment()
    labels = exp.problem.data.y  # type: ignore[attr-defined]
    parts = exp.problem.partition.deal(labels, exp.graph.clients, Draws(exp.seed))  # type: ignore[attr-defined]
    counts = np.stack(
        [np.bincount(labels[part], minlength=int(labels.max()) + 1) for part in parts], axis=1
    )
    return np.asarray(counts / np.bincount(labels)[:, None])


def _sums(found: Found) -> list[Part]:
    """How far the shares of any class are from adding up to 1."""
    return [
        Part(
            f"theta {point}",
            tuple(float(np.abs(_dealt(run).sum(axis=1) - 1).max()) for run in runs.values()),
            "below",
            1e-9,
        )
        for point, labels in found.runs.items()
        for runs in labels.values()
    ]


def _uneven(found: Found) -> list[Part]:
    """By how much theta 0.1 raises the largest share of a class, in the mean over classes."""
    even, odd = (
        [run for runs in found.runs.get(p, {}).values() for run in runs.values()]
        for p in ("1", "0.1")
    )
    largest = [
        float(_dealt(b).max(axis=1).mean() - _dealt(a).max(axis=1).mean())
        for a, b in zip(even, odd, strict=False)
    ]
    return [Part("0.1 over 1", tuple(largest), "above", 0.0)]
