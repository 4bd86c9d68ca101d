"""Rules: a pair of functions over rows, with what they require of network, codec and links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from torch import Tensor

from ..errors import ConfigError
from .codec import Codec, Fit
from .network import Network
from .port import Port
from .protocols import Activity

__all__ = [
    "DIFFERENCES",
    "MASS",
    "MEAN",
    "MODELS",
    "STEADY",
    "CyclePlan",
    "Plan",
    "Requirements",
    "Rule",
    "check_links",
    "check_message",
    "check_needs",
]


MODELS: tuple[Fit, ...] = ("whole", "paired", "part", "rounded")
"""For rules that send models: a missing coordinate is a link that did not fire."""

MASS: tuple[Fit, ...] = ("whole", "paired", "part")
"""For rules that push: what leaves one row must arrive in another, coordinate by coordinate."""

MEAN: tuple[Fit, ...] = ("whole", "paired")
"""For rules whose trackers keep their mean only under symmetric mixing."""

STEADY: tuple[Fit, ...] = ("whole", "rounded")
"""For rules that count on the same mixing matrix in every round."""

DIFFERENCES: tuple[Fit, ...] = ("whole", "paired", "part", "rounded", "differences")
"""For rules that send differences from copies."""

_WHY: dict[Fit, str] = {
    "differences": "which is for differences from copies, such as CHOCO, DCD, BEER and SQuARM "
    "send. Use one of them, or a message such as Coordinates",
    "rounded": "which rounds: what arrives would not add up to what was sent, and its sums must. "
    "Use Dense()",
    "part": "which carries part of a row, and not the same part in both directions: its sums would "
    "drift. Use Dense, or Coordinates(..., per_pair=True) on an undirected graph with a rule that "
    "allows it",
    "paired": "which carries part of a row, but the rule counts on the same mixing in every round. "
    "Use Dense",
    "whole": "",
}


class Rule(Protocol):
    """A frozen dataclass with `init` and `step`.

    State is a named tuple of row tensors whose first field `x` is the model. A step returns a new
    state, changes nothing in place, and does the same on all rows; it does not count, log, time,
    save or plot.

    For theory a rule may say more of itself: `family`, whose theorems speak of it (a class
    variable), and `mixings`, how often it mixes its models in a round, where that is not once.
    """

    needs: ClassVar[Requirements]

    def init(self, x: Tensor, port: Port) -> Any:
        """The state of round 0, from the rows' first models."""

    def step(self, s: Any, port: Port) -> Any:
        """The state after round port.t."""


@dataclass(frozen=True)
class Requirements:
    """What a rule asks of the graph, checked before a run."""

    symmetric: bool = False  # both directions of every link, with equal weights and one coin
    layers: tuple[str, ...] = ("peers",)
    one_hub: bool = False  # a server: all workers under a single hub
    common_start: bool = False  # all rows start from one model
    prox: bool = False  # not a need but an offer: the rule takes the proximal step of a regulariser
    instead: str = ""  # what to use when the graph does not fit
    accepts: tuple[Fit, ...] = MODELS  # how its rows may arrive
    # Which links may stay silent: any, none unless all do, or never one.
    links: Literal["any", "together", "all"] = "any"
    # The offer by which models are combined.
    combines: Literal["pull", "average", "equal_average"] = "pull"
    eigenvalues_above: float = -1.0  # of the weights; a rule may not bear those below

    @property
    def keeps_mean(self) -> bool:
        """Whether what a message adds at one end of a link must be taken away at the other."""
        return self.symmetric and self.accepts == MEAN


@dataclass(frozen=True)
class CyclePlan:
    """DFedAvg's cycle of local and aggregating rounds; D = None takes D from the resources."""

    D: int | None = None
    rounding: Literal["ceil", "floor"] = "ceil"
    sgd_while_aggregating: bool = False
    period: Literal["D+1", "D"] = "D+1"
    opens: bool = False  # the aggregating round comes first in each period, in place of last


@dataclass(frozen=True)
class Plan:
    """How a preset uses the resources it is given: another rule's `step` under another schedule.

    A coin of the given schedule says who is *able* to act. "always" means the preset waits for
    everyone, "given" that it takes the coins as they fall, and a cycle replaces them. Schedules
    without coins are followed as they are.
    """

    nodes: Literal["given", "always"] = "given"
    links: Literal["given", "always"] = "given"
    cycle: CyclePlan | None = None
    quiet_start: bool = False  # without a schedule of its own, the first round does not talk


def check_needs(rule: Rule, network: Network) -> None:
    """Refuse a graph on which the rule cannot be right, and say why."""
    needs, name = rule.needs, type(rule).__name__
    advice = f" {needs.instead}" if needs.instead else ""
    if needs.one_hub and network.hubs != 1:
        raise ConfigError(
            f"{name} needs a server, but graph '{network.name}' has {network.hubs} hubs.{advice}"
        )
    for layer in needs.layers:
        if layer not in network.layers:
            raise ConfigError(
                f"{name} mixes over layer '{layer}', but graph '{network.name}' has "
                f"{', '.join(network.layers)}.{advice}"
            )
        if needs.symmetric and not network.layers[layer].symmetric:
            kind = "has unequal weights in the two directions of a link"
            if network.directed:
                kind = "is directed"
            raise ConfigError(
                f"{name} needs symmetric links, but graph '{network.name}' {kind}.{advice}"
            )


def check_message(rule: Rule, codec: Codec) -> None:
    """Refuse a codec with which the rule cannot be right, and say why."""
    if codec.fit not in rule.needs.accepts:
        raise ConfigError(f"{type(rule).__name__} cannot use {codec!r}, {_WHY[codec.fit]}.")


def check_links(rule: Rule, network: Network, activity: Activity, rounds: int) -> None:
    """Refuse a schedule under which the rule cannot be right; the first rounds tell."""
    needs = rule.needs
    if needs.links == "any":
        return
    wanted = "every link in every round"
    if needs.links == "together":
        wanted = "all links of a round, or none"
    for t in range(1, min(rounds, 32) + 1):
        for layer in needs.layers:
            live = activity.links(t, layer)
            if live.all() or (needs.links == "together" and not live.any()):
                continue
            raise ConfigError(
                f"{type(rule).__name__} needs {wanted}, but in round {t} the schedule lets "
                f"{int(live.sum())} of {len(live)} fire. Use the schedule Always, or a rule for "
                "sporadic links such as DSpodFL or SpodGT."
            )
