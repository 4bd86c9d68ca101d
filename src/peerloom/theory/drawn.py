"""How fast a rule's models agree as links are drawn: its mixing is run where nothing is learnt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .linkwise import Linkwise
from .mixing import Mixing
from .still import Still, random_rows

__all__ = ["ENOUGH", "drawn_rate", "typical_rate"]

Floats = NDArray[np.float64]

ENOUGH = 1e-6  # of the squared disagreement: models a thousand times closer count as agreed
_GONE = 1e-26  # of the squared disagreement: what is left of less is rounding
_AT_ONCE = 1e-24  # of the round before: agreed to the last digit
_ROW_ROUNDS = 400_000  # rows times rounds of all draws together
_SURE = 0.01  # standard error of the logarithm of a rate that is sure enough


def drawn_rate(mixing: Mixing, rounds: int, period: int) -> float:
    """The mean factor per round of the squared disagreement, from models without pattern.

    The second half of the rounds counts, when what shrinks fast is gone, by the line through it, as
    models may near and part in turns. Where messages carry some coordinates only, each of several
    coordinates has its own luck.
    """
    (sizes,) = _sizes(mixing, [mixing.still.exp.seed], rounds)
    heights = np.log(sizes[::period])
    late = heights[(len(heights) - 1) // 2 :]
    if len(late) < 2:
        return _pace(sizes, 1, 0.0)[0]
    return math.exp(np.polyfit(np.arange(len(late)), late, 1)[0] / period)


def typical_rate(mixing: Mixing, rounds: int, period: int, *, quick: bool = False) -> float:
    """The same over further draws of the links, until their mean is known to a percent.

    At most as many as are worth their time. A run follows one draw, so its rate is the mean of
    logarithms; what is left of the *expected* squared disagreement is more, by rare bad draws.
    """
    exp, found = mixing.still.exp, list[tuple[float, int]]()
    together = 12 if _by_weights(mixing) else 3
    most = min(4 * together, _ROW_ROUNDS // max(1, exp.graph.rows * rounds))
    last = exp.seed + max(1, min(together, most) if quick else most)
    for first in range(exp.seed + 1, last + 1, together):
        seeds = range(first, min(first + together, last + 1))
        found += [_pace(sizes, period, 0.25) for sizes in _sizes(mixing, seeds, rounds)]
        logs = np.log(np.maximum([rate for rate, _ in found], 1e-300))
        if len(found) > 1 and np.std(logs, ddof=1) < _SURE * math.sqrt(len(found)):
            break
    return math.exp(np.average(logs, weights=[length for _, length in found]))


def _by_weights(mixing: Mixing) -> bool:
    """Whether the links' weights are all there is to it, so that the rule need not be run."""
    return mixing.times is not None and mixing.still.exp.message.fit == "whole"


def _pace(sizes: Floats, period: int, skipped: float) -> tuple[float, int]:
    """The mean factor per round after a share of the rounds is skipped, and how many are left."""
    heights = np.log(sizes[::period])
    late = heights[int(skipped * (len(heights) - 1)) :]
    rounds = (len(late) - 1) * period
    return (math.exp((late[-1] - late[0]) / rounds), rounds) if rounds else (0.0, 1)


def _sizes(mixing: Mixing, seeds: Sequence[int], rounds: int) -> list[Floats]:
    """The squared disagreement after round 1, which may be special, and up to `rounds` more.

    One array for each draw of the links. It ends where models agree to the last digit.
    """
    still, exp = mixing.still, mixing.still.exp
    if not _by_weights(mixing):
        return [_of_a_run(still.under(replace(exp, seed=seed)), rounds) for seed in seeds]
    linkwise, rows = Linkwise(exp, seeds), exp.graph.rows
    x = np.concatenate([random_rows(seed, "probe", rows, 4) for seed in seeds])
    table = np.full((rounds + 1, len(seeds)), np.nan)
    for t in range(1, rounds + 2):
        for _ in range((mixing.times or 0) if t > 1 else 0):
            x = linkwise(t, x)
        table[t - 1] = _apart(x.reshape(len(seeds), rows, -1)[:, : still.clients])
        if (table[t - 1] < _GONE * table[0]).all():
            break
    return [_until_gone(sizes[~np.isnan(sizes)]) for sizes in table.T]


def _of_a_run(still: Still, rounds: int) -> Floats:
    exp = still.exp
    columns = 4 if exp.message.fit == "whole" else min(exp.problem.n, 64)
    models = random_rows(exp.seed, "probe", still.clients, columns)
    sizes = list[float]()
    for state in still.states(models, rounds + 1):
        x = state.x[: still.clients]
        if not state.t or (not sizes and _apart(x) < _GONE * (x**2).sum()):
            continue
        sizes.append(float(_apart(x)))
        if sizes[-1] < _GONE * sizes[0]:
            break
    return _until_gone(np.array(sizes or [1.0]))


def _until_gone(sizes: Floats) -> Floats:
    """Cut where rounding begins. Who agrees at once, after a while, has agreed well enough."""
    at_once = np.flatnonzero(sizes[1:] <= _AT_ONCE * sizes[:-1])
    if len(at_once):
        begun = sizes[: at_once[0] + 1]
        return np.append(begun, ENOUGH * begun[-1]) if len(begun) > 1 else begun
    return np.asarray(sizes[sizes >= _GONE * sizes[0]])


def _apart(x: Floats) -> Floats:
    """The squared disagreement of x [..., clients, columns]."""
    return np.asarray(((x - x.mean(axis=-2, keepdims=True)) ** 2).sum(axis=(-2, -1)))
