"""Probabilities that peers measure: how fast each computes and sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..arguments import checked
from ..core import ConfigError, Draws, Network, Schedule
from .bernoulli import Bernoulli

__all__ = ["NOTHING_TO_MEASURE", "Measured", "from_seconds", "is_measured", "with_measured"]

Floats = NDArray[np.float64]

NOTHING_TO_MEASURE = (
    "resources = 'measured': in one process there is nothing to measure. "
    "Run the file between peers (`peerloom up` or `peerloom peer start`), "
    "let schedule Replay repeat such a run, or give probabilities, as in Bernoulli."
)


@checked
@dataclass(frozen=True)
class Measured:
    """`Bernoulli` with probabilities that peers measure before the first round.

        d_i = (least seconds per gradient) / (seconds per gradient of client i)
        b_ij = (least seconds per message) / (seconds per message of the link)

    so that the fastest client and the fastest link act in every round, and the others as often as
    they can keep up. Where both directions of a link share a coin the slower one counts. `resources
    = "measured"` in a file means this.

    In one process there is nothing to measure, so the simulator refuses it, but for a `Replay` of a
    run that measured.
    """

    def bind(self, network: Network, draws: Draws) -> NoReturn:
        """Never: peers put what they measured in its place."""
        raise ConfigError(NOTHING_TO_MEASURE)


def from_seconds(network: Network, gradient: Floats, message: Mapping[str, Floats]) -> Bernoulli:
    """Turn measured seconds, one per client and by layer one per link, into probabilities."""
    slower = {name: _of_coins(message[name], links.coin) for name, links in network.layers.items()}
    least = min((float(seconds.min()) for seconds in slower.values() if len(seconds)), default=1.0)
    table = np.zeros((network.rows, network.rows))
    for name, links in network.layers.items():
        table[links.dst, links.src] = least / slower[name]
    return Bernoulli(nodes=gradient.min() / gradient, links=table)


def is_measured(schedule: Any) -> bool:
    """Whether a schedule, or a part of it, is `Measured`."""
    return isinstance(schedule, Measured) or any(
        is_measured(value) for value in _parts(schedule).values()
    )


def with_measured(schedule: Schedule, found: Schedule) -> Schedule:
    """Replace every `Measured`, also within `Split` and `Cycle`, by what was found."""
    if isinstance(schedule, Measured):
        return found
    changed = {
        name: with_measured(part, found)
        for name, part in _parts(schedule).items()
        if is_measured(part)
    }
    return replace(schedule, **changed) if changed else schedule  # type: ignore[type-var]


def _of_coins(seconds: Floats, coin: NDArray[np.int64]) -> Floats:
    """Of every link, the seconds of the slowest that shares its coin."""
    _, which = np.unique(coin, return_inverse=True)
    slowest = np.zeros(which.max() + 1 if len(which) else 0)
    np.maximum.at(slowest, which, seconds)
    return slowest[which]


def _parts(schedule: Any) -> dict[str, Any]:
    """The schedules that a schedule is made of."""
    if not is_dataclass(schedule):
        return {}
    found = {field.name: getattr(schedule, field.name) for field in fields(schedule)}
    return {
        name: value
        for name, value in found.items()
        if is_dataclass(value) and isinstance(value, Schedule)
    }
