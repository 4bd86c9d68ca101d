"""What an algorithm is: a pair of functions over rows, and a word on what it needs of the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor

from ..errors import ConfigError
from .net import Net
from .network import Network

__all__ = ["Algorithm", "CyclePlan", "Needs", "Plan", "check_needs"]


class Algorithm(Protocol):
    """A frozen dataclass with `init` and `step`.

    State is a named tuple of row tensors whose first field `x` is the model. A step returns a new state, changes
    nothing in place, and does the same on all rows; it does not count, log, time, save or plot.
    """

    needs: ClassVar[Needs]

    def init(self, x: Tensor, net: Net) -> Any:
        """The state of round 0, from the rows' first models."""

    def step(self, s: Any, net: Net) -> Any:
        """The state after round net.t."""


@dataclass(frozen=True)
class Needs:
    """What a rule asks of the graph, checked before a run."""

    symmetric: bool = False  # both directions of every link, with equal weights and one coin
    layers: tuple[str, ...] = ("peers",)
    one_hub: bool = False  # a server: all workers under a single hub
    common_start: bool = False  # all rows start from one model
    prox: bool = False  # not a need but an offer: the rule takes the proximal step of a regulariser
    instead: str = ""  # what to use when the graph does not fit


@dataclass(frozen=True)
class CyclePlan:
    """DFedAvg's cycle of local and aggregating rounds; D is taken from the resources where it is None."""

    D: int | None = None
    rounding: Literal["ceil", "floor"] = "ceil"
    sgd_while_aggregating: bool = False
    period: Literal["D+1", "D"] = "D+1"
    opens: bool = False  # the aggregating round comes first in each period, in place of last


@dataclass(frozen=True)
class Plan:
    """How a preset uses the resources it is given: another rule's `step` under another schedule.

    A coin of the given schedule says who is *able* to act. "always" means the preset waits for everyone, "given" that
    it takes the coins as they fall, and a cycle replaces them. Schedules without coins are followed as they are.
    """

    nodes: Literal["given", "always"] = "given"
    links: Literal["given", "always"] = "given"
    cycle: CyclePlan | None = None


def check_needs(algorithm: Algorithm, network: Network) -> None:
    """Refuse a graph on which the rule cannot be right, and say why."""
    needs, name = algorithm.needs, type(algorithm).__name__
    advice = f" {needs.instead}" if needs.instead else ""
    if needs.one_hub and network.hubs != 1:
        raise ConfigError(f"{name} needs a server, but graph '{network.name}' has {network.hubs} hubs.{advice}")
    for layer in needs.layers:
        if layer not in network.layers:
            raise ConfigError(
                f"{name} mixes over layer '{layer}', but graph '{network.name}' has {', '.join(network.layers)}.{advice}"
            )
        if needs.symmetric and not network.layers[layer].symmetric:
            kind = "is directed" if network.directed else "has unequal weights in the two directions of a link"
            raise ConfigError(f"{name} needs symmetric links, but graph '{network.name}' {kind}.{advice}")
