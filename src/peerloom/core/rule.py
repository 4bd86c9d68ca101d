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
    "WHOLE",
    "CyclePlan",
    "Plan",
    "Requirements",
    "Rule",
    "check_links",
    "check_message",
    "check_needs",
    "objective_over",
]

MODELS: tuple[Fit, ...] = ("whole", "paired", "part", "rounded")
"""For rules that send models: a missing coordinate is a link that did not fire."""

MASS: tuple[Fit, ...] = ("whole", "paired", "part")
"""For rules that push: what leaves one row must arrive in another, coordinate by coordinate."""

MEAN: tuple[Fit, ...] = ("whole", "paired")
"""For rules whose trackers keep their mean only under symmetric mixing."""

STEADY: tuple[Fit, ...] = ("whole", "rounded")
"""For rules that count on the same mixing matrix in every round."""

WHOLE: tuple[Fit, ...] = ("whole",)
"""For rules that mix several times in a row, and would add up what a message leaves out."""

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

    Settings of which every client may have its own are named in `per_client`, a class variable;
    where they are tuples, an experiment sees that there is one entry for each client. Settings that
    act only where a client skips a round are named in `for_skippers`, another one. For theory a
    rule may say whose theorems speak of it: `family`, a class variable. And for measures `mass`,
    the field of its state by which rows count in the averaged model, where they do not count alike
    (a class variable; see `mean_model`), and `objective`: "samples" where what it minimises is the
    mean over all samples, and not over clients (a class variable). A rule whose settings are for
    rows of some length has a method `check_row(n)`, which refuses others.
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
    hubs_agree: bool = False  # hubs that average with each other all have one model afterwards
    common_start: bool = False  # all rows start from one model
    prox: bool = False  # not a need but an offer: the rule takes the proximal step of a regulariser
    instead: str = ""  # what to use when the graph does not fit
    accepts: tuple[Fit, ...] = MODELS  # how its rows may arrive
    # Which links may stay silent: any, any that the schedule lets rest but none that fires, none
    # unless all do, or never one.
    links: Literal["any", "scheduled", "together", "all"] = "any"
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
    everyone, "given" that it takes the coins as they fall, and a cycle replaces them. A refresh
    replaces the clients' part of any schedule. For the rest, schedules without coins are followed
    as they are.
    """

    nodes: Literal["given", "always"] = "given"
    links: Literal["given", "always"] = "given"
    cycle: CyclePlan | None = None
    refresh: int | None = None  # rounds between those in which all rows compute; links always fire
    quiet_start: bool = False  # without a schedule of its own, the first round does not talk


def objective_over(rule: Rule) -> Literal["clients", "samples"]:
    """Over what the rule's objective is a mean: clients count alike, or samples do."""
    return getattr(rule, "objective", "clients")


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
        if needs.hubs_agree and layer == "across":
            _check_hubs_agree(name, network)
        if needs.symmetric and not network.layers[layer].symmetric:
            kind = "has unequal weights in the two directions of a link"
            if network.directed:
                kind = "is directed"
            raise ConfigError(
                f"{name} needs symmetric links, but graph '{network.name}' {kind}.{advice}"
            )


def _check_hubs_agree(name: str, network: Network) -> None:
    # Hubs that average in place, as the authors' code has them, do not agree either: whoever asks
    # for that wants their numbers.
    if network.hubs_agree or network.recipe.get("compat"):
        return
    raise ConfigError(
        f"{name} averages the models of all hubs exactly, but with the weights between the hubs of "
        f"graph '{network.name}' their models stay apart. Use a complete hub graph without H, "
        "whose hubs average exactly, or a single hub, or MLLSGD."
    )


def check_message(rule: Rule, codec: Codec) -> None:
    """Refuse a codec with which the rule cannot be right, and say why."""
    if codec.fit not in rule.needs.accepts:
        raise ConfigError(f"{type(rule).__name__} cannot use {codec!r}, {_WHY[codec.fit]}.")


def check_links(rule: Rule, network: Network, activity: Activity, rounds: int) -> None:
    """Refuse a schedule under which the rule cannot be right; the first rounds tell."""
    needs = rule.needs
    if needs.links in ("any", "scheduled"):
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
