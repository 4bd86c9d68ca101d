"""What is measured of a run: quality, agreement, cost. Measures only read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .core import ConfigError, Rule, WholeGradients, mean_model, objective_over, spread
from .runtime import Snapshot

__all__ = ["DIAGNOSTICS", "METRICS", "OWN", "TRAINING", "meaning", "measure", "own_metrics"]

Floats = NDArray[np.float64]

# Every column of a run's table, and what it means. Lists have one entry per client.
METRICS: dict[str, str] = {
    "round": "rounds done",
    "mean_loss": "mean over clients of the loss of each client's own model on the evaluation set",
    "mean_accuracy": "mean over clients of the accuracy of each client's own model on the "
    "evaluation set",
    "average_loss": "loss of the averaged model, sum_i a_i x_i, on the evaluation set",
    "average_accuracy": "accuracy of the averaged model on the evaluation set",
    "consensus": "consensus error: sum_i a_i |x_i - averaged model|^2",
    "gradients": "gradients computed so far, all clients together",
    "messages": "messages sent so far, all links together",
    "bytes": "bytes sent so far, all links together",
    "paper_bytes": "the same, counted as the papers do: 64-bit numbers, PaME's masks",
    "delay": "DSpodFL's delay as run: processing + transmission, not normalised",
    "processing_delay": "its first part: sum over rounds of (1/m) sum_i v_i / d_i",
    "transmission_delay": "its second part: sum over rounds of "
    "(1/m) sum_i (1/|N_i|) sum_j vhat_ij / b_ij",
    "delay_normalised": "DSpodFL's delay as written: DGD costs exactly 2 per round",
    "delay_both_ways": "Spod-GT's delay as run: delay, and what each client spends on sending in "
    "the mean of its links",
    "seconds": "wall time of the rounds so far, evaluation not counted",
    "client_loss": "loss of each client's model",
    "client_accuracy": "accuracy of each client's model",
}

# Columns of what a problem measures besides, by the name that the problem gives it.
OWN: dict[str, str] = {
    "mean_NAME": "mean over clients of NAME of each client's own model, as the problem measures it",
    "average_NAME": "NAME of the averaged model",
    "client_NAME": "NAME of each client's model",
}

# What `evaluate.closely` adds, where the rule says how it descends (DEPOSITUM); in the simulator
# only.
DIAGNOSTICS: dict[str, str] = {
    "consensus_tracker": "consensus error of the trackers: (1/m) sum_i |y_i - mean y|^2",
    "consensus_direction": "consensus error of the directions that the next round takes: "
    "(1/m) sum_i |nu_i - mean nu|^2",
    "gradient_error": "|mean nu - (1/m) sum_i grad f_i(x_i)|^2, gradients on all samples",
    "proximal_gradient": "(1/m) sum_i |G(x_i)|^2, G(x) = (x - prox_h(x - alpha grad f(x))) / alpha",
}


# What `evaluate.train` adds, where all samples are in one place.
TRAINING: dict[str, str] = {
    "average_train_loss": "loss of the averaged model on all samples that clients train on: the "
    "mean over clients, or over samples under rules that mean that (MLL-SGD)",
}


@torch.no_grad()
def measure(
    snapshot: Snapshot, seconds: float, diagnosed: Rule | None = None, trained: Rule | None = None
) -> dict[str, Any]:
    """One row of the table, in the order of METRICS, with what else is asked for.

    DIAGNOSTICS where the rule is given as `diagnosed`, TRAINING where it is as `trained`.
    """
    x, ledger = snapshot.models, snapshot.account
    mass = snapshot.mass
    judged = torch.cat([x, mean_model(x, mass)[None].to(x.dtype)])  # all at once, the average last
    first, same = _distinct(judged)
    found = snapshot.port.problem.evaluate(judged if len(first) == len(judged) else judged[first])
    every, rates = found.loss[same], None if found.accuracy is None else found.accuracy[same]
    loss, accuracy = every[:-1], None if rates is None else rates[:-1]
    row = {
        "round": snapshot.t,
        "mean_loss": float(loss.mean()),
        "mean_accuracy": None if accuracy is None else float(accuracy.mean()),
        "average_loss": float(every[-1]),
        "average_accuracy": None if rates is None else float(rates[-1]),
        "consensus": spread(x, mass),
        "gradients": ledger.gradients,
        "messages": ledger.messages,
        "bytes": ledger.bytes,
        "paper_bytes": ledger.paper_bytes,
        "delay": ledger.delay(),
        "processing_delay": ledger.processing_delay(),
        "transmission_delay": ledger.transmission_delay(),
        "delay_normalised": ledger.delay(normalised=True),
        "delay_both_ways": ledger.delay_both_ways(),
        "seconds": seconds,
        "client_loss": loss.tolist(),
        "client_accuracy": None if accuracy is None else accuracy.tolist(),
        **({} if trained is None else _training(snapshot, trained, judged[-1:])),
        **({} if diagnosed is None else _diagnostics(snapshot, diagnosed)),
    }
    for name, values in found.more.items():
        row |= _named(name, values[same], row)
    return row


def own_metrics(columns: Iterable[str]) -> list[str]:
    """The names of what a problem measures besides, read off the columns of a table."""
    named = (column.removeprefix("mean_") for column in columns if column.startswith("mean_"))
    return [name for name in named if f"mean_{name}" not in METRICS]


def meaning(column: str) -> str:
    """What a column means; '' if there is no such column.

    >>> meaning("average_f1")
    'f1 of the averaged model'
    """
    known = METRICS | TRAINING | DIAGNOSTICS
    if column in known:
        return known[column]
    prefix, _, name = column.partition("_")
    return OWN.get(f"{prefix}_NAME", "").replace("NAME", name)


def _named(name: str, values: Floats, row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a metric of the problem's own; the averaged model's value is the last."""
    own = values[:-1]
    columns = {
        f"mean_{name}": float(own.mean()),
        f"average_{name}": float(values[-1]),
        f"client_{name}": own.tolist(),
    }
    if taken := [column for column in columns if column in row]:
        raise ConfigError(
            f"The problem measures '{name}', but '{taken[0]}' is another column of the table. Give "
            "it another name."
        )
    return columns


def _training(snapshot: Snapshot, rule: Rule, middle: Tensor) -> dict[str, float]:
    """The objective that the rule means, at the averaged model."""
    problem = snapshot.port.problem
    if not hasattr(problem, "train_loss"):
        raise ConfigError(
            f"evaluate.train: {type(problem).__name__} does not say what a model loses on the "
            "samples it is trained on. Give it train_loss(x, over), or leave train out."
        )
    found = problem.train_loss(middle, objective_over(rule))
    return {"average_train_loss": float(found[0])}


def _diagnostics(snapshot: Snapshot, rule: Rule) -> dict[str, float | None]:
    """Compare the rule's directions with the gradients they stand for, on all samples."""
    descent = getattr(rule, "descent", None)
    problem = snapshot.port.problem
    if descent is None or not isinstance(problem, WholeGradients):
        return dict.fromkeys(DIAGNOSTICS)
    x, now = snapshot.x, descent(snapshot.state)
    whole = partial(problem.whole_gradients, on=np.arange(len(x)))
    tracker, direction = now.tracker.double(), now.direction.double()
    own = whole(x).double().mean(dim=0)
    at_each = torch.stack([whole(row.expand_as(x)).mean(dim=0) for row in x])
    left = (x - problem.prox(x - now.step * at_each, now.step)).double() / now.step
    found = (
        (tracker - tracker.mean(dim=0)).square().sum(dim=1).mean(),
        (direction - direction.mean(dim=0)).square().sum(dim=1).mean(),
        (direction.mean(dim=0) - own).square().sum(),
        left.square().sum(dim=1).mean(),
    )
    return dict(zip(DIAGNOSTICS, (value.item() for value in found), strict=True))


def _distinct(x: Tensor) -> tuple[list[int], list[int]]:
    """Return the first row of each kind, and of which kind every row is.

    After an average many models are equal, and need to be judged only once.
    """
    kinds: dict[bytes, int] = {}
    first: list[int] = []
    same: list[int] = []
    for i, row in enumerate(x.cpu().numpy()):
        kind = kinds.setdefault(hashlib.blake2b(row, digest_size=16).digest(), len(kinds))
        if kind == len(first):
            first.append(i)
        same.append(kind)
    return first, same
